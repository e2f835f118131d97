# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Compares what servers make of one data directory: tablespace map on and off, and stock MySQL."""
