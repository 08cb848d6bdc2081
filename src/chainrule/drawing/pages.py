"""Renders pages and drawings from templates, here and in features; all values but markup are escaped.

Also what goes into them: visible white space, text without characters that SVG and HTML cannot contain, tables, small
pictures.
"""

from __future__ import annotations

import base64
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.tables import printable
from chainrule.drawing.colours import COLOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import UInt8
    from jinja2 import Environment
    from numpy import ndarray

# The character tokenizer writes white space as control pictures, which many fonts lack.
_SYMBOLS = str.maketrans({"␠": "·", "␊": "¶", "␉": "→", "␍": "←", "␀": "\\0"})


def show_whitespace(text: str) -> str:
    """Return the text with · for a space, ¶ for a line end, → for a tab: for display only."""
    return text.translate(_SYMBOLS)


def xml_text(text: str) -> str:
    """Return the text with its white space shown, and U+FFFD for what XML cannot contain, such as control
    characters.
    """
    return "".join(c if _is_allowed(c) else "�" for c in show_whitespace(text))


def shorten(text: str, longest: int) -> str:
    """Return the text, cut to a number of letters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _is_allowed(c: str) -> bool:
    return c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\x7f\ufffe\uffff"


def render(template: str, **values: Any) -> str:
    """Render a template, by its file name. Strings among the values are escaped, unless they are `Markup`."""
    return _environment().get_template(template).render(values)


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return a table for a notebook, the first column aligned left, the others right. Cells are text, not markup."""
    return html_tables([(title, rows)], header, notes)


def html_tables(
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]], header: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """Return several tables with the same header, each with its title, and notes below them."""
    return render("table.html.j2", tables=tables, header=header, notes=notes)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    ours = Path(__file__).parent
    features = sorted((ours.parent / "features").glob("*/templates"))
    environment = Environment(
        loader=FileSystemLoader([ours / "templates", *features]),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["printable"] = printable
    environment.filters["pixels"] = _pixels
    environment.globals["colours"] = COLOURS
    return environment


def _finalize(value: object) -> object:
    """Return strings as text that XML can contain, and markup unchanged."""
    return xml_text(value) if type(value) is str else value  # Markup is a subclass


def _pixels(length: float) -> str:
    """Return a length or position in pixels, rounded to a tenth."""
    return f"{length:.1f}".removesuffix(".0")


def png_address(pixels: UInt8[ndarray, "rows columns 3"]) -> str:
    """Return a PNG as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns, _ = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)  # eight bits, RGB
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # no filter
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()
