# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Files by HTTP, and upstream's signature on them."""

from __future__ import annotations

import base64
import errno
import http.client
import shutil
import subprocess
import urllib.request
from pathlib import Path

from redstart_cli.console import Meter, RedstartError
from redstart_cli.disk import SpaceError

# Of MySQL Release Engineering, BCA4 3417 C3B4 85DD 128E C6D4 B7B3 B788 A8D3 785C.
KEY = Path(__file__).resolve().parents[2] / "cmake/mysql-signing-key.asc"
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SEC = 60
# In each signature. A proxy may answer with a page of its own: so much of that is shown, and the origin is not believed.
_ARMOR = b"-----BEGIN PGP SIGNATURE-----"
_SHOWN_BYTES = 60
# More than any release or signature has.
_MOST_BYTES = 2_000_000_000


def download(url: str, target: Path, count_bytes: int) -> None:
    """Get `url` into `target`, of about `count_bytes`; RedstartError if it did not come or not whole."""
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT_SEC) as answer,
            target.open("wb") as file,
            Meter(f"downloading {url}", count_bytes) as meter,
        ):
            announced = answer.headers.get("Content-Length")
            done = 0
            while chunk := answer.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > _MOST_BYTES:
                    raise RedstartError(f"more than {_MOST_BYTES} bytes came")
                file.write(chunk)
                meter.update(done)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SpaceError(f"too little disk space for {target}: {problem.strerror}") from problem
        raise RedstartError(str(problem)) from problem
    except (http.client.HTTPException, ValueError) as problem:
        raise RedstartError(f"{type(problem).__name__}: {problem}") from problem
    # read() takes an early end for the end.
    if announced is not None and done != int(announced):
        raise RedstartError(f"cut short: {done} of {announced} bytes came")


def check_signature(file: Path, url: str) -> str:
    """Check `file` against upstream's signature at `url` by the pinned key; says what was done.

    RedstartError if the signature is of other bytes or of another key, or if something comes that is none. Where there is none,
    or no gpgv, nothing is refused: whether the file is taken is decided by the hash of the tree in it.
    """
    if shutil.which("gpgv") is None:
        return "its signature was not checked (no gpgv)"
    signature = file.with_name(file.name + ".asc")
    try:
        download(url, signature, 1000)
    except RedstartError as problem:
        return f"its signature was not checked (none came from {url}: {problem})"
    if _ARMOR not in (came := signature.read_bytes()):
        shown = " ".join(came[:_SHOWN_BYTES].decode("ascii", "replace").split())
        raise RedstartError(f"what came from {url} is no signature; it begins with {shown!r}")
    if wrong := wrong_signature(file, signature):
        raise RedstartError(f"wrong signature, says gpgv with {KEY.name}: {wrong}")
    return f"its signature is good, says gpgv with {KEY.name}"


def wrong_signature(file: Path, signature: Path) -> str:
    """What gpgv has against a signature by the pinned key; empty if it is good."""
    keyring = signature.with_name("key.gpg")
    keyring.write_bytes(_plain(KEY.read_text(encoding="ascii")))
    command = ["gpgv", "--keyring", str(keyring.absolute()), str(signature), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return " ".join(done.stderr.split()) if done.returncode != 0 else ""


def _plain(armored: str) -> bytes:
    """A key without its armor, as gpgv reads it."""
    _, _, text = armored.partition("\n\n")
    # Its end is a checksum and a line of words.
    return base64.b64decode("".join(line for line in text.splitlines() if not line.startswith(("=", "-"))))
