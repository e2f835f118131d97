/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0observe.cc
Observers of the scan for tablespace files at start-up. */

#include "fil0observe.h"

#include <cstddef>
#include <vector>

namespace scan_observer {

/* Observers are objects of other files that are made before main() runs, in an
order that is not known: this one has to be there before. */
constinit Observers g_observers;

void Observers::add(Observer &observer) {
  auto link = &m_first;

  while (*link != nullptr && (*link)->m_place <= observer.m_place) {
    link = &(*link)->m_next;
  }
  observer.m_next = *link;
  *link = &observer;
}

Observer::Observer(Place place, Observers &observers) : m_place(place) {
  observers.add(*this);
}

void checked(space_id_t space_id) {
  for (auto o = g_observers.first(); o != nullptr; o = o->m_next) {
    o->checked(space_id);
  }
}

void Scan::begin() {
  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    o->begin(m_roots);
  }
  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    o->list();
  }
}

void Scan::found() {
  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    o->found();
  }
}

void Scan::listed(const Files &files, size_t n_undo, size_t &n_threads) {
  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    o->listed(files, n_undo, n_threads);
  }
}

bool Scan::check_each(size_t n_files, const Check &check) {
  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    if (o->check(n_files, check)) {
      return true;
    }
  }
  return false;
}

bool Scan::end(bool has_duplicates) {
  std::vector<Observer *> observers;

  for (auto o = m_observers.first(); o != nullptr; o = o->m_next) {
    observers.push_back(o);
  }

  bool is_repeated = false;

  for (auto it = observers.rbegin(); it != observers.rend(); ++it) {
    is_repeated = (*it)->end(has_duplicates) || is_repeated;
  }
  return is_repeated;
}

}  // namespace scan_observer
