# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Masked views: same length, and nothing left that hides code."""

from __future__ import annotations

import pytest
from ast_grep_py import SgRoot

from overlay.mask import is_balanced, view


def _parse(text: str) -> str:
    masked = view(text.encode("utf-8"))
    assert len(masked.parse) == len(masked.code) == len(text.encode("utf-8"))
    assert masked.parse.count("\n") == text.count("\n")
    return masked.parse


@pytest.mark.parametrize(
    "text",
    [
        'void f() {\n  DBUG_EXECUTE_IF("a)", b = 1; return;);\n  c();\n}\n',
        "void f() {\n  ut_d(int a = 1; if (a) { b(); });\n  c(a);\n}\n",
        "void f(int a IF_DEBUG(, int b)) {\n  c(a);\n}\n",
        "#ifdef A\nvoid f(int a) {\n#else\nvoid f(long a) {\n#endif\n  c(a);\n}\n",
        "void f() {\n  c(a,\n#if defined(B)\n    b,\n#elif C\n    d,\n#endif\n    e);\n}\n",
        'void f() {\n  p("%" PRIu64 " of " LSN_PF, a, b);\n}\n',
        'void f() {\n  p("a" FMT "b"\n    FMT "\\n");\n}\n',
        "void f() NO_INLINE UNIV_COLD;\n",
        'MY_COMPILER_DIAGNOSTIC_PUSH()\nMY_COMPILER_GCC_DIAGNOSTIC_IGNORE("x")\nint a;\n',
        "#define A(x) \\\n  { x \\\n  (\nint a;\n",
        "#if 0\n } } ( \n#endif\nint a;\n",
        "#ifndef X /* a\n b */\n#define X\n#endif\nint a;\n",
        'const char *a = R"x(#if ( " )" /* )x";\nint b = 1\'000\'000;\n',
        "char c = '\"', d = '\\'', e = '(';\n",
        "void f() {\n  // don't\n  /* \" ( */ c(); // \\\n still comment )\n}\n",
    ],
)
def test_parses_without_errors(text: str) -> None:
    root = SgRoot(_parse(text), "cpp").root()
    assert root.find_all(kind="ERROR") == []
    assert root.find_all({"rule": {"regex": "^$"}}) == []
    assert is_balanced(view(text.encode()).code)


def test_keeps_one_branch() -> None:
    text = "#ifdef UNIV_DEBUG\na;\n#elif X\nb;\n#else\nc;\n#endif\n#if Y\nd;\n#else\ne;\n#endif\n"
    assert _parse(text).split() == ["b;", "d;"]


def test_nested_branches() -> None:
    text = "#if 0\n#if A\na;\n#else\nb;\n#endif\n#else\n#ifdef _WIN32\nc;\n#endif\nd;\n#endif\n"
    assert _parse(text).split() == ["d;"]


def test_dead_offsets() -> None:
    text = b"#if 0\na;\n#endif\nb;\n"
    masked = view(text)
    assert masked.is_dead(text.index(b"a;"))
    assert not masked.is_dead(text.index(b"b;"))


def test_offsets_are_bytes() -> None:
    """ast-grep counts characters: without the mask, offsets would drift."""
    text = "// é😀\nvoid f() {\n  work();\n}\n"
    node = SgRoot(text, "cpp").root().find(pattern="work()")
    assert node is not None and node.range().start.index == text.index("work")
    masked = SgRoot(_parse(text), "cpp").root().find(pattern="work()")
    assert masked is not None
    assert masked.range().start.index == text.encode("utf-8").index(b"work")


def test_words_in_strings_and_comments_stay_put() -> None:
    masked = view(b'int a; // ut_d(\nconst char *b = "ut_d(";\n')
    assert '"ut_d("' in masked.parse
    assert "ut_d" not in masked.code


def test_unclosed_macro_does_not_raise() -> None:
    _parse("void f() { ut_d(a; }\n")
