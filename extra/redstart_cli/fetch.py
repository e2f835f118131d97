# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Files by HTTP, and upstream's signature on them."""

from __future__ import annotations

import errno
import http.client
import os
import subprocess
import urllib.request
from pathlib import Path

from redstart_cli.console import Meter, RedstartError
from redstart_cli.disk import SpaceError

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SEC = 60
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
    """Check `file` against the signature at `url` with the keys of $MYSQL_KEYRING; says what was done.

    RedstartError if there are keys and the signature is missing or not by one of them.
    """
    keyring = os.environ.get("MYSQL_KEYRING")
    if not keyring:
        return "its signature was not checked (no MYSQL_KEYRING)"
    signature = file.with_name(file.name + ".asc")
    try:
        download(url, signature, 1000)
    except RedstartError as problem:
        raise RedstartError(f"no signature at {url}: {problem}") from problem
    command = ["gpgv", "--keyring", os.path.abspath(keyring), str(signature), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as problem:
        raise RedstartError(f"gpgv does not run: {problem}") from problem
    if done.returncode != 0:
        raise RedstartError(f"wrong signature, says gpgv with {keyring}: {' '.join(done.stderr.split())}")
    return f"its signature is good, says gpgv with {keyring}"
