# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Crashes a server under load and asks whether anything that it acknowledged is gone."""
