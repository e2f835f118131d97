# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Views of C++ text that keep every offset: one character per byte.

tree-sitter does not preprocess. Directives, debug macros and dead branches
hide or break the code around them, so they are overwritten with spaces of
the same length before parsing. Offsets in a view are byte offsets in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

# Macros that no supported release build defines: their branches are blanked.
UNDEFINED = frozenset({"0", "UNIV_DEBUG", "UNIV_HOTBACKUP", "_WIN32", "UNIV_DEBUG_VALGRIND"})

# Macros whose use, arguments included, is blanked: they take statements or
# declarations as arguments, or stand where C++ allows no call.
_BLANKED_CALLS = (
    r"DBUG_EXECUTE_IF|DBUG_EXECUTE|IF_DEBUG|IF_ENABLED|"
    r"ut_d|ut_o|MY_ATTRIBUTE|MY_COMPILER_\w+|"
    r"LIMIT_OPTIMISTIC_INSERT_DEBUG|HASH_SEARCH|__attribute__"
)
_BLANKED_CALL = re.compile(rf"\b(?:{_BLANKED_CALLS})\b(?=\s*\()")
_BLANKED_WORD = re.compile(r"\b(?:UNIV_COLD|UNIV_HOT|UNIV_NOTHROW|NO_INLINE|MYSQL_PLUGIN_IMPORT)\b")
# A macro beside a string literal stands for another one: printf formats.
_FORMAT = r"(?:PRI[diouxX]\w+|[A-Z][A-Z0-9_]{2,})"
_BLANKED_FORMAT = re.compile(rf'(?<=")\s*\b{_FORMAT}\b(?!\s*\()|\b{_FORMAT}(?=\s*")')

_TOKEN = re.compile(
    r"""
    (?P<directive> ^[ \t]*\#(?:/\*.*?\*/|\\\r?\n|[^\n])*? (?=\r?\n|\Z|//) )
  | (?P<comment>   //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw>       R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)" )
  | (?P<string>    "(?:\\.|[^"\\\n])*" )
  | (?P<number>    (?<!\w)\d(?:'?[\w.])* )
  | (?P<char>      '(?:\\.|[^'\\\n])+' )
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_CONDITION = re.compile(
    r"\s*#\s*(?P<word>if|ifdef|ifndef|elif|else|endif)\b[ \t]*(?P<rest>.*)", re.DOTALL
)
_DEFINED = re.compile(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*$")
_NOT_NEWLINE = re.compile(r"[^\r\n]")
_OPEN = {"(": ")", "[": "]", "{": "}"}
_BRACKET = re.compile(r"[()\[\]{}]")


@dataclass
class View:
    """The masked texts of one C++ file; all are as long as the file in bytes.

    parse: for tree-sitter: comments, directives, dead branches and blanked
           macros are spaces; string literals stay.
    code:  as parse, with the insides of literals blanked too: safe for
           matching brackets and words.
    comments: (start, end) of each comment.
    directives: (start, end) of each preprocessor line outside comments.
    dead: (start, end) of each branch taken as not compiled.
    """

    parse: str
    code: str
    comments: list[tuple[int, int]]
    directives: list[tuple[int, int]]
    dead: list[tuple[int, int]]

    def is_dead(self, offset: int) -> bool:
        """Whether the byte at offset lies in a branch taken as not compiled."""
        i = bisect_right(self.dead, (offset, len(self.code))) - 1
        return i >= 0 and self.dead[i][0] <= offset < self.dead[i][1]


def one_char_per_byte(data: bytes) -> str:
    """Decode so that offsets are byte offsets; non-ASCII bytes become `x`.

    ast-grep counts characters, and tree-sitter wants valid text; neither a
    UTF-8 nor a latin1 file can be handed over as it is.
    """
    return data.decode("latin-1").translate(_ASCII)


_ASCII = dict.fromkeys(range(128, 256), "x")


def view(data: bytes) -> View:
    """Mask one C++ file."""
    text = one_char_per_byte(data)
    comments, directives, literals = [], [], []
    for match in _TOKEN.finditer(text):
        span = match.span()
        if match.lastgroup == "comment":
            comments.append(span)
        elif match.lastgroup == "directive":
            directives.append(span)
        elif match.lastgroup in ("string", "char", "raw", "delimiter"):
            literals.append((span[0] + 1, span[1] - 1))
    dead = _dead_branches(text, directives)
    parse = _blank(text, comments + directives + dead)
    code = _blank(parse, literals)
    macros = [(m.start(), close_of(code, m.end()) + 1) for m in _BLANKED_CALL.finditer(code)]
    for pattern in (_BLANKED_WORD, _BLANKED_FORMAT):
        macros += [match.span() for match in pattern.finditer(code)]
    return View(_blank(parse, macros), _blank(code, macros), comments, directives, dead)


def close_of(code: str, start: int) -> int:
    """Offset of the bracket that closes the first bracket at or after start.

    Returns the last offset of the text when nothing closes it.
    """
    stack: list[str] = []
    for match in _BRACKET.finditer(code, start):
        char = match.group()
        if char in _OPEN:
            stack.append(_OPEN[char])
        elif stack and stack[-1] == char:
            stack.pop()
            if not stack:
                return match.start()
        else:
            break
    return len(code) - 1


def is_balanced(code: str) -> bool:
    """Whether all brackets of the text pair up."""
    stack: list[str] = []
    for match in _BRACKET.finditer(code):
        char = match.group()
        if char in _OPEN:
            stack.append(_OPEN[char])
        elif not stack or stack.pop() != char:
            return False
    return not stack


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    """Overwrite spans with spaces; line ends stay. Spans may overlap."""
    parts, done = [], 0
    for start, end in sorted(spans):
        start = max(start, done)
        if end <= start:
            continue
        parts.append(text[done:start])
        parts.append(_NOT_NEWLINE.sub(" ", text[start:end]))
        done = end
    parts.append(text[done:])
    return "".join(parts)


def _is_false(word: str, rest: str) -> bool:
    """Whether a condition is known to be false in the builds we make."""
    rest = re.sub(r"/\*.*?\*/|//.*", "", rest, flags=re.DOTALL).strip()
    if word == "ifdef":
        return rest in UNDEFINED
    if word in ("if", "elif"):
        defined = _DEFINED.match(rest)
        return rest == "0" or bool(defined and (defined[1] or defined[2]) in UNDEFINED)
    return False


def _dead_branches(text: str, directives: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Branches of conditionals but the first that is not known to be false.

    So exactly one branch of each conditional is left and brackets balance.
    """
    dead: list[tuple[int, int]] = []
    open_: list[tuple[bool, int, bool]] = []  # branch is dead, its start, one was live
    for start, end in directives:
        match = _CONDITION.match(text, start, end)
        if not match:
            continue
        word = match["word"]
        if word.startswith("if"):
            false = _is_false(word, match["rest"])
            open_.append((false, end, not false))
            continue
        if not open_:
            continue
        was_dead, branch_start, had_live = open_.pop()
        if was_dead:
            dead.append((branch_start, start))
        if word != "endif":
            false = had_live or _is_false(word, match["rest"])
            open_.append((false, end, had_live or not false))
    dead += [(start, len(text)) for is_dead, start, _ in open_ if is_dead]
    return _merge(dead)


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and drop those inside others."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
