"""From a pre-trained model and labelled texts to a classifier, and its predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.evaluation.classification import Classification, classification
from chainrule.families import FAMILIES
from chainrule.model import Model
from chainrule.progress import Progress, silent
from chainrule.protocol import END
from chainrule.text.labelled import Labelled, LabelledUnit, classes_of
from chainrule.text.tokenizer import documents_of
from chainrule.text.words import words_of
from chainrule.training.finetuning_config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.neural.classifier import Classifier, Units


_LABELS_SHOWN = 20


class Predicted(NamedTuple):
    """Of a text: its units as they are normalised, and the log-probability of each label of each of them."""

    units: list[str]
    log_probs: Float32[ndarray, "units labels"]


def finetune(
    model: Model,
    examples: Sequence[Labelled],
    unit: LabelledUnit = "text",
    config: FineTuningConfig | None = None,
    *,
    told: Callable[[str], None] = lambda line: None,
    progress: Progress = silent,
) -> Model:
    """A model of family classifier: a network with a head that has learnt labels.

    model: of any family of networks. examples: with a label for the text, or for each of its words, as `unit` says.
    told: is given a line for each epoch. Raises SettingError where the model is no network; TextError where there are
    too few labels; EstimationError where the loss is no number.

    good:  finetune(chainrule.load("lm/"), read_labelled("reviews.tsv", "text"))
    """
    from chainrule.training.finetuning import Example, finetuned

    if not FAMILIES[model.family].embeds:
        raise SettingError(f"a model of family {model.family!r} has no encoder to put a head on; networks have")
    labels = classes_of(examples)
    numbers = {label: number for number, label in enumerate(labels)}
    units = _units(model, [example.text for example in examples], unit)
    pairs = []
    for own, (_, given, place) in zip(units, examples, strict=True):
        _check_number(own, given, place)
        pairs.append(Example(own, np.array([numbers[label] for label in given])))
    config = config or FineTuningConfig()
    classifier, record = finetuned(model.engine.network, labels, unit, pairs, config, told, progress)
    parameters = sum(weight.numel() for weight in classifier.parameters())
    base = {"base": model.family, "base_record": model.record}
    return Model("classifier", classifier, model.tokenizer, {**record, **base, "parameters": parameters}, model.speller)


def predicted(model: Model, texts: Sequence[str]) -> list[Predicted]:
    """The labels of texts, or of their words. Raises SettingError where the model is no classifier; MarkerError."""
    classifier = classifier_of(model)
    rows = classifier.log_probs(_units(model, texts, classifier.unit))
    if classifier.unit == "text":
        return [Predicted([text], row) for text, row in zip(texts, rows, strict=True)]
    return [Predicted(text.split(), row) for text, row in zip(texts, rows, strict=True)]


def classifier_of(model: Model) -> Classifier:
    """Raises SettingError where the model is none."""
    classifier: Classifier = model.engine_that("classify")
    return classifier


def assessed(model: Model, examples: Sequence[Labelled]) -> Classification:
    """How well a classifier does on labelled texts. Raises SettingError; TextError where it does not know a label."""
    classifier = classifier_of(model)
    check_labels(examples, classifier.labels)
    numbers = {label: number for number, label in enumerate(classifier.labels)}
    units = _units(model, [example.text for example in examples], classifier.unit)
    for own, example in zip(units, examples, strict=True):
        _check_number(own, example.labels, example.place)
    log_probs = np.concatenate(classifier.log_probs(units)).astype(np.float64)
    true = np.array([numbers[label] for example in examples for label in example.labels])
    return classification(classifier.labels, log_probs, true)


def check_labels(examples: Sequence[Labelled], known: Sequence[str]) -> None:
    """Raises TextError where a label is none of those that are known."""
    for example in examples:
        unseen = next((label for label in example.labels if label not in known), None)
        if unseen is not None:
            shown = ", ".join(map(repr, known[:_LABELS_SHOWN])) + ", ..." * (len(known) > _LABELS_SHOWN)
            raise TextError(
                f"{example.place}: the label {unseen!r} was not seen in training; the {len(known):,} known are {shown}"
            )


def _check_number(own: Units, labels: Sequence[str], place: str) -> None:
    """Raises TextError where a normaliser has changed what the words are, or the labels are of other units."""
    if own.number != len(labels):
        raise TextError(f"{place}: there are {own.number} words and {len(labels)} labels; give one to each")


def _units(model: Model, texts: Iterable[str], unit: LabelledUnit) -> list[Units]:
    from chainrule.neural.classifier import Units

    encoded = model.tokenizer.encode_texts(texts)
    sequences = documents_of(encoded.ids)
    if unit == "text":
        return [Units(tokens, np.zeros(len(tokens), np.int64), 1) for tokens in sequences]
    words = words_of(encoded.ids, model.tokenizer.align(encoded))
    owners = _by_document(words.of_tokens, encoded.ids == END)
    firsts = words.documents[:-1].tolist()
    numbers = (np.diff(words.documents) - 1).tolist()  # without the end
    return [
        Units(tokens, np.where(owner - first < number, owner - first, -1), number)
        for tokens, owner, first, number in zip(sequences, owners, firsts, numbers, strict=True)
    ]


def _by_document(owners: ndarray, is_end: ndarray) -> list[ndarray]:
    """Cut as `documents_of` cuts the tokens."""
    edges = np.flatnonzero(is_end)
    return [part[:-1] for part in np.split(owners, edges[:-1] + 1)]
