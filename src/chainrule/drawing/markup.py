"""Text for SVG and HTML. The templates escape it; here leaves it what neither can hold."""

from __future__ import annotations

from chainrule.drawing.glyphs import legible


def xml_text(text: str) -> str:
    """The text, `legible`, with U+FFFD for control characters (line ends, too) and whatever else XML cannot hold."""
    return "".join(c if _is_allowed(c) else "�" for c in legible(text))


def _is_allowed(c: str) -> bool:
    return c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\x7f\ufffe\uffff"
