"""Text for SVG and HTML: nothing in it is markup."""

from __future__ import annotations

from html import escape

from chainrule.report.glyphs import legible


def markup_text(text: str) -> str:
    """The text as content or within a quoted attribute, `legible`; U+FFFD for the characters that XML cannot hold."""
    return escape("".join(c if _is_allowed(c) else "�" for c in legible(text)))


def _is_allowed(c: str) -> bool:
    return c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\x7f\ufffe\uffff"
