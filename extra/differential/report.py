# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a run of the differential test says, and whether it says anything about the map."""

from __future__ import annotations

from collections import Counter
from typing import Any

# What is counted besides, by the name in the report of a state.
ALSO = {"refused": "refused", "in place": "in_place", "cut short": "cut", "run again": "again",
        "met, then given up at that start": "rejected", "encrypted": "encrypted", "with a mount": "mounted",
        "dictionary not read": "lazy", "journal used": "journal", "another server last": "heir", "with stock": "stock"}
# Of the states that were compared, at most so many may have been compared in part only.
MAX_CUT = 0.25
# Of so many states that were met some first start must have used the journal; one in ten does. In a shorter run the canary
# that does not write it shows that it matters.
MANY_MET = 60
# A kill at a system call has to happen once in so many tries.
MAX_MISSES = 10


class Report:
    """Sums up the reports of states, and of canaries. Without `needs_stock` none need be shown to stock."""

    def __init__(self, needs_stock: bool = True) -> None:
        self.needs_stock = needs_stock
        self.states = 0
        # States in which no start can use a map: it was removed or damaged, or was made for other directories.
        self.without_map = 0
        self.map_used = 0
        self.files_trusted = 0
        # States in which the first start used the map and trusted a file, and a change was in reach.
        self.met = 0
        self.mutations: Counter[str] = Counter()
        self.met_mutations: Counter[str] = Counter()
        self.differences = 0
        self.canaries: dict[str, int | None] = {}
        self.also: Counter[str] = Counter()
        # By system call: kills that were tried, and that happened.
        self.kill_tries: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()

    def add(self, state: dict[str, Any]) -> None:
        """Count a state."""
        self.states += 1
        self.differences += state["difference"] is not None
        self.without_map += not state.get("usable", False)
        self.map_used += state.get("used", False)
        self.files_trusted += state.get("trusted", 0)
        kinds = set(state["mutations"])
        self.mutations.update(kinds)
        if state.get("met", False):
            self.met += bool(kinds) and state.get("usable", False)
            self.met_mutations.update(kinds)
        for point, (tries, hits) in state.get("kills_at", {}).items():
            self.kill_tries[point] += tries
            self.kills[point] += hits
        values = state | {"refused": state.get("starts") is False, "again": state.get("runs", 1) > 1}
        self.also.update(name for name, key in ALSO.items() if values.get(key))

    def problems(self) -> list[str]:
        """Why the run proves nothing, or what it has found; nothing if it has passed."""
        found = []
        if not self.states:
            found.append("there was no state")
        elif self.needs_stock and not self.also["with stock"]:
            found.append("no state was shown to stock")
        if self.differences:
            found.append(f"{self.differences} states with a difference")
        if 2 * self.met < self.states:
            found.append(f"in only {self.met} of {self.states} states did the first start trust a file while a change"
                         " was in reach: this run says little about the map")
        if self.met >= MANY_MET and not self.also["journal used"]:
            found.append("no first start used the journal of the map")
        if self.also["cut short"] > max(1, MAX_CUT * self.states):
            found.append(f"{self.also['cut short']} of {self.states} states were compared in part only")
        found += [f"none of {tries} kills at {point} happened" for point, tries in self.kill_tries.items()
                  if tries >= MAX_MISSES and not self.kills[point]]
        found += [f"the canary {name} was not found" for name, states in self.canaries.items() if states is None]
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "states_map_used": self.map_used,
            "states_without_usable_map": self.without_map,
            "states_met_trusting_map": self.met,
            "states_met_giving_up_map": self.also["met, then given up at that start"],
            "states_journal_used": self.also["journal used"],
            "files_trusted": self.files_trusted,
            "mutations": {
                kind: {"states": self.mutations[kind], "met_trusting_map": self.met_mutations[kind]}
                for kind in sorted(self.mutations)
            },
            "differences": self.differences,
            "kills_at_system_calls": {
                point: {"tried": tries, "happened": self.kills[point]}
                for point, tries in sorted(self.kill_tries.items())
            },
            "canaries": dict(self.canaries),
        }

    def lines(self) -> list[str]:
        """The same in words."""
        kinds = ", ".join(f"{kind} {self.met_mutations[kind]}/{number}" for kind, number in
                          sorted(self.mutations.items()))
        canaries = ", ".join(f"{name} {'NOT FOUND' if states is None else states}"
                             for name, states in self.canaries.items())
        kills = ", ".join(f"{point} {self.kills[point]}/{tries}"
                          for point, tries in sorted(self.kill_tries.items()))
        also = ", ".join(f"{name}: {self.also[name]}" for name in ALSO)
        return [
            f"mutations, met by a map that was trusted/made: {kinds or 'none'}",
            f"kills as the server entered a system call on the map, happened/tried: {kills or 'none'}",
            f"canaries, states until found: {canaries or 'none'}",
            (
                f"states: {self.states}, differences: {self.differences}, map used at the first start: {self.map_used}, "
                f"files trusted there: {self.files_trusted}, with a change in reach of a trusting map: {self.met} of "
                f"{self.states - self.without_map} with a usable map; {also}"
            ),
        ]
