# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Fuzzing of what reads files that anybody may have changed."""
