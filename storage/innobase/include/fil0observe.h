/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0observe.h
Observers of the scan for tablespace files at start-up. The scan tells them what
it does; without any it does what it would do without this file. */

#ifndef fil0observe_h
#define fil0observe_h

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fil0types.h"
#include "univ.i"

namespace scan_observer {

/** Directories that are scanned: path as given, absolute path; both end with a
separator. */
using Roots = std::vector<std::pair<std::string, std::string>>;

/** Files that were found: number of the directory, and path below it. */
using Files = std::vector<std::pair<uint16_t, std::string>>;

/** Checks one file.
@param[in]  file       its number among the files
@param[in]  thread_no  number of the thread, 0 for the calling thread */
using Check = std::function<void(size_t file, size_t thread_no)>;

/** Place of an observer. Those before are told of everything first, but of the
end last. */
enum class Place {
  /** Reports what the scan does. */
  REPORT,
  /** Knows files from an earlier start. */
  MEMORY,
  /** Checks files. */
  CHECK,
  /** Lists directories and reads files. */
  INPUT
};

class Observer;

/** Observers in the order of their places. */
class Observers {
 public:
  constexpr Observers() = default;

  Observers(const Observers &) = delete;
  Observers &operator=(const Observers &) = delete;

  /** Add an observer, behind others of its place.
  @param[in,out]  observer  the observer */
  void add(Observer &observer);

  /** @return the first one, or nullptr */
  [[nodiscard]] Observer *first() const { return m_first; }

 private:
  /** The first one. */
  Observer *m_first{};
};

/** Those of the server. */
extern Observers g_observers;

/** Is told what the scan does, by the thread that scans unless said otherwise.
Makes itself known when it is constructed, and lives as long as its list. */
class Observer {
 public:
  /** Constructor.
  @param[in]      place      place among the observers
  @param[in,out]  observers  where to be added */
  explicit Observer(Place place, Observers &observers = g_observers);
  virtual ~Observer() = default;

  Observer(const Observer &) = delete;
  Observer &operator=(const Observer &) = delete;

  /** The scan begins.
  @param[in]  roots  directories; valid until the scan ends */
  virtual void begin(const Roots &roots [[maybe_unused]]) {}

  /** All observers know of the beginning; the directories are listed next. */
  virtual void list() {}

  /** A file was found. */
  virtual void found() {}

  /** All files are known, and are checked next.
  @param[in]      files      data files; valid until the scan ends
  @param[in]      n_undo     undo tablespace files
  @param[in,out]  n_threads  threads that check data files, besides this one */
  virtual void listed(const Files &files [[maybe_unused]],
                      size_t n_undo [[maybe_unused]],
                      size_t &n_threads [[maybe_unused]]) {}

  /** Check the data files in place of the scan.
  @param[in]  n_files  number of data files
  @param[in]  check    checks one of them; thread-safe
  @return false if nothing was done */
  [[nodiscard]] virtual bool check(size_t n_files [[maybe_unused]],
                                   const Check &check [[maybe_unused]]) {
    return false;
  }

  /** A file was looked at. Called by the thread that did, of several.
  @param[in]  space_id  its tablespace ID, if it has one */
  virtual void checked(space_id_t space_id [[maybe_unused]]) {}

  /** The scan ends.
  @param[in]  has_duplicates  whether tablespaces have more than one file
  @return true if it has to be repeated */
  [[nodiscard]] virtual bool end(bool has_duplicates [[maybe_unused]]) {
    return false;
  }

 private:
  friend class Observers;
  friend class Scan;
  friend void checked(space_id_t space_id);

  /** Place among the observers. */
  const Place m_place;

  /** The one behind it. */
  Observer *m_next{};
};

/** A file was looked at. Thread-safe.
@param[in]  space_id  its tablespace ID, if it has one */
void checked(space_id_t space_id);

/** Stands in the scan and tells the observers. */
class Scan {
 public:
  /** The scan begins.
  @param[in]  dirs       the directories
  @param[in]  observers  whom to tell */
  template <typename Dirs>
  explicit Scan(const Dirs &dirs, const Observers &observers = g_observers)
      : m_observers(observers) {
    for (const auto &dir : dirs) {
      m_roots.emplace_back(dir.path(), dir.root().abs_path());
    }
    begin();
  }

  Scan(const Scan &) = delete;
  Scan &operator=(const Scan &) = delete;

  /** A file was found. */
  void found();

  /** All files are known.
  @param[in]      files      data files
  @param[in]      n_undo     undo tablespace files
  @param[in,out]  n_threads  threads that check data files, besides this one */
  void listed(const Files &files, size_t n_undo, size_t &n_threads);

  /** Let an observer check the data files. If one does, nothing is left to do.
  @param[in]      files      the files
  @param[in,out]  n_threads  threads that check them, besides this one; 0 if
                             nothing is left
  @param[in,out]  check      checks a range of them: called with its begin and
                             end, the number of the thread, and args;
                             thread-safe. Does nothing if nothing is left.
  @param[in]      args       further arguments of check */
  template <typename F, typename... Args>
  void check(const Files &files, size_t &n_threads, F &check, Args... args) {
    if (check_each(files.size(), [&](size_t file, size_t thread_no) {
          const auto it = files.begin() + file;
          check(it, it + 1, thread_no, args...);
        })) {
      n_threads = 0;
      check = [](auto &&...) {};
    }
  }

  /** The scan ends.
  @param[in]      has_duplicates  whether tablespaces have more than one file
  @param[in,out]  scanned         what was found; cleared if the scan has to be
                                  repeated
  @return true if it has to be repeated */
  template <typename Scanned>
  [[nodiscard]] bool end(bool has_duplicates, Scanned &scanned) {
    if (!end(has_duplicates)) {
      return false;
    }
    scanned.clear();
    return true;
  }

 private:
  void begin();
  [[nodiscard]] bool check_each(size_t n_files, const Check &check);
  [[nodiscard]] bool end(bool has_duplicates);

  /** Whom to tell. */
  const Observers &m_observers;

  /** Directories that are scanned. */
  Roots m_roots;
};

}  // namespace scan_observer

#endif /* fil0observe_h */
