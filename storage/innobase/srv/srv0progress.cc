/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file srv/srv0progress.cc
What start-up is doing, and how far it is: error log, status variables, systemd.
Of a shutdown, what it waits for.

The start is a row of phases, some of them within others: redo is applied when
the scan has filled its memory, tablespaces are validated while the dictionary
is read. A Scope says which phase its thread is in. What is done in a phase is
counted by step(), from any thread; nothing else is asked of the code that does
the work.

Every innodb_startup_progress_interval seconds a thread writes a line for each
phase that is under way and tells the service manager. So nothing waits for a
report, and a start that hangs is reported too, with the time since which
nothing has moved.

The thread looks every LOOK_SEC seconds if the interval is longer. The service
manager gets more time only if something has moved since the last look: a
counter of a phase, the rows that the server has read or written, the pages that
it has read or written. Before the server is ready all of these come to an end
when the start hangs, so that its time runs out.

The lines are written with the level of "ready for connections", which
log_error_verbosity does not hide. A phase, or a whole start, that took less
than the interval is summed up with the level of a note.

A shutdown has another thread, from when InnoDB is told of it until its threads
end. What it waits for is known from the state in which InnoDB is, and how much
of that is left; the rest is the same.

Bytes read are those that the kernel has counted for the process: what came from
the page cache is not in them.

Mutex order: the mutex of the state is taken last, and never while writing to
the error log. */

#include "srv0progress.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#endif /* __linux__ */

#include "sql/table_cache.h"

#include "buf0buf.h"
#include "fil0observe.h"
#include "log0files_dict.h"
#include "log0sys.h"
#include "os0thread-create.h"
#include "srv0shutdown.h"
#include "srv0srv.h"
#include "trx0purge.h"
#include "trx0rseg.h"
#include "trx0sys.h"
#include "trx0trx.h"
#include "trx0undo.h"
#include "ut0log.h"

namespace startup_progress {

uint g_interval_sec = DEFAULT_INTERVAL_SEC;
Status g_status{};
std::array<std::atomic_uint64_t, N_PHASES> g_done{};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::seconds;

/** Names of a phase and of what it counts. */
struct Names {
  /** The phase. */
  const char *phase;
  /** What it counts; nullptr = bytes, "" = nothing. */
  const char *unit;
};

constexpr std::array<Names, N_PHASES> NAMES{{{"map", ""},
                                             {"listing", "files"},
                                             {"check", "files"},
                                             {"redo scan", nullptr},
                                             {"redo apply", "pages"},
                                             {"undo scan", "pages"},
                                             {"dictionary", "rows"},
                                             {"validation", "tablespaces"},
                                             {"rollback", "rows"}}};

/** What a shutdown waits for, and what is counted of it; "" = nothing. */
constexpr std::array<Names, N_WAITS> WAITS{{{"rollback", "rows"},
                                            {"background threads", ""},
                                            {"purge", "undo logs"},
                                            {"server", "open tables"},
                                            {"other threads", ""},
                                            {"flush", "pages"},
                                            {"files", ""}}};

/** A phase as the reporting thread sees it. */
struct Progress {
  /** Threads that are in it now. */
  size_t n_running{0};
  /** When it began or went on, if a thread is in it. */
  Clock::time_point since;
  /** What is known of it as of then, without what is in g_done. */
  Sample sample;
  /** What the server had read from storage then. */
  uint64_t bytes_read_before{0};
  /** Rows that the server had read and written then. */
  uint64_t rows_before{0};
  /** True if it has ended, or paused, since it was summed up. */
  bool has_run{false};
  /** Rate. */
  Meter meter;
};

/** State of the start. Never freed: the thread may live until the process ends
if a start fails half-way. */
struct State {
  /** Protects the members below. */
  std::mutex mutex;
  /** Notified when the thread has to end. */
  std::condition_variable changed;
  /** All phases. */
  std::array<Progress, N_PHASES> phases;
  /** When start-up began. */
  Clock::time_point begin;
  /** True until InnoDB is ready. */
  bool is_starting{false};
  /** True once InnoDB has begun to shut down. */
  bool is_stopping{false};
  /** True once a phase has begun for which there has to be a buffer pool. */
  bool has_pool{false};
  /** True if the thread has to end now. */
  bool must_stop{false};
  /** True if there is a thread, or there was and nobody has waited for it. */
  bool has_thread{false};
  /** The thread. */
  IB_thread thread;
};

State &state() {
  static State *s_state = new State;
  return *s_state;
}

/** The innermost object of this thread. */
thread_local Scope *s_scope = nullptr;

/** Format text.
@param[in]  format  as for printf
@return the text */
std::string print(const char *format, ...) MY_ATTRIBUTE((format(printf, 1, 2)));

std::string print(const char *format, ...) {
  char text[256];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);

  return text;
}

/** Writes to the error log. */
class Line : public ib::logger {
 public:
  /** Constructor.
  @param[in]  is_visible  false = a note
  @param[in]  text        what to write */
  Line(bool is_visible, const std::string &text)
      : ib::logger(is_visible ? SYSTEM_LEVEL : INFORMATION_LEVEL) {
    *this << text;
  }
};

/** @return bytes that this process has read from storage */
uint64_t storage_bytes_read() {
#ifdef __linux__
  struct rusage usage;

  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    return static_cast<uint64_t>(usage.ru_inblock) * 512;
  }
#endif /* __linux__ */
  return 0;
}

/** @return rows that all threads have read and written */
uint64_t n_rows() {
  return srv_stats.n_rows_read + srv_stats.n_system_rows_read +
         srv_stats.n_rows_inserted + srv_stats.n_system_rows_inserted +
         srv_stats.n_rows_updated + srv_stats.n_system_rows_updated +
         srv_stats.n_rows_deleted + srv_stats.n_system_rows_deleted;
}

/** @param[in]  has_pool  whether the buffer pool was made
@return a number that grows as long as start-up gets on */
uint64_t activity(bool has_pool) {
  uint64_t sum = n_rows();

  for (const auto &done : g_done) {
    sum += done.load(std::memory_order_relaxed);
  }

  if (has_pool) {
    for (ulint i = 0; i < srv_buf_pool_instances; ++i) {
      const auto &stat = buf_pool_from_array(i)->stat;
      sum += stat.n_pages_read.load() + stat.n_pages_written.load();
    }
  }

  return sum;
}

/** What is known of a phase now. The mutex is held.
@param[in]  phase  phase
@return what is known */
Sample sample_now(Phase phase) {
  const auto no = static_cast<size_t>(phase);
  const auto &progress = state().phases[no];
  auto sample = progress.sample;

  if (progress.n_running > 0) {
    sample.elapsed +=
        duration_cast<microseconds>(Clock::now() - progress.since);
    sample.bytes_read += storage_bytes_read() - progress.bytes_read_before;

    if (phase == Phase::DICTIONARY) {
      sample.done += n_rows() - progress.rows_before;
    }
  }

  return sample;
}

/** @param[in]  phase  phase
@param[in]  sample  of sample_now()
@return the sample with what was counted */
Sample with_done(Phase phase, Sample sample) {
  sample.done +=
      g_done[static_cast<size_t>(phase)].load(std::memory_order_relaxed);
  return sample;
}

/** A thread goes into a phase. The mutex is held.
@param[in]  phase  phase
@param[in]  total  what there is to be done in addition */
void resume(Phase phase, uint64_t total = 0) {
  auto &progress = state().phases[static_cast<size_t>(phase)];

  progress.sample.total += total;

  if (progress.n_running++ == 0) {
    progress.since = Clock::now();
    progress.bytes_read_before = storage_bytes_read();
    progress.rows_before = n_rows();
  }
}

/** A thread leaves a phase. The mutex is held.
@param[in]  phase  phase */
void pause(Phase phase) {
  const auto no = static_cast<size_t>(phase);
  auto &progress = state().phases[no];

  ut_a(progress.n_running > 0);

  if (progress.n_running == 1) {
    progress.sample = sample_now(phase);
    progress.has_run = true;
    g_status.phase_usec[no] = progress.sample.elapsed.count();
  }
  --progress.n_running;
}

/** @param[in]  usec  duration
@return whether it is long enough to be told */
bool is_long(microseconds usec) { return usec >= seconds(g_interval_sec); }

/** Sum up the phases that nobody is in any more. */
void sum_up() {
  std::vector<std::pair<bool, std::string>> lines;

  {
    std::lock_guard<std::mutex> guard{state().mutex};

    for (size_t no = 0; no < N_PHASES; ++no) {
      auto &progress = state().phases[no];

      if (progress.has_run && progress.n_running == 0) {
        const auto phase = static_cast<Phase>(no);

        progress.has_run = false;
        lines.emplace_back(
            is_long(progress.sample.elapsed),
            summary_line(phase, with_done(phase, progress.sample)));
      }
    }
  }

  if (g_interval_sec > 0) {
    for (const auto &line : lines) {
      Line(line.first, line.second);
    }
  }
}

/** Send a message to the service manager, if there is one.
@param[in]  message  the message */
void notify(const std::string &message) {
#ifdef __linux__
  const char *path = getenv("NOTIFY_SOCKET");
  sockaddr_un address{};

  if (message.empty() || path == nullptr ||
      (path[0] != '/' && path[0] != '@') ||
      strlen(path) >= sizeof(address.sun_path)) {
    return;
  }

  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path, strlen(path));
  if (path[0] == '@') {
    address.sun_path[0] = '\0';
  }

  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  if (fd != -1) {
    /* A service manager that does not listen must not hold the start up. */
    std::ignore =
        sendto(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr *>(&address),
               offsetof(sockaddr_un, sun_path) + strlen(path));
    close(fd);
  }
#endif /* __linux__ */
}

/** What the thread does. */
void report() {
  auto &s = state();
  std::unique_lock<std::mutex> lock{s.mutex};
  Watch watch{g_interval_sec, activity(s.has_pool)};

  while (!s.changed.wait_for(lock, seconds{watch.wait_sec()},
                             [&] { return s.must_stop; })) {
    const auto is_busy = std::any_of(
        s.phases.begin(), s.phases.end(),
        [](const Progress &progress) { return progress.n_running > 0; });
    const auto action =
        watch.look(activity(s.has_pool), s.is_starting, is_busy);
    std::vector<std::string> lines;

    if (action.ends) {
      return;
    }

    for (size_t no = 0; no < N_PHASES && action.writes; ++no) {
      auto &progress = s.phases[no];

      if (progress.n_running > 0) {
        const auto phase = static_cast<Phase>(no);
        const auto sample = with_done(phase, sample_now(phase));

        progress.meter.add(sample);
        lines.push_back(
            progress_line(phase, sample, progress.meter, action.stalled_sec));
      }
    }

    if (action.writes && lines.empty() && s.is_starting &&
        action.stalled_sec > 0) {
      lines.push_back(
          print("Start-up: no progress for %u s", action.stalled_sec));
    }

    const auto message =
        s.is_starting
            ? notification(lines.empty() ? "" : lines.back(), action.extend_sec)
            : "";
    lock.unlock();

    for (const auto &line : lines) {
      Line(true, line);
    }
    notify(message);

    lock.lock();
  }
}

/** @return what a shutdown waits for in a state of InnoDB, and what is left of
it. Nothing that is read here is freed before the thread has ended. */
Left left_now() {
  const auto wait = wait_in(srv_shutdown_state.load());

  if (!is_counted(wait, srv_fast_shutdown)) {
    return {wait, std::nullopt};
  }

  switch (wait) {
    case Wait::ROLLBACK: {
      std::lock_guard<std::mutex> guard{state().mutex};
      const auto sample =
          with_done(Phase::ROLLBACK, sample_now(Phase::ROLLBACK));
      return {wait, sample.total - std::min(sample.done, sample.total)};
    }

    case Wait::PURGE:
      return {wait, trx_sys->rseg_history_len.load()};

    case Wait::SERVER:
      return {wait, table_cache_manager.cached_tables()};

    case Wait::FLUSH: {
      uint64_t n_pages = 0;

      for (ulint i = 0; i < srv_buf_pool_instances; ++i) {
        n_pages += UT_LIST_GET_LEN(buf_pool_from_array(i)->flush_list);
      }
      return {wait, n_pages};
    }

    case Wait::THREADS:
    case Wait::OTHER_THREADS:
    case Wait::FILES:
      break;
  }

  return {wait, std::nullopt};
}

/** What the thread of a shutdown does.
@param[in]  begin  when InnoDB began to shut down
@param[in]  left   what it waited for then
@param[in]  watch  watches it since then */
void report_shutdown(Clock::time_point begin, Left left, Watch watch) {
  auto &s = state();
  std::unique_lock<std::mutex> lock{s.mutex};
  auto wait_begin = begin;
  auto total = left.count.value_or(0);
  Meter meter;

  while (!s.changed.wait_for(lock, seconds{watch.wait_sec()},
                             [&] { return s.must_stop; })) {
    lock.unlock();

    const auto now = Clock::now();
    const auto before = left.wait;

    left = left_now();

    if (left.wait != before) {
      wait_begin = now;
      total = 0;
      meter = Meter{};
    }

    const auto count = left.count.value_or(0);
    const auto action =
        watch.look(shutdown_activity(activity(true), left), true, true);
    std::string line;

    total = std::max(total, count);

    if (action.writes) {
      meter.add({duration_cast<microseconds>(now - wait_begin), total - count,
                 total, 0});
      line = shutdown_line(left, duration_cast<microseconds>(now - begin),
                           meter, action.stalled_sec);
      Line(true, line);
    }
    notify(notification(line, action.extend_sec));

    lock.lock();
  }
}

/** Start a thread, unless the interval is 0. The mutex is held, and there is no
thread.
@param[in]  f     what it does
@param[in]  args  its arguments */
template <typename F, typename... Args>
void launch(F f, Args... args) {
  auto &s = state();

  if (g_interval_sec == 0) {
    return;
  }

  try {
    s.must_stop = false;
    s.thread = os_thread_create(PFS_NOT_INSTRUMENTED, 0, f, args...);
    s.thread.start();
    s.has_thread = true;
  } catch (const std::system_error &) {
    /* The start, or the shutdown, matters more than reports of it. */
  }
}

/** @param[in]  phase  phase
@param[in]  n  a number of what it counts
@return the number, without the unit */
std::string number(Phase phase, double n) {
  return NAMES[static_cast<size_t>(phase)].unit != nullptr
             ? print("%.0f", n)
             : print("%.1f", n / (1024 * 1024));
}

/** @param[in]  phase  phase
@return unit of what it counts */
const char *unit(Phase phase) {
  const auto unit = NAMES[static_cast<size_t>(phase)].unit;
  return unit != nullptr ? unit : "MiB";
}

/** @param[in]  phase  phase
@return whether it counts anything */
bool is_counting(Phase phase) {
  const auto unit = NAMES[static_cast<size_t>(phase)].unit;
  return unit == nullptr || *unit != '\0';
}

/** @param[in]  phase  phase
@param[in]  rate  of it, per second
@return rate with its unit, after a comma */
std::string rate_text(Phase phase, double rate) {
  return ", " + number(phase, rate) + " " + unit(phase) + "/s";
}

/** @param[in]  bytes  bytes that were read
@return text, after a comma */
std::string read_text(uint64_t bytes) {
  return print(", %.1f MiB read", static_cast<double>(bytes) / (1024 * 1024));
}

/** @param[in]  phase  phase
@return beginning of a line */
std::string head(Phase phase) {
  return std::string("Start-up, ") + NAMES[static_cast<size_t>(phase)].phase +
         ": ";
}

/** @param[in]  usec  duration
@return seconds */
double to_sec(microseconds usec) { return usec.count() / 1e6; }

/** @param[in]  meter        rate of what is done
@param[in]      stalled_sec  seconds since anything was done
@return how it gets on, after a comma; empty if that is not known */
std::string outlook(const Meter &meter, uint stalled_sec) {
  if (stalled_sec > 0) {
    return print(", no progress for %u s", stalled_sec);
  }
  return meter.seconds_left() >= 0
             ? print(", about %.0f s left", meter.seconds_left())
             : "";
}

}  // namespace

void Meter::add(const Sample &sample) {
  if (sample.elapsed <= m_samples.back().elapsed) {
    return;
  }

  if (sample.done < m_samples.back().done) {
    /* It began again. */
    m_samples.clear();
  }

  m_samples.push_back(sample);

  if (m_samples.size() > WINDOW) {
    m_samples.pop_front();
  }
}

double Meter::rate() const {
  const auto &first = m_samples.front();
  const auto &last = m_samples.back();

  if (last.elapsed <= first.elapsed) {
    return 0;
  }

  return static_cast<double>(last.done - first.done) /
         to_sec(last.elapsed - first.elapsed);
}

double Meter::seconds_left() const {
  const auto &last = m_samples.back();
  const auto per_sec = rate();

  if (last.total == 0 || last.done > last.total || per_sec <= 0) {
    return -1;
  }

  return static_cast<double>(last.total - last.done) / per_sec;
}

Watch::Action Watch::look(uint64_t activity, bool is_starting, bool is_busy) {
  const auto waited_sec = wait_sec();
  const auto is_stalled = activity == m_activity;

  m_activity = activity;
  m_stalled_sec = is_stalled ? m_stalled_sec + waited_sec : 0;
  m_left_sec -= waited_sec;

  const auto writes = m_left_sec == 0;

  if (writes) {
    m_left_sec = m_interval_sec;
  }

  /* Between the end of the start and the first transaction of the rollback in
  background there is a moment in which nothing is under way. */
  m_n_idle = is_starting || is_busy ? 0 : m_n_idle + 1;

  return {writes, is_starting && !is_stalled ? wait_sec() + GRACE_SEC : 0,
          m_stalled_sec, m_n_idle > 1};
}

std::string progress_line(Phase phase, const Sample &sample, const Meter &meter,
                          uint stalled_sec) {
  auto line = head(phase);

  if (!is_counting(phase)) {
    line +=
        print("%.1f s", to_sec(sample.elapsed)) + read_text(sample.bytes_read);
    if (stalled_sec > 0) {
      line += print(", no progress for %u s", stalled_sec);
    }
    return line;
  }

  line += number(phase, sample.done);

  if (sample.total > 0 && sample.done <= sample.total) {
    line += " of " + number(phase, sample.total) + " " + unit(phase) +
            print(" (%.0f%%)", std::floor(100.0 * sample.done / sample.total));
  } else {
    line += std::string(" ") + unit(phase);
  }

  return line + print(" in %.1f s", to_sec(sample.elapsed)) +
         read_text(sample.bytes_read) + rate_text(phase, meter.rate()) +
         outlook(meter, stalled_sec);
}

std::string summary_line(Phase phase, const Sample &sample) {
  auto line = head(phase) + "ended, ";

  if (is_counting(phase)) {
    line += number(phase, sample.done) + " " + unit(phase) + " ";
  }
  line +=
      print("in %.1f s", to_sec(sample.elapsed)) + read_text(sample.bytes_read);

  if (sample.done > 0 && sample.elapsed.count() > 0) {
    line += rate_text(phase, sample.done / to_sec(sample.elapsed));
  }

  return line;
}

std::string end_line(const Status &status) {
  auto line = print("Start-up took %.1f s", status.usec / 1e6);
  const char *separator = ": ";

  for (size_t no = 0; no < N_PHASES; ++no) {
    if (status.phase_usec[no] >= MIN_SHOWN_USEC) {
      line += print("%s%s %.1f", separator, NAMES[no].phase,
                    status.phase_usec[no] / 1e6);
      separator = ", ";
    }
  }

  return line;
}

Wait wait_in(srv_shutdown_t shutdown_state) {
  switch (shutdown_state) {
    case SRV_SHUTDOWN_RECOVERY_ROLLBACK:
      return Wait::ROLLBACK;
    case SRV_SHUTDOWN_NONE:
    case SRV_SHUTDOWN_PRE_DD_AND_SYSTEM_TRANSACTIONS:
      return Wait::THREADS;
    case SRV_SHUTDOWN_PURGE:
      return Wait::PURGE;
    case SRV_SHUTDOWN_DD:
      return Wait::SERVER;
    case SRV_SHUTDOWN_CLEANUP:
    case SRV_SHUTDOWN_MASTER_STOP:
      return Wait::OTHER_THREADS;
    case SRV_SHUTDOWN_FLUSH_PHASE:
      return Wait::FLUSH;
    case SRV_SHUTDOWN_LAST_PHASE:
    case SRV_SHUTDOWN_EXIT_THREADS:
      break;
  }

  return Wait::FILES;
}

bool is_counted(Wait wait, ulong fast_shutdown) {
  switch (wait) {
    case Wait::ROLLBACK:
    case Wait::PURGE:
      return fast_shutdown == 0;
    case Wait::FLUSH:
      return fast_shutdown < 2;
    case Wait::SERVER:
      return true;
    case Wait::THREADS:
    case Wait::OTHER_THREADS:
    case Wait::FILES:
      break;
  }

  return false;
}

uint64_t shutdown_activity(uint64_t activity, const Left &left) {
  return activity + (uint64_t{static_cast<size_t>(left.wait)} << 48) -
         left.count.value_or(0);
}

std::string shutdown_line(const Left &left, microseconds elapsed,
                          const Meter &meter, uint stalled_sec) {
  const auto &names = WAITS[static_cast<size_t>(left.wait)];
  auto line = print("Shutdown, %s: ", names.phase);

  if (left.count) {
    line += print("%" PRIu64 " %s left, ", *left.count, names.unit);
  }
  line += print("%.1f s since it began", to_sec(elapsed));

  if (meter.rate() > 0) {
    line += print(", %.0f %s/s", meter.rate(), names.unit);
  }

  return line + outlook(meter, stalled_sec);
}

std::string notification(const std::string &text, uint extend_sec) {
  std::string message;

  if (!text.empty()) {
    message += "STATUS=" + text + "\n";
  }
  if (extend_sec > 0) {
    message += print("EXTEND_TIMEOUT_USEC=%" PRIu64 "\n",
                     uint64_t{extend_sec} * 1000 * 1000);
  }

  return message;
}

void start() {
  auto &s = state();
  std::lock_guard<std::mutex> guard{s.mutex};

  s.begin = Clock::now();
  s.is_starting = true;

  if (!s.has_thread) {
    launch(report);
  }
}

void begin_shutdown() {
  auto &s = state();

  /* That of the start reports until the rollback in background has ended. */
  stop();

  const auto left = left_now();
  std::lock_guard<std::mutex> guard{s.mutex};

  s.is_stopping = true;
  launch(report_shutdown, Clock::now(), left,
         Watch{g_interval_sec, shutdown_activity(activity(true), left)});
}

void stop() {
  auto &s = state();

  {
    std::lock_guard<std::mutex> guard{s.mutex};

    if (!s.has_thread) {
      return;
    }
    s.has_thread = false;
    s.must_stop = true;
    s.changed.notify_all();
  }

  s.thread.join();

  if (s.is_stopping) {
    notify(notification("", REST_SEC));
  }
}

End::~End() {
  auto &s = state();

  {
    std::lock_guard<std::mutex> guard{s.mutex};

    g_status.usec = duration_cast<microseconds>(Clock::now() - s.begin).count();
    s.is_starting = false;
  }

  if (g_interval_sec > 0) {
    Line(is_long(microseconds(g_status.usec)), end_line(g_status));
    notify(notification("", REST_SEC));
  }
}

Scope::Scope(Phase phase, uint64_t total) : m_phase(phase), m_outer(s_scope) {
  std::lock_guard<std::mutex> guard{state().mutex};

  if (phase >= Phase::REDO_SCAN) {
    state().has_pool = true;
  }
  if (m_outer != nullptr) {
    pause(m_outer->m_phase);
  }
  resume(m_phase, total);
  s_scope = this;
}

Scope::~Scope() {
  {
    std::lock_guard<std::mutex> guard{state().mutex};

    pause(m_phase);
    if (m_outer != nullptr) {
      resume(m_outer->m_phase);
    }
  }

  s_scope = m_outer;

  if (m_outer == nullptr) {
    sum_up();
  }
}

void Scope::enter(Phase phase, uint64_t total) {
  {
    std::lock_guard<std::mutex> guard{state().mutex};

    pause(m_phase);
    m_phase = phase;
    resume(m_phase, total);
  }

  if (m_outer == nullptr) {
    sum_up();
  }
}

void set_total(Phase phase, uint64_t total) {
  std::lock_guard<std::mutex> guard{state().mutex};
  state().phases[static_cast<size_t>(phase)].sample.total = total;
}

void step_rollback(const trx_undo_rec_t *undo_rec, const trx_t &trx) {
  if (undo_rec != nullptr &&
      is_rolled_back_by_recovery(trx.is_recovered,
                                 trx.state.load(std::memory_order_relaxed))) {
    step(Phase::ROLLBACK);
  }
}

Scope scan_redo(const log_t &log, lsn_t checkpoint_lsn) {
  auto end_lsn = checkpoint_lsn;

  for (const auto &file : log.m_files) {
    end_lsn = std::max(end_lsn, file.m_end_lsn);
  }

  return Scope{Phase::REDO_SCAN, end_lsn - checkpoint_lsn};
}

void redo_scanned(lsn_t lsn, lsn_t checkpoint_lsn) {
  set_done(Phase::REDO_SCAN, lsn - std::min(lsn, checkpoint_lsn));
}

void expect_undo_scan() {
  uint64_t n_pages = 0;

  undo::spaces->s_lock();
  for (const auto undo_space : undo::spaces->m_spaces) {
    undo_space->rsegs()->s_lock();
    for (const auto rseg : *undo_space->rsegs()) {
      for (const auto undo : rseg->insert_undo_list) {
        n_pages += undo->size;
      }
      for (const auto undo : rseg->update_undo_list) {
        n_pages += undo->size;
      }
    }
    undo_space->rsegs()->s_unlock();
  }
  undo::spaces->s_unlock();

  set_total(Phase::UNDO_SCAN, n_pages);
}

Scope roll_back(bool all) {
  uint64_t n_rows = 0;

  trx_sys_mutex_enter();
  for (const auto trx : trx_sys->rw_trx_list) {
    const auto state = trx->state.load(std::memory_order_relaxed);

    if ((all || trx->ddl_operation) &&
        is_rolled_back_by_recovery(trx->is_recovered, state)) {
      n_rows += trx->undo_no;
    }
  }
  trx_sys_mutex_exit();

  return Scope{Phase::ROLLBACK, n_rows};
}

namespace {

/** Reports the scan for tablespace files. */
class Scan_reporter : public scan_observer::Observer {
 public:
  Scan_reporter() : Observer(scan_observer::Place::REPORT) {}

  /* Observers may read a map of the files first. */
  void begin(const scan_observer::Roots &) override {
    m_scope.emplace(Phase::MAP);
  }

  void list() override { m_scope->enter(Phase::LISTING); }

  void found() override { step(Phase::LISTING); }

  void listed(const scan_observer::Files &files, size_t n_undo,
              size_t &) override {
    m_scope->enter(Phase::CHECK, files.size() + n_undo);
  }

  void checked(space_id_t) override { step(Phase::CHECK); }

  bool end(bool) override {
    m_scope.reset();
    return false;
  }

 private:
  /** Lives as long as the scan. */
  std::optional<Scope> m_scope;
};

Scan_reporter s_scan_reporter;

}  // namespace

}  // namespace startup_progress
