# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The entry point as the example for Kubernetes has it: user, groups, rights, volumes and what is read-only are the manifest's.

Needs root and the built programs (REDSTART_CLIENTS). No kubelet is there: the volumes are made here with the owners, modes and
links that it gives them. The root is this machine's, with the image's files over it, and the filter of system calls is none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.entrypoint import DOCKER, LIMIT_SEC, PROGRAMS
from dropin.kubernetes import read_manifest
from redstart_cli.process import tied

MANIFEST = read_manifest(DOCKER)
POD, SERVER = MANIFEST.pod, MANIFEST.server
SECURITY = POD["securityContext"] | SERVER["securityContext"]
USER, GROUP, VOLUMES_GROUP = SECURITY["runAsUser"], SECURITY["runAsGroup"], SECURITY["fsGroup"]
PASSWORD = "a secret"
# The programs and what they find beside them, in the root.
BUILD = "/opt/build"
# Makes new databases faster.
SETTINGS = "[mysqld]\ninnodb_flush_method = nosync\ninnodb_redo_log_capacity = 8M\n"
# WORK BUILD READ-ONLY SOURCE TARGET OPTIONS... -- COMMAND...: a root that nobody else sees, with volumes. It is a new one each
# time, as a container's.
ENTER = """
work=$1 build=$2 flags=$3
shift 3
mount -t tmpfs tmpfs "$work/rw"
cp -a "$work/image" "$work/rw/upper"
mkdir "$work/rw/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/rw/upper,workdir=$work/rw/work" "$work/root"
mount --rbind /dev "$work/root/dev"
mount -t proc proc "$work/root/proc"
mount --bind "$build" "$work/root/opt/build"
mount -o "remount,bind,$flags" "$work/root"
while [ "$1" != -- ]; do
  mount --bind "$1" "$work/root$2"
  mount -o "remount,bind,$3" "$work/root$2"
  shift 3
done
shift
exec chroot "$work/root" "$@"
"""


def make_image(folder: Path) -> None:
    """What the Dockerfile puts over a base, and where volumes are mounted."""
    for name in ("var/lib/mysql", "run/mysqld", "var/lib/mysql-files", "etc/mysql/conf.d", "usr/local/bin", BUILD[1:]):
        (folder / name).mkdir(parents=True)
    for mount in SERVER["volumeMounts"]:
        (folder / mount["mountPath"][1:]).mkdir(parents=True, exist_ok=True)
    for name in ("entrypoint.sh", "healthcheck.sh"):
        (folder / "usr/local/bin" / name).write_bytes((DOCKER / name).read_bytes())
        (folder / "usr/local/bin" / name).chmod(0o755)
    (folder / "etc/mysql/my.cnf").write_bytes((DOCKER / "my.cnf").read_bytes())
    (folder / "etc/mysql/conf.d/test.cnf").write_text(SETTINGS)
    for name in ("var/lib/mysql", "run/mysqld", "var/lib/mysql-files"):
        os.chown(folder / name, USER, GROUP)


def make_volume(folder: Path, kind: str, settings: dict[str, int]) -> None:
    """As a node mounts it: root's, and of the group for volumes."""
    folder.mkdir(parents=True)
    if kind == "secret":
        # Files in a folder that is replaced as a whole: a link to it, and links through that link.
        data = folder / "..2026_11_28_09_43_51.1234567890"
        data.mkdir()
        file = data / "root-password"
        file.write_text(PASSWORD)
        # The group may read whatever the mode is.
        file.chmod(settings["defaultMode"] | 0o440)
        (folder / "..data").symlink_to(data.name)
        (folder / file.name).symlink_to(f"..data/{file.name}")
    elif kind == "persistentVolumeClaim":
        (folder / "lost+found").mkdir()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 0, VOLUMES_GROUP, follow_symlinks=False)
        if path.is_dir() and not path.is_symlink():
            path.chmod({"secret": 0o3777, "emptyDir": 0o2777}.get(kind, 0o2775) if path == folder else 0o2755)


class Pod:
    """The manifest's pod, by default not running. What a claim holds outlives it."""

    def __init__(self, work: Path) -> None:
        self._work, self._log = work, work / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (work / "rw").mkdir()
        (work / "root").mkdir()
        make_image(work / "image")

    def start(self) -> None:
        """New volumes, but for claims; and the container."""
        volumes = self._work / "volumes"
        words = []
        for mount in SERVER["volumeMounts"]:
            ((kind, settings),) = MANIFEST.volumes[mount["name"]].items()
            folder = volumes / mount["name"]
            if kind != "persistentVolumeClaim":
                subprocess.run(["rm", "-rf", folder], check=True)
            if not folder.exists():
                make_volume(folder, kind, settings)
            words += [str(folder), mount["mountPath"], "ro" if mount.get("readOnly") else "rw"]
        flags = "ro" if SECURITY.get("readOnlyRootFilesystem") else "rw"
        first = ["sh", "-ec", ENTER, "sh", str(self._work), str(PROGRAMS.parent), flags, *words, "--"]
        # A network of its own: the port is free.
        command = ["unshare", "--mount", "--net", "--propagation", "private", *first, *self._inside("entrypoint.sh", "mysqld")]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(tied(command, "KILL"), stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def _inside(self, *words: str) -> list[str]:
        rights = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", f"--groups={VOLUMES_GROUP}"]
        if SECURITY["allowPrivilegeEscalation"] is False:
            rights.append("--no-new-privs")
        if SECURITY["capabilities"]["drop"] == ["ALL"]:
            rights += ["--inh-caps=-all", "--bounding-set=-all"]
        variables = {item["name"]: item["value"] for item in SERVER["env"]}
        variables |= {"PATH": f"/usr/local/bin:{BUILD}/{PROGRAMS.name}:/usr/bin:/bin", "MYSQL_INITDB_SKIP_TZINFO": "1"}
        return [*rights, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words]

    @property
    def process(self) -> int:
        assert self._process and self._process.poll() is None, self.output()
        return self._process.pid

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A program in the container, with its rights."""
        enter = ["nsenter", f"--target={self.process}", "--mount", "--root"]
        return subprocess.run([*enter, *self._inside(*words)], capture_output=True, text=True, timeout=LIMIT_SEC)

    def await_started(self) -> None:
        """Until the startup probe succeeds."""
        end = time.monotonic() + LIMIT_SEC
        while self.call(*SERVER["startupProbe"]["exec"]["command"]).returncode != 0:
            assert time.monotonic() < end, self.output()
            time.sleep(0.2)

    def sql(self, statements: str) -> str:
        client = ["mysql", "--user=root", f"--password={PASSWORD}", "--batch", "--skip-column-names", "--execute"]
        done = self.call(*client, statements)
        assert done.returncode == 0, done.stderr + self.output()
        return done.stdout.rstrip("\n")

    def end(self, how: signal.Signals) -> int:
        """Its status, once it has ended by a signal."""
        assert self._process
        self._process.send_signal(how)
        return self._process.wait(LIMIT_SEC)

    def kill(self) -> None:
        if self._process and self._process.poll() is None:
            self.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    """It, after its first start."""
    with tempfile.TemporaryDirectory(prefix="redstart-pod.") as folder:
        Path(folder).chmod(0o711)
        found = Pod(Path(folder))
        try:
            found.start()
            found.await_started()
            yield found
        finally:
            found.kill()


def test_root_has_the_password_of_the_secret(pod: Pod) -> None:
    assert pod.sql("SELECT CURRENT_USER(), @@datadir") == "root@localhost\t/var/lib/mysql/data/"


def test_the_server_has_no_rights_but_its_users(pod: Pod) -> None:
    process = Path(f"/proc/{pod.process}")
    assert (process / "comm").read_text() == "mysqld\n"
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    assert [status[name].split() for name in ("Uid", "Gid", "Groups")] == [[str(USER)] * 4, [str(GROUP)] * 4, [str(VOLUMES_GROUP)]]
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"


@pytest.mark.parametrize("folder", ["/run/secrets/redstart", "/var/lib/mysql-files", "/etc/mysql/conf.d"])
def test_what_is_no_volume_to_write_in_is_read_only(pod: Pod, folder: str) -> None:
    """Also where the server's user would have the right."""
    done = pod.call("touch", f"{folder}/new")
    assert done.returncode != 0 and "Read-only file system" in done.stderr


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_a_probe_succeeds(pod: Pod, probe: str) -> None:
    assert pod.call(*SERVER[probe]["exec"]["command"]).returncode == 0


@pytest.mark.parametrize(("how", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_the_next_pod_has_the_data(pod: Pod, how: signal.Signals, status: int) -> None:
    pod.sql("CREATE DATABASE IF NOT EXISTS t; CREATE TABLE IF NOT EXISTS t.a (i INT AUTO_INCREMENT PRIMARY KEY)")
    rows = int(pod.sql("INSERT INTO t.a VALUES (NULL); SELECT COUNT(*) FROM t.a"))
    assert pod.end(how) == status, pod.output()
    pod.start()
    pod.await_started()
    assert pod.sql("SELECT COUNT(*) FROM t.a") == str(rows)
