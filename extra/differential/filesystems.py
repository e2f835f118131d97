# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""File systems to make the states on, each in a file of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path

from redstart_cli import tools
from redstart_cli.tools import ToolError

IMAGE_BYTES = 8 << 30
FREE_TIMEOUT_SEC = 20
# What makes a file system.
MAKERS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs", "overlay": "mkfs.ext4"}
KINDS = [*MAKERS, "tmpfs"]


def run(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise ToolError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def check(kind: str) -> None:
    """Unavailable, with what is missing, if such a file system cannot be made here."""
    tools.need_root(f"to mount a file system ({kind})")
    if kind in MAKERS:
        tools.need(MAKERS[kind], "losetup")


def wait_until_free(loop: str) -> None:
    """A file system that is still mounted elsewhere has not written all of its image."""
    end = time.monotonic() + FREE_TIMEOUT_SEC
    while True:
        try:
            os.close(os.open(loop, os.O_RDONLY | os.O_EXCL))
            break
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise ToolError(f"{loop} stays mounted: {error.strerror}") from error
        time.sleep(0.1)
    run("blockdev", "--flushbufs", loop)


class FileSystem:
    """A file system that is mounted on a directory until close()."""

    def __init__(self, kind: str, place: Path):
        check(kind)
        self.kind, self.place = kind, place
        self.image = place.with_name(place.name + ".img")
        self.under = place.with_name(place.name + ".under")
        self.mounted: list[Path] = []
        self.loops: list[str] = []
        self.n_layers = 0
        place.mkdir(parents=True, exist_ok=True)
        try:
            if kind != "tmpfs":
                with self.image.open("wb") as image:
                    image.truncate(IMAGE_BYTES)
                run(MAKERS[kind], "-q", self.image)
            self._mount()
        except ToolError:
            self.close()
            raise

    @property
    def can_change_device(self) -> bool:
        return self.kind != "tmpfs"

    def change_device(self) -> None:
        """Mount it again, by another device; an overlay gets a new layer over what is there."""
        self._unmount()
        # btrfs and overlays have numbers without a device: who comes next would get the one that is free now.
        spares = [self.place.with_name(f"{self.place.name}.spare{number}") for number in range(2)]
        for spare in spares:
            spare.mkdir()
            run("mount", "-t", "tmpfs", "tmpfs", spare)
        try:
            self._mount()
        finally:
            for spare in spares:
                run("umount", spare)
                spare.rmdir()

    def _mount(self) -> None:
        if self.kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES}", "tmpfs", self.place)
            self.mounted.append(self.place)
            return
        # The device that it had is still taken, so that this is another.
        self.loops.append(run("losetup", "--find", "--show", self.image))
        target = self.under if self.kind == "overlay" else self.place
        target.mkdir(exist_ok=True)
        run("mount", self.loops[-1], target)
        self.mounted.append(target)
        for loop in self.loops[:-1]:
            run("losetup", "--detach", loop)
        self.loops = self.loops[-1:]
        if self.kind == "overlay":
            self._mount_overlay()

    def _mount_overlay(self) -> None:
        self.n_layers += 1
        layers = [self.under / f"layer{number}" for number in range(self.n_layers + 1)]
        work = self.under / f"work{self.n_layers}"
        for path in (*layers, work):
            path.mkdir(exist_ok=True)
        lower = ":".join(str(path) for path in reversed(layers[:-1]))
        # With redirect_dir a directory of a lower layer can be renamed.
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir={lower},upperdir={layers[-1]},workdir={work},redirect_dir=on", self.place)
        self.mounted.append(self.place)

    def _unmount(self) -> None:
        while self.mounted:
            run("umount", self.mounted[-1])
            self.mounted.pop()
        for loop in self.loops:
            wait_until_free(loop)

    def close(self, keep: bool = False) -> None:
        """Unmount it, and remove its file."""
        self._unmount()
        while self.loops:
            run("losetup", "--detach", self.loops.pop())
        if not keep:
            self.image.unlink(missing_ok=True)
        for path in (self.place, self.under):
            if path.is_dir():
                path.rmdir()
