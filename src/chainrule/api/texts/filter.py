"""Filters a corpus: keeps the documents that a model finds likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.api.models.model import check_model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.texts.document_scores import passing
from chainrule.evaluation.lowest_scores import ScoreFile
from chainrule.text.corpus.corpus import source_of
from chainrule.text.corpus.writing import document_file

if TYPE_CHECKING:
    import os

    from chainrule.api.models.model import Model
    from chainrule.text.corpus.corpus import Paths, Source

BINS = 20


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The documents that passed. threshold: the highest score that passes, in bits per token.

    texts: the documents, unless they were written to a file. counts, edges: a histogram of all scores, without the
    outermost hundredths; it has one edge more than counts.
    """

    documents: int
    kept: int
    threshold: float
    counts: list[int]
    edges: list[float]
    texts: list[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<Filtered: kept {self.kept:,} of {self.documents:,} documents, up to {self.threshold:.4f} bits per token>"
        )


@shows_progress
def filter(
    source: Source | Paths,
    model: Model,
    *,
    keep: float | None = None,
    below: float | None = None,
    difference: Model | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: ProgressOption = None,
) -> Filtered:
    """Keeps the documents that a model finds likeliest, in order.

    A document's score is its cross-entropy in bits per token, with </s> and the spelling of unknown tokens. Give either
    keep, the share of documents to keep, above 0 and up to 1, which reads the source twice; or below, the highest
    score to keep. difference: a model of general text, whose score is subtracted, per token of `model` (Moore and
    Lewis 2010). output: a file to write or replace, also .jsonl or compressed; without it, the result holds the texts.
    Raises TextError, SettingError, OutputError.

    good:  chainrule.filter("corpus.txt", chainrule.load("lm/"), keep=0.3, output="likely.txt").threshold
    """
    check_model(model)
    if difference is not None:
        check_model(difference)
    texts: list[str] = []
    with ScoreFile() as scores:
        blocks, threshold = passing(
            source_of(source, model.document),
            scores,
            model,
            difference,
            keep=keep,
            below=below,
            progress=callback(progress),
        )
        if output is None:
            for block in blocks:
                texts += block.documents()
            kept = len(texts)
        else:
            with document_file(Path(output)) as file:
                for block in blocks:
                    file.write(block)
                kept = file.documents
        counts, edges = scores.histogram(BINS)
        return Filtered(
            documents=scores.size,
            kept=kept,
            threshold=threshold,
            counts=counts,
            edges=edges,
            texts=texts if output is None else None,
        )
