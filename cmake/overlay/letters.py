# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The words around a series: commit messages, cover letters, the pull request, the README."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from .changes import Section, plain
from .model import Feature
from .series import Commit, Step

# Parts of a section of docs/changes.md that go into the cover letter, where it has them.
_LETTER = ("Problem", "What is changed", "Effect", "Compatibility", "Alternatives considered")
_TEMPLATE = ".github/PULL_REQUEST_TEMPLATE.md"
_HEADING = re.compile(r"^#+ *(.*?)\W*$")


def bugs(feature: Feature) -> str:
    """`Bug#1, Bug#2`, or ''."""
    return ", ".join(f"Bug#{number}" for number in feature.bugs)


def message(commit: Commit, section: Section) -> str:
    """Commit message: the subject, why, the bugs. Without a `why` of its own, that of the feature."""
    why = plain(commit.why or section.summary + "\n\n" + section.parts["Problem"])
    return "\n\n".join(part for part in (commit.subject, why, bugs(commit.feature)) if part) + "\n"


def cover(letter: bytes, feature: Feature, section: Section) -> bytes:
    """git's empty cover letter with the feature's title and what docs/changes.md says."""
    parts = [section.summary]
    for label in _LETTER:
        text = plain(section.parts.get(label, ""))
        if text:
            parts.append(f"{label}:\n\n{text}")
    if feature.bugs:
        parts.append(bugs(feature))
    blurb = "\n\n".join(parts)
    titled = letter.replace(b"*** SUBJECT HERE ***", feature.title.encode("utf-8"), 1)
    return titled.replace(b"*** BLURB HERE ***", blurb.encode("utf-8"), 1)


def tests(steps: list[Step]) -> tuple[list[str], list[str]]:
    """GoogleTest files and MTR tests (`suite.name`) of a feature."""
    unit, mtr = [], []
    for step in steps:
        for path in map(PurePosixPath, step.commit.files):
            if path.parts[0] == "unittest" and path.suffix == ".cc":
                unit.append(str(path))
            elif path.parts[0] == "mysql-test" and path.suffix == ".test":
                suite = path.parts[2] if path.parts[1] == "suite" else "main"
                mtr.append(f"{suite}.{path.stem}")
    return sorted(unit), sorted(mtr)


def _areas(steps: list[Step]) -> list[str]:
    found = set()
    for step in steps:
        for path in step.changed:
            top = PurePosixPath(path).parts[0]
            found.add("innodb" if path.startswith("storage/innobase/") else top)
    return sorted(found)


def pull_request(upstream: Path, feature: Feature, section: Section, steps: list[Step]) -> str:
    """Upstream's own template with the answers that are known; '' where it has none.

    The boxes stay as they are: they are statements of the person who submits,
    the one on tools among them.
    """
    try:
        template = (upstream / _TEMPLATE).read_text(encoding="utf-8")
    except OSError:
        return ""
    unit, mtr = tests(steps)
    tested = [f"- GoogleTest: `{path}`" for path in unit] + [f"- MTR: `{name}`" for name in mtr]
    problem = section.parts["Problem"]
    answers = {
        "what does this change do": "\n".join(filter(None, (section.summary, bugs(feature)))),
        "why is it needed": plain(problem),
        "how was it tested": "\n".join(tested),
        "areas touched": ", ".join(_areas(steps)),
    }
    out = []
    for line in template.splitlines():
        out.append(line)
        heading = _HEADING.match(line)
        answer = answers.get(heading[1].lower()) if heading else None
        if answer:
            out += ["", answer]
    return "\n".join(out) + "\n"


README = """\
Patch series for MySQL {version}: one directory per feature, in the order in
which they apply. `series` lists the patches.

    cd <MySQL {version}>
    git am $(sed 's|^|<this directory>/|' <this directory>/series)

Each feature needs those before it. To take the first feature only, apply the
patches of its directory (the cover letter, 0000, is no patch).

Author. The author and the date in these files are placeholders. Oracle takes
code only from somebody who has signed the Oracle Contributor Agreement, and
compares the agreement with the e-mail address of the commits. So nobody's name
can be put in beforehand: the person who submits makes the commits their own,
after reading them, and answers for them:

    git rebase --force-rebase \\
      --exec 'git commit --amend --no-edit --reset-author' <MySQL {version}>

Before a pull request against trunk: run upstream's scripts/ci/format.sh and
scripts/ci/mtr.sh, and fill in what pull-request.md of the feature leaves open.
Its boxes are for the person who submits, the ones on tools among them.

Files of MySQL {version} that the patches change, and the git blob hash of each:

{blobs}"""
