# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The overlay engine: our files and edits laid over a pristine upstream tree.

load: what the repository says (model.Overlay).
survey: where every edit lands in an upstream tree, or why not.
make_plan: the bytes of every file that differs from upstream, in memory.
apply: the source tree on disk, made or updated.
apply_text: edits applied to the bytes of one file.
"""

from .errors import LandingError, OverlayError, OverlayErrors
from .model import Edit, Feature, Overlay, load
from .plan import Plan, make_plan, survey, upstream_version
from .splice import Landing, apply_text
from .tree import Report, apply

__all__ = [
    "Edit",
    "Feature",
    "Landing",
    "LandingError",
    "Overlay",
    "OverlayError",
    "OverlayErrors",
    "Plan",
    "Report",
    "apply",
    "apply_text",
    "load",
    "make_plan",
    "survey",
    "upstream_version",
]
