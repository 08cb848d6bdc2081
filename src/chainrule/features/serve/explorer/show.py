"""The explorer without its server: its records in a notebook or as a page; and the page's files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.colours import LINES, PAPER, Colour, between, heat, ink_on
from chainrule.drawing.pages import render
from chainrule.errors import SettingError
from chainrule.evaluation.surprisal import By
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.serve.explorer.records import next_words, surprisals, text_model
from chainrule.features.vision.model import CaptionModel
from chainrule.features.vision.pictures.picture import as_picture
from chainrule.models.any_model import check_model
from chainrule.models.model import Model

if TYPE_CHECKING:
    import os

    Json = dict[str, Any]

_STRONGEST = 32  # bits that have the strongest colour
_MARKED = (0, 1, 4, 8, 16, 24, 32)  # bits in the legend


@dataclass(frozen=True)
class TextView:
    """A text in the colours of its surprisal, and the likeliest next tokens.

    surprisal: as /v1/explore/surprisal gives it; None for a model that fills gaps. other: that of a second model.
    next_words: as /v1/explore/next gives them.
    """

    text: str
    surprisal: Json | None = field(repr=False)
    other: Json | None = field(repr=False)
    next_words: Json = field(repr=False)

    def _repr_html_(self) -> str:
        return render("shown.html.j2", **self._parts())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a self-contained page, .html. Raises OutputError, SettingError."""
        target = Path(path)
        if target.suffix.lower() != ".html":
            raise SettingError(f"{target}: the name of a page must end in .html")
        check_new_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(render("shown_page.html.j2", title=f"“{self.text[:60]}”", **self._parts()).encode())

    def _parts(self) -> Json:
        """Return the values that the templates show."""
        sums = [
            _sum_of(record, name) for record, name in ((self.surprisal, "bits"), (self.other, "beside it")) if record
        ]
        tables = [self.next_words["tokens"]] if self.next_words["kind"] == "next" else self.next_words["gaps"]
        return {
            "sums": sums,
            "pieces": [] if self.surprisal is None else _pieces(self.surprisal, self.other),
            "compares": self.other is not None,
            "legend": [] if self.other is not None else [{"bits": bits, **_colours(bits)} for bits in _MARKED],
            "tables": [[_bar(token, tokens) for token in tokens] for tokens in tables],
            "fills": self.surprisal is None,
        }


def show(
    model: Model | Seq2SeqModel | CaptionModel,
    text: str,
    *,
    other: Model | None = None,
    given: Any = None,
    by: By = "tokens",
    top: int = 10,
) -> TextView:
    """Return a text in the colours of its surprisal, and the likeliest tokens after it, for a notebook or a page.

    other: a second model; colours then show where either is more surprised than the other. given: the source, for a
    seq2seq model, or the picture, for a captioner. by: tokens, words, characters or bytes. A model that fills gaps
    shows what fits each [MASK]. Raises SettingError, MarkerError.

    good:  chainrule.show(model, "the dog bit the man")
    good:  chainrule.show(model, "the dog bit the man", other=bigram, by="words").save("difference.html")
    """
    check_model(model, Model, Seq2SeqModel, CaptionModel)
    if not isinstance(text, str):
        raise SettingError(f"text is {text!r}; expected a text")
    if by not in get_args(By):
        raise SettingError(f"by is {by!r}; expected one of {', '.join(get_args(By))}")
    picture = as_picture(given) if isinstance(model, CaptionModel) and given is not None else None
    reads = text_model(model, given if picture is None else None, picture)
    if reads.is_bidirectional:
        return TextView(text, None, None, next_words(reads, text, top))
    beside = None if other is None else surprisals(other, text, by)
    return TextView(text, surprisals(reads, text, by), beside, next_words(reads, text, top))


def _sum_of(record: Json, name: str) -> str:
    if record["text_log_prob"] is None:
        return f"{name}: the text has no probability"
    bits = -record["text_log_prob"] / math.log(2)
    return (
        f"{name}: {bits:,.2f}, {record['bits_per_byte']:.4f} a byte; {record['tokens']:,} tokens with the end, "
        f"{record['oov']:,} unknown"
    )


def _pieces(record: Json, other: Json | None) -> list[Json]:
    """Return the units in order, and what is between them, each with its colour and hint."""
    others = {(unit["start_byte"], unit["stop_byte"]): unit for unit in ([] if other is None else other["units"])}
    pieces, end, normalised = [], 0, record["normalised"]
    for unit in record["units"]:
        beside = others.get((unit["start_byte"], unit["stop_byte"]))
        bits, hint = _bits(unit), f"{unit['shown']}: {_bits(unit):.2f} bits"
        shade = bits
        if other is not None:
            shade = 0.0 if beside is None else bits - _bits(beside)
            hint += "" if beside is None else f"; beside it: {_bits(beside):.2f} bits"
        if "rank" in unit:
            hint += f"; rank {unit['rank']}; likeliest: {', '.join(unit['likelier'])}"
        text = unit["shown"] if unit["is_part"] else normalised[unit["start"] : unit["stop"]]
        pieces.append(
            {
                "before": normalised[end : unit["start"]],
                "text": " ⏎" if unit is record["units"][-1] else text,
                "hint": hint,
                **_colours(shade, compares=other is not None),
            }
        )
        end = max(end, unit["stop"])
    return pieces


def _colours(bits: float, *, compares: bool = False) -> Json:
    """Return the colours behind a text and of its letters, in light and dark mode, for bits or for a difference of
    bits.
    """
    share = min(1.0, abs(bits) / (_STRONGEST / 4 if compares else _STRONGEST)) ** 0.75
    if compares:
        end = LINES[0] if bits < 0 else LINES[1]
        behind = Colour(*(between(paper, own, 0.7 * share) for paper, own in zip(PAPER, end, strict=True)))
    else:
        behind = heat(share)
    return {"behind": behind, "letters": Colour(*map(ink_on, behind))}


def _bits(unit: Json) -> float:
    log_prob = unit["text_log_prob"]
    return math.inf if log_prob is None else -log_prob / math.log(2)


def _bar(token: Json, tokens: list[Json]) -> Json:
    """Return a row of the table, with the length of its bar in percent of the longest."""
    longest = max(one["prob"] for one in tokens)
    return {
        "token": token["shown"],
        "prob": f"{token['prob']:.4f}",
        "share": f"{100 * token['prob'] / longest:.1f}",
    }


# Nothing on the page comes from elsewhere, and no text can become a script. Drawings are `data:` addresses.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the content and the media type of each file, by its path below the page's address."""
    static = files("chainrule.features.serve.explorer") / "static"
    contents = {
        folder + file.name: file.read_bytes()
        for folder in ("", "views/")
        for file in (static / folder).iterdir()
        if file.name.endswith((".html", ".css", ".js"))
    }
    contents["style.css"] = render("base.css.j2").encode() + contents["style.css"]
    return {name: (content, _TYPES[name.rpartition(".")[2]]) for name, content in contents.items()}
