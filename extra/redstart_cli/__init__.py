# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What ./redstart drives: upstream source, build, server, tests."""
