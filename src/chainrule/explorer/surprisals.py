"""The surprisal of a text, unit by unit, with the sums that `score` and `evaluate` give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chainrule.api.models.language_models import CausalModel
from chainrule.api.models.model import Model, as_kind
from chainrule.api.texts.surprisal import documents
from chainrule.applications.detection import rank_texts
from chainrule.evaluation.surprisal import word_end_corrections
from chainrule.explorer.given import LONGEST
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array
from chainrule.text.units import words_of

if TYPE_CHECKING:
    from chainrule.evaluation.surprisal import By

    Json = dict[str, Any]

_RANKED = 1000  # characters of a text whose tokens are ranked, which needs the whole distribution at each
_LIKELIER = 10  # tokens named of each rank


def surprisals(model: Model, text: str, by: By = "tokens") -> Json:
    """The surprisal of each unit of a text, its end last, and its sum. Of a text longer than `LONGEST`, the beginning
    is read.

    Log-probabilities are in nats, spelling of unknown words included in `text_log_prob`. Of short texts, tokens have a
    `rank`: how many were likelier, plus one; and words a `whole_log_prob`, with the end of the word in place of that of
    the word before it, see `word_end_corrections`. Raises SettingError, MarkerError.
    """
    continues = as_kind(model, CausalModel)
    read = text[:LONGEST]
    block = Block(
        byte_array(read.encode("utf-8", "replace") + bytes([NEVER_IN_UTF8])), "the text", 1, NEVER_IN_UTF8, ""
    )
    [document] = documents(continues, block, by)
    record, name = document.as_json(by), by.removesuffix("s")
    units = [{"text": unit.pop(name), **unit} for unit in record.pop(f"{name}_scores")]
    if by == "tokens" and len(read) <= _RANKED and document.tokens > 1 and continues.is_distribution:
        ranked = rank_texts(continues.language_model, continues.tokenizer, [read], likelier=_LIKELIER)[0]
        for unit, rank, likelier in zip(units, ranked.ranks.tolist(), ranked.likelier, strict=False):
            unit |= {"rank": rank, "likelier": likelier}
    if by == "words" and len(read) <= _RANKED:
        for unit, correction in zip(units, _word_ends(continues, read), strict=True):
            log_prob = unit["text_log_prob"]
            unit["whole_log_prob"] = None if log_prob is None else log_prob + correction
    size = len(document.normalised.encode("utf-8", "replace")) + 1
    total = record["text_log_prob"]
    return {
        "by": by,
        "units": units,
        "normalised": record["normalised"],
        "log_prob": record["log_prob"],
        "text_log_prob": total,
        "tokens": record["tokens"],
        "oov": record["oov"],
        "bytes": size,
        "bits_per_byte": None if total is None else -total / size / math.log(2),
        "left_out": len(text) - len(read),
    }


def _word_ends(model: CausalModel, text: str) -> list[float]:
    encoded = model.tokenizer.encode_texts([text])
    words = words_of(encoded.ids, model.tokenizer.align(encoded))
    return word_end_corrections(model.language_model, model.tokenizer, encoded.ids, words.of_tokens).tolist()
