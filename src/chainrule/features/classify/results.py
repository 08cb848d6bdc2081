"""Predicted labels as results: of texts, their words, pairs with ratings, and whatever is labelled as a whole."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any

from chainrule.base.results import Shown, row
from chainrule.base.tables import count_of, on_one_line
from chainrule.features.classify.classification import predict_documents
from chainrule.features.classify.inputs import inputs_of
from chainrule.features.classify.units import unit_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.classify.classification import Labeller, Predicted
    from chainrule.features.classify.labelled.pairs import Pair
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.text.corpus.corpus import Corpus

_PART_BYTES = 1 << 16  # of text, classified at a time


class TextLabels:
    """The labels of the texts of a corpus, or of their words; iterating over it finds them."""

    def __init__(self, model: ClassifierModel, source: Corpus, progress: Progress) -> None:
        self._model, self._source, self._progress = model, source, progress
        self._texts = self._empty = self._labelled = 0

    def __iter__(self) -> Iterator[Shown]:
        """Yield the labels of each text, or of each of its words. Raises TextError, MarkerError."""
        classifier, tokenizer = self._model.classifier, self._model.tokenizer
        for block in self._source.blocks_as_they_come(self._progress, "classifying"):
            for piece in block.pieces(_PART_BYTES):
                encoded, documents = tokenizer.encode_block(piece), piece.documents()
                self._labelled += sum(_ends_in_label(document, classifier.labels) for document in documents)
                for prediction in predict_documents(classifier, tokenizer, encoded, documents):
                    self._texts += 1
                    self._empty += not any(prediction.units)
                    yield of_units(prediction, self._texts) if classifier.unit == "word" else of_input(prediction)

    def notes(self) -> Iterator[str]:
        """Yield whether the texts are no texts to label."""
        if 2 * self._labelled > self._texts:
            yield (
                f"{self._labelled:,} of the {count_of(self._texts, 'text')} end in a tab and a label, which is read as "
                f"a part of them; `chainrule evaluate` reads labelled texts, and measures"
            )
        if self._empty:
            yield f"{self._empty:,} of the texts are empty; their labels mean nothing"


def _ends_in_label(document: str, labels: Collection[str]) -> bool:
    """Return whether this is a line of a file of labelled texts."""
    _, tab, label = document.rpartition("\t")
    return bool(tab) and label.strip() in labels


def labels_of(classifier: Labeller, inputs: Sequence[Any], found: Sequence[Predicted]) -> Iterator[Shown]:
    """Yield the labels of inputs of a file. found: what was predicted for each."""
    shown, kind = unit_kind(classifier.unit).shown, inputs_of(classifier)
    if shown is not None:
        yield from map(shown.get(), found, inputs)
    elif classifier.unit != kind.units[0]:
        yield from map(of_units, found, count(1))
    else:
        yield from (of_input(own, kind.field) for own in found)


def of_input(prediction: Predicted, name: str = "text") -> Shown:
    """Return the label of an input. name: of the field that holds it."""
    [(label, probability)], [unit] = prediction.best, prediction.units
    record = {name: unit, "label": label, "probabilities": _shares(prediction)[0]}
    return row(_line(unit, label, probability), record)


def of_units(prediction: Predicted, number: int) -> Shown:
    """Return the label of each unit of an input, such as the words of a text. number: of the input, from 1."""
    labels, shares = [label for label, _ in prediction.best], _shares(prediction)
    columns = zip(prediction.units, labels, shares, strict=True)
    lines = [_line(unit, *best) for unit, best in zip(prediction.units, prediction.best, strict=True)]
    return Shown(
        "".join(f"{line}\n" for line in lines),
        {"words": prediction.units, "labels": labels, "probabilities": shares},
        [{"text": number, "word": unit, "label": label, "probabilities": own} for unit, label, own in columns],
    )


def of_rating(prediction: Predicted, pair: Pair) -> Shown:
    """Return the predicted rating of a pair."""
    [text], [rating] = prediction.units, prediction.means
    return row(f"{rating:.4f}\t{on_one_line(text)}", {"text": text, "rating": rating})


def _line(unit: str, label: str, probability: float) -> str:
    return f"{label}\t{probability:.6f}\t{on_one_line(unit)}"


def _shares(prediction: Predicted) -> list[dict[str, Any]]:
    """Return the probabilities of all labels, of each unit."""
    rows = prediction.log_probs.tolist()
    return [{name: math.exp(share) for name, share in zip(prediction.labels, row, strict=True)} for row in rows]
