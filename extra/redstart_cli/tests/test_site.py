# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart docs: the site is whole, reads as the repository does, and what leads nowhere is found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from redstart_cli import cli, site
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.site_files import linked_files

REPO = Path(__file__).resolve().parents[3]
OURS = ("mkdocs.yml", "extra/redstart_cli/site_files.py", "extra/redstart_cli/site.css")
# What must be as often in a page of the site as where the repository is read.
ELEMENTS = ("h1", "h2", "h3", "ul", "ol", "li", "table", "tr", "td", "pre")
# What is planted in a page, and what is said of it.
PLANTED = {
    "[page](no-such-page.md)": "no-such-page.md",
    "[file](../cmake/no-such-file.yaml)": "no-such-file.yaml",
    "[anchor](tablespace-map.md#no-such-anchor)": "tablespace-map.md#no-such-anchor",
    "[own anchor](#no-such-heading)": "#no-such-heading",
}


@pytest.fixture
def clone(layout: Layout) -> Layout:
    """What the site is made of."""
    for name in [*linked_files(REPO), *OURS]:
        (layout.repo / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, layout.repo / name)
    return layout


def page_of(layout: Layout, name: str) -> Path:
    folder = Path(name).parent if name.endswith("README.md") else Path(name).with_suffix("")
    return layout.build / "site" / folder / "index.html"


def test_the_site_is_whole(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "this_layout", lambda: clone)
    done = CliRunner().invoke(cli.cli, ["docs"])
    assert done.exit_code == 0 and str(clone.build / "site/index.html") in "".join(done.output.split("\n"))
    names = linked_files(clone.repo)
    pages = [name for name in names if name.endswith(".md")]
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= set(pages)
    for name in set(names) - set(pages):
        assert (clone.build / "site" / name).read_bytes() == (REPO / name).read_bytes()
    for name in pages:
        page = page_of(clone, name)
        text = page.read_text(encoding="utf-8")
        # Scripts, styles and pictures are there, and are no other host's.
        needed = re.findall(r'(?:<script[^>]* src|<link[^>]* rel="(?:stylesheet|icon)"[^>]* href)="([^"]+)"', text)
        needed += re.findall(r'(?:<img[^>]* src|<source[^>]* srcset)="([^"]+)"', text)
        needed += re.findall(r'<link href="([^"]+)" rel="(?:stylesheet|icon)"', text)
        needed += re.findall(r'<link rel="(?:stylesheet|icon)" href="([^"]+)"', text)
        assert len(needed) >= 3 and [file for file in needed if not (page.parent / file.partition("#")[0]).is_file()] == []
        article = text[text.index("<article") : text.index("</article>")]
        wanted = MarkdownIt("commonmark").enable("table").render((REPO / name).read_text(encoding="utf-8"))
        for element in ELEMENTS:
            assert (name, element, article.count(f"<{element}>") + article.count(f"<{element} ")) == (
                name,
                element,
                wanted.count(f"<{element}>") + wanted.count(f"<{element} "),
            )


def test_pictures_for_light_and_dark_pages_are_part_of_the_site(clone: Layout) -> None:
    for name in ("light", "dark"):
        (clone.repo / f"docs/images/{name}.svg").parent.mkdir(parents=True, exist_ok=True)
        (clone.repo / f"docs/images/{name}.svg").write_text("<svg/>", encoding="utf-8")
    with (clone.repo / "README.md").open("a", encoding="utf-8") as page:
        page.write(
            '\n<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="docs/images/dark.svg">\n'
            '  <img src="docs/images/light.svg" alt="Bars">\n</picture>\n'
        )
    site.run(clone, serve=False)
    text = page_of(clone, "README.md").read_text(encoding="utf-8")
    # The theme shows one of them, as the reader has chosen.
    assert "<picture" not in text
    for name in ("light", "dark"):
        shown = f"docs/images/{name}.svg"
        assert f'src="{shown}#only-{name}" alt="Bars">' in text and (clone.build / "site" / shown).is_file()
    styles = "".join(path.read_text(encoding="utf-8") for path in (clone.build / "site/assets").rglob("*.css"))
    assert '[src$="#only-light"]' in styles and '[src$="#only-dark"]' in styles


def test_what_leads_nowhere_is_found(clone: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    with (clone.repo / "docs/bench.md").open("a", encoding="utf-8") as page:
        page.write("".join(f"\nSee the {link}.\n" for link in PLANTED))
    with pytest.raises(RedstartError, match="mkdocs failed"):
        site.run(clone, serve=False)
    warnings = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    for said in PLANTED.values():
        assert len([line for line in warnings if "docs/bench.md" in line and said in line]) == 1


@pytest.mark.parametrize("link", ["[page](no-such-page.md)", "[anchor](tablespace-map.md#no-such-anchor)"])
def test_one_of_them_is_enough(clone: Layout, link: str) -> None:
    with (clone.repo / "docs/bench.md").open("a", encoding="utf-8") as page:
        page.write(f"\nSee the {link}.\n")
    with pytest.raises(RedstartError):
        site.run(clone, serve=False)


def test_a_page_that_is_not_in_the_menu_is_found(clone: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    (clone.repo / "docs/forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    with pytest.raises(RedstartError):
        site.run(clone, serve=False)
    assert "docs/forgotten.md" in capfd.readouterr().err
