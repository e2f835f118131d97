# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
