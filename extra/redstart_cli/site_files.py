# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A hook of mkdocs: the files of the site, what their headings are called, and its pictures.

Files have the paths that they have in the repository, so that no link is written anew. The README is the first page.
Pages are those of docs/ and whatever they lead to: a page, or a file that is served as it is.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pymdownx import slugs

_FIRST = "README.md"
# A link or a picture of this repository, without its anchor.
_LINK = re.compile(r"""(?:\]\(|\b(?:src|srcset)=")(?![a-z]+:|#|/)([^)#"\s]+)""")

# A picture that is another one in the dark.
_PICTURE = re.compile(
    r"""<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img src="([^"]+)"([^>]*)>\s*</picture>"""
)


def linked_files(repo: Path) -> list[str]:
    """The README, the pages of docs/ and all that they lead to, as far as it exists."""
    found = [_FIRST, *sorted(f"docs/{path.name}" for path in (repo / "docs").glob("*.md"))]
    for name in found:
        if not name.endswith(".md"):
            continue
        for link in _LINK.findall((repo / name).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
            if target not in found and not target.startswith("..") and (repo / target).is_file():
                found.append(target)
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings have the anchors that they have where the repository is read."""
    config.mdx_configs["toc"]["slugify"] = slugs.slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Our files instead of what mkdocs found in docs/, beside those of the theme."""
    repo = Path(config.config_file_path).parent
    theme = [file for file in files if file.src_dir != config.docs_dir]
    names = [*linked_files(repo), *map(str, config.extra_css)]
    ours = [File(name, str(repo), config.site_dir, config.use_directory_urls) for name in names]
    return Files([*theme, *ours])


def on_page_content(html: str, **_: object) -> str:
    """Pictures go by the page, which a reader may switch to light or dark, and not by the reader's system."""
    return _PICTURE.sub(r'<img src="\2#only-light"\3><img src="\1#only-dark"\3>', html)
