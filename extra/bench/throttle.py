# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Limits for one group of processes: on a device's reads, and on memory with the page cache.

By cgroup v1 (blkio, memory) or v2 (io, memory). Only processes put into the group are limited.
Reads are limited and writes are not: neither version can give reads and writes one common
budget, and buffered writes escape v1 altogether. What the page cache holds of the files that the
group reads and writes is part of its memory.
"""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redstart_cli.tools import ToolError, Unavailable

GROUP_PREFIX = "redstart-bench-"
REMOVE_TIMEOUT_SEC = 5.0


@dataclass(frozen=True)
class Limits:
    """Limits of a volume: I/Os a second and bytes a second, of reads and, apart from them, of direct writes."""

    read_iops: int
    read_bytes_per_sec: int
    # None: writes are not limited.
    write_iops: int | None = None
    write_bytes_per_sec: int | None = None


def v1_lines(numbers: str, limits: Limits | None) -> dict[str, str]:
    """What to write into which blkio.throttle file; None lifts the limits."""
    iops = limits.read_iops if limits else 0
    rate = limits.read_bytes_per_sec if limits else 0
    write_iops = limits.write_iops or 0 if limits else 0
    write_rate = limits.write_bytes_per_sec or 0 if limits else 0
    return {
        "blkio.throttle.read_iops_device": f"{numbers} {iops}",
        "blkio.throttle.read_bps_device": f"{numbers} {rate}",
        "blkio.throttle.write_iops_device": f"{numbers} {write_iops}",
        "blkio.throttle.write_bps_device": f"{numbers} {write_rate}",
    }


def v2_line(numbers: str, limits: Limits | None) -> str:
    """What to write into io.max; None lifts the limits."""
    if limits is None:
        return f"{numbers} rbps=max riops=max wbps=max wiops=max"
    reads = f"rbps={limits.read_bytes_per_sec} riops={limits.read_iops}"
    return f"{numbers} {reads} wbps={limits.write_bytes_per_sec or 'max'} wiops={limits.write_iops or 'max'}"


class Group(abc.ABC):
    """A cgroup made by this bench."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._limited: list[str] = []
        path.mkdir()

    @property
    def procs(self) -> Path:
        """The file that takes process ids."""
        return self.path / "cgroup.procs"

    @abc.abstractmethod
    def limit(self, numbers: str, limits: Limits) -> None:
        """Sets the limits for the device MAJOR:MINOR."""

    @abc.abstractmethod
    def limit_memory(self, memory_bytes: int) -> None:
        """Sets the limit of memory and page cache together; no swap beyond it."""

    def _write(self, name: str, text: str) -> None:
        try:
            (self.path / name).write_text(text + "\n", encoding="ascii")
        except OSError as error:
            raise ToolError(f"cannot write {text!r} to {self.path / name}: {error}") from error

    def remove(self) -> None:
        """Lifts the limits, kills what still runs in the group, and removes it."""
        for numbers in self._limited:
            self._lift(numbers)
        self._limited.clear()
        remove_group(self.path)

    @abc.abstractmethod
    def _lift(self, numbers: str) -> None:
        """Lifts the limits of a device."""


class GroupV1(Group):
    """A group of a v1 controller, blkio or memory."""

    def limit(self, numbers: str, limits: Limits) -> None:
        self._limited.append(numbers)
        for name, text in v1_lines(numbers, limits).items():
            self._write(name, text)

    def limit_memory(self, memory_bytes: int) -> None:
        self._write("memory.limit_in_bytes", str(memory_bytes))
        if (self.path / "memory.memsw.limit_in_bytes").exists():
            self._write("memory.memsw.limit_in_bytes", str(memory_bytes))

    def _lift(self, numbers: str) -> None:
        for name, text in v1_lines(numbers, None).items():
            self._write(name, text)


class GroupV2(Group):
    """A group of the unified hierarchy."""

    def limit(self, numbers: str, limits: Limits) -> None:
        self._limited.append(numbers)
        self._write("io.max", v2_line(numbers, limits))

    def limit_memory(self, memory_bytes: int) -> None:
        self._write("memory.max", str(memory_bytes))
        if (self.path / "memory.swap.max").exists():
            self._write("memory.swap.max", "0")

    def _lift(self, numbers: str) -> None:
        self._write("io.max", v2_line(numbers, None))


def remove_group(path: Path) -> None:
    """Kills the processes of a group and removes it; ToolError if that takes over 5 s."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_SEC
    while True:
        try:
            pids = (path / "cgroup.procs").read_text(encoding="ascii").split()
        except OSError:
            pids = []
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ToolError(f"cannot remove the cgroup {path}: {error}") from error
            time.sleep(0.02)


@dataclass(frozen=True)
class Controller:
    """Where groups are made: the mount point of a v1 controller or of the unified hierarchy (v2).

    `what` is "io" or "memory".
    """

    what: str
    version: int
    mount: Path

    def make(self, name: str) -> Group:
        """Makes an empty group without limits."""
        if self.version == 1:
            return GroupV1(self.mount / (GROUP_PREFIX + name))
        self.enable()
        return GroupV2(self.mount / (GROUP_PREFIX + name))

    def enable(self) -> None:
        """Gives the groups of a v2 hierarchy this controller."""
        control = self.mount / "cgroup.subtree_control"
        if self.version == 2 and self.what not in control.read_text(encoding="ascii").split():
            control.write_text(f"+{self.what}\n", encoding="ascii")

    def sweep(self) -> list[str]:
        """Removes the groups that a killed bench left behind; returns their names.

        A group is left behind if the process whose id it is named after no longer exists.
        """
        removed = []
        for path in self.mount.glob(GROUP_PREFIX + "*"):
            owner = path.name.removeprefix(GROUP_PREFIX).split("-")[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                remove_group(path)
                removed.append(path.name)
        return removed


def find_controller(what: str, mounts: str, controllers: str) -> Controller:
    """The controller of "io" or "memory".

    `mounts` is the text of /proc/mounts, `controllers` that of the unified hierarchy's
    cgroup.controllers ("" if there is none). Raises Unavailable if neither version has it.
    """
    v1 = {"io": "blkio", "memory": "memory"}[what]
    v2: Controller | None = None
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        if words[2] == "cgroup" and v1 in words[3].split(","):
            return Controller(what, 1, Path(words[1]))
        if words[2] == "cgroup2" and what in controllers.split():
            v2 = Controller(what, 2, Path(words[1]))
    if v2 is None:
        raise Unavailable(f"this machine has no cgroup controller of {what} (v1 {v1} or v2 {what})")
    return v2


def system_controller(what: str) -> Controller:
    """The controller of this machine of "io" or "memory"; Unavailable without one or without root."""
    if os.geteuid() != 0:
        raise Unavailable(f"a limit of {what} needs root")
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    controllers = ""
    for line in mounts.splitlines():
        words = line.split()
        if len(words) > 2 and words[2] == "cgroup2":
            listed = Path(words[1]) / "cgroup.controllers"
            controllers = listed.read_text(encoding="ascii") if listed.exists() else ""
    return find_controller(what, mounts, controllers)


@dataclass(frozen=True)
class Limited:
    """The files that take the ids of limited processes, and the controllers' versions by name."""

    procs: tuple[Path, ...]
    versions: dict[str, int]
    memory_bytes: int | None


@contextlib.contextmanager
def limited(numbers: str, limits: Limits | None, memory_bytes: int | None) -> Iterator[Limited]:
    """Groups with limits of reads of the device MAJOR:MINOR, of memory, both, or none; removed at the end.

    Raises Unavailable if this machine has no controller for it, or without root.
    """
    wanted = [what for what, limit in (("io", limits), ("memory", memory_bytes)) if limit]
    controllers = [system_controller(what) for what in wanted]
    groups: dict[Path, Group] = {}
    with contextlib.ExitStack() as stack:
        for controller in controllers:
            controller.sweep()
            if controller.mount not in groups:
                group = controller.make(str(os.getpid()))
                stack.callback(group.remove)
                groups[controller.mount] = group
            else:
                controller.enable()
            if controller.what == "io" and limits is not None:
                groups[controller.mount].limit(numbers, limits)
            elif memory_bytes is not None:
                groups[controller.mount].limit_memory(memory_bytes)
        yield Limited(
            tuple(group.procs for group in groups.values()),
            {controller.what: controller.version for controller in controllers},
            memory_bytes,
        )
