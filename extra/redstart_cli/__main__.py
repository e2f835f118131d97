# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Entry of `python -m redstart_cli`, which ./redstart calls."""

from redstart_cli.cli import main

main()
