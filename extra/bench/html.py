# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The report in one HTML file, plots included."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from bench.plots import plots
from bench.report import grids, provenance, verification
from bench.results import Document


def html(documents: Sequence[Document]) -> str:
    """The report of one or more documents; it refers to nothing outside itself."""
    loader = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    sections = [
        {
            "command": shlex.join(document.command_line),
            "provenance": provenance(document),
            "verification": verification(document),
            "grids": grids(document),
            "subjects": document.subjects,
            "skipped": document.skipped,
        }
        for document in documents
    ]
    pictures = [(plot.caption, Markup(plot.svg)) for plot in plots(documents)]
    template = environment.get_template("report.html.j2")
    return template.render(sections=sections, pictures=pictures)
