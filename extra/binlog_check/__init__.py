# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Compares what starts find in a binary log, with both values of binlog_startup_scan and by stock MySQL."""
