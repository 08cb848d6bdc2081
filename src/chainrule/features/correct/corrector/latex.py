"""What is read of a text in LaTeX: all but comments, mathematics, verbatim text, and arguments that are no prose.

A command that is not known takes no prose, so what follows it in braces stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from chainrule.text.lookup import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT, BREAK = "_", "\n\n"  # in the place of what is left out inside a sentence, and between paragraphs
_NO_PROSE = (
    "align|alignat|asy|comment|displaymath|dmath|eqnarray|equation|filecontents|flalign|gather|lstlisting|math|minted|"
    "multline|tikzpicture|Verbatim|verbatim"
)
_TEX = re.compile(
    rf"(?P<code>\\begin\{{(?P<name>(?:{_NO_PROSE})\*?)\}}.*?\\end\{{(?P=name)\}}"
    r"|\\(?:verb|lstinline)\*?(?P<mark>[^\w\s{{*]).*?(?P=mark)"
    r"|\$\$.*?\$\$|\$(?:[^$\\]|\\.)*\$|\\\(.*?\\\)|\\\[.*?\\\])"
    r"|(?P<comment>(?<!\\)%[^\n]*)"
    r"|(?P<accent>\\[`'^\"~=.](?:\{[A-Za-z]\}|[A-Za-z])|\\[cuvHkr](?:\{[A-Za-z]\}|\s+[A-Za-z]))"
    r"|\\(?P<command>[A-Za-z@]+)\*?"
    r"|(?P<sign>\\.)"
    r"|(?P<brace>[{}])"
    r"|(?P<prose>[^\\%${}]+|.)",
    re.DOTALL,
)
_ACCENTS = dict(
    zip("`'^\"~=.cuvHkr", "\u0300\u0301\u0302\u0308\u0303\u0304\u0307\u0327\u0306\u030c\u030b\u0328\u030a", strict=True)
)
_SIGNS = "%&$#_{}"
# Commands that take prose, and after how many other arguments; the arguments of all others stay.
_WITH_PROSE = {
    **dict.fromkeys(
        [
            "emph",
            "enquote",
            "footnote",
            "item",
            "mbox",
            "MakeUppercase",
            "marginpar",
            "quote",
            "sout",
            "textbf",
            "textit",
            "textmd",
            "textnormal",
            "textrm",
            "textsc",
            "textsf",
            "textsl",
            "textup",
            "uline",
            "underline",
        ],
        0,
    ),
    **dict.fromkeys(
        [
            "author",
            "caption",
            "chapter",
            "date",
            "paragraph",
            "part",
            "section",
            "subparagraph",
            "subsection",
            "subsubsection",
            "subtitle",
            "thanks",
            "title",
        ],
        0,
    ),
    **dict.fromkeys(["foreignlanguage", "href", "textcolor"], 1),
}
_BLOCKS = frozenset(
    [
        "begin",
        "caption",
        "chapter",
        "end",
        "footnote",
        "item",
        "paragraph",
        "part",
        "section",
        "subparagraph",
        "subsection",
        "subsubsection",
        "thanks",
        "title",
    ]
)
_SPACED = frozenset(["linebreak", "newline", "par", "quad", "qquad"])


def latex_pieces(source: str) -> Iterator[Piece]:
    """Return what is read of a text in LaTeX."""
    ends: list[bool] = []  # of the open groups: whether the block ends with it
    place = 0
    while (match := _TEX.match(source, place)) is not None:
        start, place = match.span()
        kind = match.lastgroup if match["code"] is None else "code"
        if kind == "code":
            yield Piece(LEFT_OUT, start, place)
        elif kind == "accent":
            yield Piece(_accented(match["accent"]), start, place)
        elif kind == "sign":
            yield Piece(match["sign"][1:] if match["sign"][1] in _SIGNS else " ", start, place)
        elif kind == "brace":
            if match["brace"] == "{":
                ends.append(False)
            elif ends and ends.pop():
                yield Piece(BREAK, place, place)
        elif kind == "command":
            name = match["command"]
            is_block = name in _BLOCKS
            if is_block or name in _SPACED:
                yield Piece(BREAK if is_block else " ", start, start)
            place = _after_arguments(source, place, _WITH_PROSE.get(name))
            if name in _WITH_PROSE and source.startswith("{", place):
                ends.append(is_block)
                place += 1
            elif not is_block and name not in _WITH_PROSE and place > match.end():
                yield Piece(f" {LEFT_OUT}", start, place)  # a reference or the like, which is part of the sentence
        elif kind == "prose":
            yield Piece(match["prose"], start, place)


def _accented(written: str) -> str:
    letter = written[2:].strip(" {}\n\t")
    return unicodedata.normalize("NFC", letter + _ACCENTS[written[1]])


def _after_arguments(source: str, place: int, most: int | None) -> int:
    """Return the place after the arguments of a command, in brackets and, at most so many, in braces."""
    groups = 0
    while place < len(source) and source[place] in "[{" and not (source[place] == "{" and groups == most):
        groups += source[place] == "{"
        place = _after_group(source, place)
    return place


_GROUP_SIGNS = re.compile(r"\\.|[{}\[\]]", re.DOTALL)


def _after_group(source: str, place: int) -> int:
    """Return the place after a group in braces or brackets; the text's end, if it has none."""
    closing = {"{": "}", "[": "]"}[source[place]]
    depth = 0
    for match in _GROUP_SIGNS.finditer(source, place):
        sign = match.group()
        depth += (sign == source[place]) - (sign == closing)
        if not depth:
            return match.end()
    return len(source)
