# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Measures what a restart, a recovery and an index build cost: `./redstart bench`."""
