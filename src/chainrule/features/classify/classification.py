"""Labels texts or their words with a classifier, and measures how good it is."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.distributions import check_log_probs
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.classify.labelled.texts import distinct_labels, label_indices
from chainrule.features.classify.ratings import means_of
from chainrule.features.metrics.classification import Classification, measure_classification
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.tokenization.vocabulary import MarkerError
from chainrule.text.units import TextUnits, UnitTokens, count_words, split_words, units_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.features.classify.labelled.texts import Labelled, LabelledUnit
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

_LABELS_SHOWN = 20


class Labeller(Protocol):
    """A Protocol: labels inputs, such as texts, or their units, such as words; a network with a classification head."""

    labels: tuple[str, ...]

    @property
    def unit(self) -> Any: ...

    def log_probs(self, inputs: Sequence[Any], progress: Progress = ...) -> list[Float32[ndarray, "units labels"]]:
        """Return log P(label) of each unit of each input."""


class Predicted(NamedTuple):
    """The log-probabilities of all labels of a text, as normalised, or of its words, as written."""

    units: list[str]
    labels: tuple[str, ...]
    log_probs: Float32[ndarray, "units labels"]

    @property
    def best(self) -> list[tuple[str, float]]:
        """Each unit's likeliest label, with its probability."""
        rows = zip(self.log_probs.argmax(1).tolist(), self.log_probs.tolist(), strict=True)
        return [(self.labels[label], math.exp(row[label])) for label, row in rows]

    @property
    def means(self) -> list[float]:
        """Each unit's mean label, where labels are the numbers of a scale: the predicted rating."""
        return means_of(self.log_probs, self.labels).tolist()


class UnitVectors(NamedTuple):
    """The vectors of an input, or of its units, such as words."""

    units: list[str]
    vectors: Float32[ndarray, "units D"]


def predict_documents(
    classifier: Labeller, tokenizer: Tokenizer, encoded: Encoded, texts: Sequence[str]
) -> list[Predicted]:
    """Return the labels of documents, or of their words. encoded, texts: the same documents."""
    return predict(classifier, *present_texts(classifier, tokenizer, encoded, texts))


def present_texts(
    classifier: Labeller, tokenizer: Tokenizer, encoded: Encoded, texts: Sequence[str]
) -> tuple[list[UnitTokens], list[list[str]]]:
    """Return the input that a classifier reads for each document, and its units to show.

    encoded, texts: the same documents.
    """
    units = units_of(tokenizer, encoded, classifier.unit)
    tokens, shown = _by_text(encoded, units), [document.shown for document in units.by_document()]
    if classifier.unit == "word":
        given = [split_words(text) for text in texts]
        for i, own in enumerate(_of_given_words(tokenizer, tokens, given)):
            if own is not None:  # otherwise the words of the normalised text are labelled
                tokens[i], shown[i] = own, given[i]
    return tokens, shown


def predict(classifier: Labeller, inputs: Sequence[Any], shown: Sequence[list[str]]) -> list[Predicted]:
    """Return the labels of inputs, as the classifier reads them. shown: the units of each."""
    rows = _log_probs(classifier, inputs)
    return [Predicted(own, classifier.labels, row) for own, row in zip(shown, rows, strict=True)]


def measure(
    classifier: Labeller,
    examples: Sequence[Labelled],
    inputs: Sequence[Any],
    progress: Progress = silent,
    *,
    shown: Sequence[Sequence[Mapping[str, Any]]],
) -> Classification:
    """Return the figures of a classifier on labelled examples; a label that was not seen in training counts as an
    error.

    inputs: those of the examples, as the classifier reads them. shown: what names each unit of each in a table; or one
    row for an input of many units, such as a picture of pixels.

    Raises SettingError; TextError if no label was seen in training.
    """
    check_labels(examples, classifier.labels)
    own = set().union(*(distinct_labels(example.labels) for example in examples))
    labels = [*classifier.labels, *sorted(own.difference(classifier.labels))]
    index = {label: i for i, label in enumerate(labels)}
    log_probs = log_probs_of(classifier, inputs, progress).astype(np.float64)
    true = np.concatenate([label_indices(example.labels, index) for example in examples])
    found, items = measure_classification(labels, log_probs, true), []
    predicted = log_probs.argmax(1)
    start = 0
    for example, units in zip(examples, shown, strict=True):
        stop = start + len(example.labels)
        if len(units) != stop - start:
            items.append({**units[0], "units": stop - start, "right": float((predicted == true)[start:stop].mean())})
        for i, unit in enumerate(units, start) if len(units) == stop - start else ():
            right, best = int(true[i]), int(predicted[i])
            known = float(log_probs[i, right]) if right < log_probs.shape[1] else None
            row = {"label": labels[right], "predicted": labels[best], "right": right == best}
            items.append({**unit, **row, "log_prob_label": known, "log_prob_predicted": float(log_probs[i, best])})
        start = stop
    return replace(found, items=items)


def check_labels(examples: Sequence[Labelled], known: Sequence[str]) -> None:
    """Raise TextError if there are examples, and none of their labels is known."""
    labels = [(label, example.place) for example in examples for label in sorted(distinct_labels(example.labels))]
    if labels and not {label for label, _ in labels}.intersection(known):
        label, place = labels[0]
        shown = ", ".join(map(repr, known[:_LABELS_SHOWN])) + ", ..." * (len(known) > _LABELS_SHOWN)
        raise TextError(
            f"{place}: the label {label!r} was not seen in training, nor was any other label of these texts; expected "
            f"some of the {len(known):,} known: {shown}"
        )


def log_probs_of(
    classifier: Labeller, inputs: Sequence[Any], progress: Progress = silent
) -> Float32[ndarray, "units labels"]:
    """Return log P(label) of the units of all inputs, one after the other. Raises ModelFormatError as a damaged
    model.
    """
    return np.concatenate(_log_probs(classifier, inputs, progress))


def _log_probs(
    classifier: Labeller, inputs: Sequence[Any], progress: Progress = silent
) -> list[Float32[ndarray, "units labels"]]:
    """Return checked log-probabilities. Raises ModelFormatError if a damaged model gives other numbers."""
    log_probs = classifier.log_probs(inputs, progress)
    for rows in log_probs:
        check_log_probs(rows)
    return log_probs


def labelled_units(tokenizer: Tokenizer, examples: Sequence[Labelled], unit: LabelledUnit) -> list[UnitTokens]:
    """Return the tokens of labelled texts, by unit.

    Raises TextError if a text has more or fewer words than labels; MarkerError. Both name the place.
    """
    try:
        encoded = tokenizer.encode_texts([example.text for example in examples])
    except MarkerError as error:
        raise error.at(examples[error.document - 1].place) from None
    texts = _by_text(encoded, units_of(tokenizer, encoded, unit))
    if unit == "text":
        return texts
    given = [split_words(example.text) for example in examples]
    units = []
    for own, words, example in zip(_of_given_words(tokenizer, texts, given), given, examples, strict=True):
        if len(words) != len(example.labels):
            raise TextError(
                f"{example.place}: the text has {len(words)} words, but {len(example.labels)} labels; expected one "
                "label for each word"
            )
        if own is None:
            raise TextError(
                f"{example.place}: the {tokenizer.name} tokenizer splits words differently in this text than alone, so "
                "its labels cannot be assigned; leave the text out, or choose another tokenizer"
            )
        units.append(own)
    return units


def _of_given_words(
    tokenizer: Tokenizer, texts: Sequence[UnitTokens], given: Sequence[Sequence[str]]
) -> list[UnitTokens | None]:
    """Return the tokens of normalised texts, with the given words as their units: a tokenizer may split one word into
    several, don't into `don ' t`, and a normaliser may remove it.

    None for a text where they cannot be matched.
    """
    distinct = sorted({word for words in given for word in words})
    parts = dict(zip(distinct, count_words(tokenizer, distinct), strict=True))
    results: list[UnitTokens | None] = []
    for text, words in zip(texts, given, strict=True):
        owners = np.repeat(np.arange(len(words)), [parts[word] for word in words])
        of_tokens = np.append(owners, -1)[text.of_tokens] if len(owners) == text.number else None
        results.append(None if of_tokens is None else text._replace(of_tokens=of_tokens, number=len(words)))
    return results


def _by_text(encoded: Encoded, units: TextUnits) -> list[UnitTokens]:
    """Return the tokens of each document, with the unit that each belongs to."""
    texts = []
    token = 0
    for tokens, (first, stop) in zip(documents_of(encoded.ids), pairwise(units.documents.tolist()), strict=True):
        owners = units.of_tokens[token : token + len(tokens)]
        texts.append(UnitTokens(tokens, np.where(owners < 0, -1, owners - first), stop - first))
        token += len(tokens)
    return texts
