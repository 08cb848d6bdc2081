"""The surprisal of each token, word, character or byte of texts: as lines, or as JSON for each document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.json import finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.api.models.model import Model
    from chainrule.evaluation.surprisal import By
    from chainrule.text.corpus.block import Block

_SINGULAR: dict[By, str] = {"tokens": "token", "words": "word", "characters": "character", "bytes": "byte"}


@dataclass(frozen=True)
class Unit:
    """A token, word, character or byte with its position in the normalised document."""

    text: str
    log_prob: float  # nats, <unk> for unknown tokens
    text_log_prob: float  # nats, as a piece of the text, spelling included
    known: bool
    start: int  # in code points
    stop: int
    start_byte: int
    stop_byte: int

    def line(self) -> str:
        columns = f"{self.log_prob:.6f}\t{self.text_log_prob:.6f}\t{self.start}\t{self.stop}\t{_one_line(self.text)}"
        return columns if self.known else f"{columns}\t<unk>"

    def as_json(self, by: By) -> dict[str, Any]:
        return {
            _SINGULAR[by]: self.text,
            "log_prob": finite(self.log_prob),
            "text_log_prob": finite(self.text_log_prob),
            "known": self.known,
            "start": self.start,
            "stop": self.stop,
            "start_byte": self.start_byte,
            "stop_byte": self.stop_byte,
        }


@dataclass(frozen=True)
class Document:
    text: str
    normalised: str
    units: list[Unit]
    tokens: int
    oov: int

    def lines(self) -> str:
        return "".join(unit.line() + "\n" for unit in self.units)

    def as_json(self, by: By) -> dict[str, Any]:
        return {
            "text": self.text,
            "log_prob": finite(sum(unit.log_prob for unit in self.units)),
            "text_log_prob": finite(sum(unit.text_log_prob for unit in self.units)),
            "tokens": self.tokens,
            "oov": self.oov,
            "normalised": self.normalised,
            f"{_SINGULAR[by]}_scores": [unit.as_json(by) for unit in self.units],
        }


def documents(model: Model, block: Block, by: By) -> Iterator[Document]:
    """Scores every document of a block by unit; tokens are shown as the tokenizer writes them."""
    import numpy as np

    from chainrule.evaluation.surprisal import units
    from chainrule.evaluation.token_scores import score_tokens
    from chainrule.protocol import END

    encoded = model.tokenizer.encode_block(block)
    scored = score_tokens(model.language_model, model.speller, encoded)
    aligned = model.tokenizer.align(encoded)
    aligned_units = units(encoded.ids, scored, aligned, by)
    text = aligned.text.tobytes()
    before = np.concatenate([[0], np.cumsum((aligned.text & 0xC0) != 0x80)])  # characters before each byte
    columns = [
        column.tolist()
        for column in (
            aligned_units.starts,
            aligned_units.stops,
            before[aligned_units.starts],
            before[aligned_units.stops],
            aligned_units.closed,
            aligned_units.total,
        )
    ]
    rows = list(zip(*columns, aligned_units.unknown.tolist(), strict=True))
    token_stops = (np.flatnonzero(encoded.ids == END) + 1).tolist()
    oov_before = np.concatenate([[0], np.cumsum(scored.unknown)])
    first_unit = first_token = first_byte = 0
    for original, last_unit, token_stop in zip(
        block.documents(), aligned_units.documents[1:].tolist(), token_stops, strict=True
    ):
        end = rows[last_unit - 1][0]  # the newline
        first_character = int(before[first_byte])
        shown = []
        for index in range(first_unit, last_unit):
            start, stop, start_character, stop_character, closed, total, unknown = rows[index]
            is_end = index == last_unit - 1
            if is_end:
                spelled, stop, stop_character = "</s>", start, start_character
            elif by == "tokens":
                spelled = encoded.surface(index).decode("utf-8", "replace")
            else:
                spelled = text[start:stop].decode("utf-8", "backslashreplace" if by == "bytes" else "replace")
            offsets = (
                start_character - first_character,
                stop_character - first_character,
                start - first_byte,
                stop - first_byte,
            )
            shown.append(Unit(spelled, closed, total, not unknown, *offsets))
        oov = int(oov_before[token_stop] - oov_before[first_token])
        yield Document(original, text[first_byte:end].decode("utf-8", "replace"), shown, token_stop - first_token, oov)
        first_unit, first_token, first_byte = last_unit, token_stop, end + 1


def _one_line(text: str) -> str:
    """White space, which would break a line of columns, as Python escapes it."""
    return text if text.isprintable() else text.encode("unicode_escape").decode() if text.isspace() else text
