"""Text for SVG and HTML, without characters that they cannot contain. The templates escape it."""

from __future__ import annotations

from chainrule.drawing.glyphs import legible


def xml_text(text: str) -> str:
    """The text, `legible`, with U+FFFD for control characters (line ends, too) and all else that XML cannot contain."""
    return "".join(c if _is_allowed(c) else "�" for c in legible(text))


def _is_allowed(c: str) -> bool:
    return c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\x7f\ufffe\uffff"
