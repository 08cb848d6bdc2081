"""Measures word vectors: against human ratings of word pairs, and by analogies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chainrule.base.options import takes
from chainrule.base.tables import cell, text_table
from chainrule.drawing.pages import html_table
from chainrule.features.vectors.learning.intrinsic import (
    Accuracy,
    Agreement,
    accuracies,
    agreement,
    read_analogies,
    read_sets,
    sum_sections,
)
from chainrule.features.vectors.options import VectorsEvaluation
from chainrule.models.progress_line import showing

if TYPE_CHECKING:
    from chainrule.features.vectors.model import WordVectors


@dataclass(frozen=True, kw_only=True, repr=False)
class VectorsMeasurement:
    """How well vectors agree with sets of pairs and answer analogies; `str` is a table of each.

    similarity: a row for each set. analogies: a row for each section, then for all grammar sections, and for all.
    by_ngrams: how many words of the sets are not in the vocabulary, but have vectors by their n-grams.
    """

    similarity: list[Agreement] = field(default_factory=list)
    analogies: list[Accuracy] = field(default_factory=list)
    by_ngrams: int = 0

    def __repr__(self) -> str:
        return f"<VectorsMeasurement>\n{self}"

    def __str__(self) -> str:
        """Return the tables, for people."""
        tables = [text_table(header, rows) for header, rows in self.tables()]
        undefined = [one.name for one in self.similarity if math.isnan(one.spearman)]
        if undefined:
            tables.append(
                f"{', '.join(undefined)}: no correlation; expected three known pairs or more, whose ratings and whose "
                "cosines are not all equal"
            )
        return "\n\n".join(tables)

    def _repr_html_(self) -> str:
        return "".join(html_table("", header, rows) for header, rows in self.tables())

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Return the header and the cells of each table that has rows."""
        sets = [
            [
                one.name,
                f"{one.pairs:,} of {one.of:,}",
                *(cell(one.spearman, ".3f"), _interval(one.spearman_interval)),
                *(cell(one.pearson, ".3f"), _interval(one.pearson_interval)),
            ]
            for one in self.similarity
        ]
        sections = [
            [one.section, f"{one.questions:,} of {one.of:,}", f"{one.share:.1%}" if one.questions else ""]
            for one in self.analogies
        ]
        tables = [
            (["", "pairs", "Spearman", "95 %", "Pearson", "95 %"], sets),
            (["", "questions", "right"], sections),
        ]
        return [(header, rows) for header, rows in tables if rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the correlation of each set and the accuracy of each section, by name: a row for pandas."""
        correlations = {f"{one.name}_spearman": one.spearman for one in self.similarity}
        accuracies = {f"{one.section}_accuracy": one.share for one in self.analogies}
        return {**correlations, **accuracies, "by_ngrams": self.by_ngrams}

    def as_json(self) -> dict[str, Any]:
        """Return all figures for JSON, with null for those that are not finite."""
        return {
            "similarity": [one.as_json() for one in self.similarity],
            "analogies": [one.as_json() for one in self.analogies],
            "by_ngrams": self.by_ngrams,
        }

    def notes(self) -> list[str]:
        """Return how many words got their vectors from their n-grams."""
        words = f"{self.by_ngrams:,} unknown words got their vectors from their character n-grams"
        return [words] if self.by_ngrams else []

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each set of pairs, then for each section of analogies: for pandas.DataFrame."""
        sets = [
            {
                "set": one.name,
                "measured": one.pairs,
                "of": one.of,
                "spearman": one.spearman,
                "pearson": one.pearson,
            }
            for one in self.similarity
        ]
        sections = [
            {"set": one.section, "measured": one.questions, "of": one.of, "accuracy": one.share}
            for one in self.analogies
        ]
        return [*sets, *sections]


def _interval(bounds: tuple[float, float]) -> str:
    return "" if math.isnan(bounds[0]) else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


@takes(VectorsEvaluation)
def evaluate_vectors(vectors: WordVectors, options: VectorsEvaluation) -> VectorsMeasurement:
    """Measure how well cosines agree with human ratings of word pairs, and how many analogies are answered right.

    The options are those of `VectorsEvaluation`. Raises TextError, SettingError.

    good:  chainrule.evaluate_vectors(vectors, similarity="word-sim/").similarity[0].spearman
    """
    sets = {} if options.similarity is None else read_sets(options.similarity)
    agreements = [agreement(name, pairs, vectors.vector_of, options.unknown) for name, pairs in sets.items()]
    asked = {word for pairs in sets.values() for pair in pairs for word in (pair.first, pair.second)}
    by_ngrams = sum(word not in vectors and vectors.vector_of(word) is not None for word in asked)
    if options.analogies is None:
        return VectorsMeasurement(similarity=agreements, by_ngrams=by_ngrams)
    directions = vectors.directions[: options.restrict]

    def row_of(word: str) -> int | None:
        row = vectors.row_of(word)
        return None if row is None or row >= len(directions) else row

    with showing(options.progress) as progress:
        sections = accuracies(read_analogies(options.analogies), row_of, directions, options.rule, progress)
    grammar = [one for one in sections if one.section.startswith("gram")]
    totals = [*([sum_sections("all of grammar", grammar)] if grammar else []), sum_sections("all", sections)]
    return VectorsMeasurement(similarity=agreements, analogies=[*sections, *totals], by_ngrams=by_ngrams)
