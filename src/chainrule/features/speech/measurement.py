"""How far the texts that a model hears are from what was said: word and character error rates, and a model's gain."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chainrule.base.results import finite_figures
from chainrule.base.tables import text_table
from chainrule.evaluation.resampling import Estimate, interval_of_sums
from chainrule.features.metrics.aligned_words import (
    DELETED,
    INSERTED,
    SAME,
    SUBSTITUTED,
    align_words,
    shown_alignment,
)
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.metrics.aligned_words import AlignedWord
    from chainrule.features.metrics.error_rates import CorpusMeasure

_MEASURES: tuple[CorpusMeasure, ...] = (WordErrors(), CharacterErrors())
ALONE, FUSED = "the network alone", "with the language model"
_COLUMNS = {ALONE: "text", FUSED: "text_with_lm"}


@dataclass(frozen=True)
class SpeechMeasurement:
    """Error rates by how the texts were written, each with its 95 % bootstrap interval over sounds.

    sounds, words, characters: of the references. rates: by way of writing, then by WER or CER; a rate is a share. gain:
    what the language model takes off each rate, with the interval of the difference; None without one. texts: what was
    written, by way of writing. references: what was said. names: of the sounds.
    """

    row_of: ClassVar[str] = "a sound"

    sounds: int
    words: int
    characters: int
    rates: dict[str, dict[str, Estimate]]
    gain: dict[str, Estimate] | None
    texts: dict[str, list[str]]
    references: list[str]
    names: list[str]

    @classmethod
    def of(
        cls,
        references: Sequence[str],
        alone: Sequence[str],
        fused: Sequence[str] | None = None,
        names: Sequence[str] = (),
    ) -> SpeechMeasurement:
        """Return the error rates of some texts.

        alone: the texts by the network. fused: those with a language model. names: of the sounds.
        """
        ways = {ALONE: list(alone)} | ({} if fused is None else {FUSED: list(fused)})
        rows = {way: {own.short: own.statistics(texts, references) for own in _MEASURES} for way, texts in ways.items()}
        rates = {
            way: {
                own.short: Estimate(
                    float(own.value(rows[way][own.short].sum(0).astype(float))),
                    interval_of_sums([rows[way][own.short]], own.value),
                )
                for own in _MEASURES
            }
            for way in ways
        }
        gain = None
        if fused is not None:
            gain = {
                own.short: Estimate(
                    rates[ALONE][own.short].value - rates[FUSED][own.short].value,
                    interval_of_sums(
                        [rows[ALONE][own.short], rows[FUSED][own.short]],
                        lambda first, second, own=own: own.value(first) - own.value(second),
                    ),
                )
                for own in _MEASURES
            }
        words, characters = (int(rows[ALONE][own.short][:, 1].sum()) for own in _MEASURES)
        named = [*names] or [str(number) for number in range(len(references))]
        return cls(len(references), words, characters, rates, gain, ways, [*references], named)

    def __str__(self) -> str:
        header = ["", *(cell for own in _MEASURES for cell in (own.short, "95 %"))]
        shown = [[way, *_cells(rates)] for way, rates in self.rates.items()]
        if self.gain is not None:
            shown.append(["gain", *_cells(self.gain)])
        plural = "s" * (self.sounds != 1)
        kinds = Counter(kind for alignment in self.alignments() for kind, *_ in alignment)
        kinds.pop(SAME, None)
        errors = ", ".join(f"{kinds[kind]:,} {kind}" for kind in (SUBSTITUTED, DELETED, INSERTED))
        return (
            f"{self.sounds:,} sound{plural}, {self.words:,} words, {self.characters:,} characters\n"
            f"{text_table(header, shown)}\nwords{' with the language model' * (self.gain is not None)}: {errors}"
        )

    def alignments(self) -> list[list[AlignedWord]]:
        """Return the words of each sound beside those of its reference: of the texts with a language model, if there
        is one.
        """
        return [
            align_words(text, said) for text, said in zip(self.texts[[*self.texts][-1]], self.references, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, as shares: a row for pandas."""
        figures: dict[str, Any] = {"sounds": self.sounds, "words": self.words, "characters": self.characters}
        named = {"": self.rates[ALONE], "fused_": self.rates.get(FUSED), "gain_": self.gain}
        for prefix, rates in named.items():
            for name, (value, (low, high)) in (rates or {}).items():
                key = f"{prefix}{name.lower()}"
                figures |= {key: value, f"{key}_low": low, f"{key}_high": high}
        return figures

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each sound: what was said and written, the errors, and how the words are aligned."""
        records = []
        for i, alignment in enumerate(self.alignments()):
            texts = {_COLUMNS[way]: texts[i] for way, texts in self.texts.items()}
            own = {"sound": self.names[i], "reference": self.references[i], **texts}
            counts = Counter(kind for kind, *_ in alignment)
            errors = {kind: counts[kind] for kind in (SUBSTITUTED, DELETED, INSERTED)}
            words = {"words": len(self.references[i].split()), "errors": sum(errors.values())}
            records.append({**own, **words, **errors, "alignment": shown_alignment(alignment)})
        return records

    def as_json(self) -> dict[str, Any]:
        """Return `to_dict` for JSON, with null for what is not defined."""
        return finite_figures(self.to_dict())


def _cells(rates: dict[str, Estimate]) -> list[str]:
    cells = []
    for value, (low, high) in rates.values():
        cells += [f"{100 * value:.2f} %", "" if math.isnan(low) else f"{100 * low:.2f} to {100 * high:.2f}"]
    return cells


def plain_words(text: str) -> str:
    """Return the words of a text in small letters, without punctuation; an apostrophe within a word stays."""
    return " ".join(re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text.lower()))
