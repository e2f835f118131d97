# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Device profiles: volumes with the limits of the clouds' network disks.

A profile is applied to the server's processes alone and checked with fio before anything is
measured; the figures of that check go into the JSON. A profile that does not hold is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import fio, image
from bench.diskstats import Device, device_of, disk_facts, mount_of
from bench.layout import Layout
from bench.throttle import Limited, Limits, limited
from redstart_cli.tools import Unavailable

TOLERANCE = 0.1
"""A limit holds if fio measures it within this fraction."""

LATENCY_MOST = 2.0
"""A delayed volume holds if one read takes at most this many times the delay,"""

PARALLEL_LEAST = 4.0
"""and if 32 reads at a time give at least this many times the reads of one at a time."""

MERGED_LEAST = 3.0
"""A volume counts merged requests if it gives at least this many times its limit of blocks that lie side by side."""

FIO_FILE = "fio.data"
CHECK_SEC = 3.0
CHECKS_MOST = 3
"""A check that fails is repeated: a busy machine may be the reason."""

MIB = 1 << 20


@dataclass(frozen=True)
class Profile:
    """A kind of volume: limits on reads, or a delay on each read, or neither."""

    name: str
    what: str
    limits: Limits | None = None
    read_delay_usec: int = 0
    # The limits count what the kernel has merged, on a file system in an image.
    merged: bool = False


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("local", "the disk as it is"),
        Profile("gp3", "EBS gp3 as it comes: 3,000 IOPS, 125 MiB/s", Limits(3000, 125 * MIB)),
        Profile("gp3-merged", "gp3, requests counted as the kernel has merged them", Limits(3000, 125 * MIB), merged=True),
        Profile("gp3-writes", "gp3, and as much for writes", Limits(3000, 125 * MIB, 3000, 125 * MIB)),
        Profile("gp3-merged-writes", "gp3-merged, and as much for writes", Limits(3000, 125 * MIB, 3000, 125 * MIB), merged=True),
        Profile("gp3-lean", "gp3 with 16,000 IOPS and 256 MiB/s", Limits(16000, 256 * MIB)),
        Profile("gp3-4x", "gp3 with 12,000 IOPS and 500 MiB/s", Limits(12000, 500 * MIB)),
        Profile("slow", "500 IOPS, 20 MiB/s: what a busy disk can give, too", Limits(500, 20 * MIB)),
        Profile("latency", "1 ms a read, many at a time", read_delay_usec=1000),
        Profile("latency-500us", "0.5 ms a read, many at a time", read_delay_usec=500),
    )
}


@dataclass(frozen=True)
class Volume:
    """A place for data directories with a profile in force.

    `procs` are the files to put process ids into, none if nothing is limited. `device` is None
    where there is no block device, and I/O cannot be counted.
    """

    profile: Profile
    directory: Path
    device: Device | None
    procs: tuple[Path, ...]
    verified: dict[str, Any]
    memory_bytes: int | None = None


def limit_error(limits: Limits, small: fio.FioResult, large: fio.FioResult) -> str | None:
    """What is wrong with a throttle, given 16 KiB and 1 MiB reads under it; None if it holds.

    Either limit may be the one that binds: 16 KiB reads are held to the lower of the IOPS limit
    and what the bandwidth limit allows.
    """
    expected_iops = min(limits.read_iops, limits.read_bytes_per_sec / small.block_bytes)
    expected_rate = min(limits.read_bytes_per_sec, limits.read_iops * large.block_bytes)
    for what, measured, expected in (
        ("16 KiB reads/s", small.iops, expected_iops),
        ("bytes/s of 1 MiB reads", large.bytes_per_sec, float(expected_rate)),
    ):
        if measured < expected * (1 - TOLERANCE):
            return f"{what}: {measured:,.0f}, below the {expected:,.0f} wanted: the disk is slower, or busy"
        if measured > expected * (1 + TOLERANCE):
            return f"{what}: {measured:,.0f}, above the {expected:,.0f} wanted: it is not limited"
    return None


def merge_error(limits: Limits, batches: fio.FioResult) -> str | None:
    """What is wrong with a volume that should count merged requests, given blocks side by side; None if nothing."""
    if batches.iops < limits.read_iops * MERGED_LEAST:
        return f"{batches.iops:,.0f} blocks/s side by side: requests count before they are merged"
    return None


def delay_error(delay_usec: int, one: fio.FioResult, many: fio.FioResult) -> str | None:
    """What is wrong with a delayed volume, given reads at depth 1 and 32; None if it holds."""
    if not delay_usec <= one.latency_mean_usec <= delay_usec * LATENCY_MOST:
        return f"a single read takes {one.latency_mean_usec:,.0f} usec, {delay_usec:,} wanted"
    if many.iops < one.iops * PARALLEL_LEAST:
        return f"32 reads at a time give {many.iops:,.0f} reads/s, one at a time {one.iops:,.0f}"
    return None


@contextlib.contextmanager
def open_volume(
    layout: Layout, profile: Profile, memory_bytes: int | None = None
) -> Iterator[Volume]:
    """Puts a profile in force, verifies it with fio, and takes it away again at the end.

    `memory_bytes` limits what a server has of memory and page cache together. Raises Unavailable
    if this machine cannot do it: no cgroup controller, no root, no block device, no fio, or a
    disk that is slower than the profile.
    """
    with contextlib.ExitStack() as stack:
        if profile.read_delay_usec:
            point = stack.enter_context(image.mounted(layout.volumes, profile.read_delay_usec))
            held = stack.enter_context(limited("", None, memory_bytes))
            yield _delayed(profile, point, held)
            return
        try:
            device: Device | None = device_of(layout.base)
        except Unavailable:
            if profile.limits is not None:
                raise
            device = None
        directory = stack.enter_context(image.mounted(layout.volumes)) if profile.merged else layout.base
        numbers = device.numbers if device is not None else ""
        held = stack.enter_context(limited(numbers, profile.limits, memory_bytes))
        if profile.limits is not None and device is not None:
            yield _throttled(directory, profile, profile.limits, device, held)
        else:
            yield Volume(profile, directory, device, held.procs, {}, held.memory_bytes)


def _delayed(profile: Profile, point: Path, held: Limited) -> Volume:
    file = point / FIO_FILE
    fio.make_file(file)
    one = fio.random_read(file, 16384, 1, CHECK_SEC)
    many = fio.random_read(file, 16384, 32, CHECK_SEC)
    problem = delay_error(profile.read_delay_usec, one, many)
    if problem is not None:
        raise Unavailable(f"the profile {profile.name} does not hold: {problem}")
    verified = {
        "read_delay_usec": profile.read_delay_usec,
        "fio": [one.as_dict(), many.as_dict()],
    }
    return Volume(profile, point, device_of(point), held.procs, verified, held.memory_bytes)


def _throttled(
    directory: Path, profile: Profile, limits: Limits, device: Device, held: Limited
) -> Volume:
    """`device` is the disk that is limited, below the image if there is one, and I/O is counted there."""
    file = directory / FIO_FILE
    fio.make_file(file)
    for _ in range(CHECKS_MOST):
        small = fio.random_read(file, 16384, 32, CHECK_SEC, held.procs)
        large = fio.random_read(file, MIB, 8, CHECK_SEC, held.procs)
        checks = [small, large]
        problem = limit_error(limits, small, large)
        if problem is None and profile.merged:
            checks.append(fio.read_in_batches(file, 4096, 32, CHECK_SEC, held.procs))
            problem = merge_error(limits, checks[-1])
        if problem is None:
            break
    if problem is not None:
        raise Unavailable(f"the profile {profile.name} does not hold on {device.disk}: {problem}")
    verified = {
        "cgroup_version": held.versions["io"],
        "read_iops_limit": limits.read_iops,
        "read_bytes_per_sec_limit": limits.read_bytes_per_sec,
        "fio": [check.as_dict() for check in checks],
    }
    return Volume(profile, directory, device, held.procs, verified, held.memory_bytes)


def profile_facts(volume: Volume) -> dict[str, Any]:
    """What the JSON says about the profile; a limit of memory is part of its name."""
    profile = volume.profile
    facts: dict[str, Any] = {"name": profile.name, "what": profile.what, "verified": dict(volume.verified)}
    if volume.memory_bytes is not None:
        size = f"{volume.memory_bytes // MIB:,} MiB of memory"
        facts["name"] += f", {size}"
        facts["what"] += f"; {size}, page cache included"
        facts["verified"]["memory_limit_bytes"] = volume.memory_bytes
    return facts


def volume_facts(volume: Volume) -> dict[str, Any]:
    """What the JSON says about the volume."""
    point, fs_type, _ = mount_of(volume.directory)
    facts: dict[str, Any] = {"file_system": fs_type, "mount_point": point}
    if volume.device is not None:
        facts |= disk_facts(volume.device)
    return facts
