# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart docs: the site of mkdocs.yml in build/site. A link or an anchor that leads nowhere is an error."""

from __future__ import annotations

import subprocess
import sys

from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.process import module_environment, tied


def run(layout: Layout, serve: bool) -> None:
    """Build the site, or show it until it is interrupted, built anew after each change."""
    # The theme says on each run what its makers do next.
    environment = module_environment(layout.repo) | {"NO_MKDOCS_2_WARNING": "1"}
    # With --quiet mkdocs does not count the warnings that --strict takes for errors.
    what = ["serve"] if serve else ["build", "--strict"]
    command = [sys.executable, "-m", "mkdocs", *what, "--config-file", str(layout.repo / "mkdocs.yml")]
    if subprocess.run(tied(command), cwd=layout.repo, env=environment, stdin=subprocess.DEVNULL).returncode != 0:
        raise RedstartError("mkdocs failed (see above)")
