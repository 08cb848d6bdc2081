"""From a pre-trained model and labelled texts to a classifier, and its predictions."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.evaluation.classification import Classification, classification
from chainrule.families import FAMILIES
from chainrule.model import Model
from chainrule.progress import Progress, silent
from chainrule.progress_line import ProgressOption, callback, shows_progress
from chainrule.protocol import check_log_probs
from chainrule.text.labelled import Labelled, LabelledUnit, checked, classes_of
from chainrule.text.tokenizer import documents_of
from chainrule.text.units import TextUnits, units_of
from chainrule.text.vocabulary import MarkerError
from chainrule.trained import circumstances
from chainrule.training.finetuning_config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.neural.classifier import Classifier, Units
    from chainrule.text.vocabulary import Encoded


_LABELS_SHOWN = 20


class Predicted(NamedTuple):
    """Of a text: itself or its words, as normalised, and the log-probability of each label of each of them."""

    units: list[str]
    labels: tuple[str, ...]
    log_probs: Float32[ndarray, "units labels"]

    @property
    def best(self) -> list[tuple[str, float]]:
        """Each unit's likeliest label, with its probability."""
        rows = zip(self.log_probs.argmax(1).tolist(), self.log_probs.tolist(), strict=True)
        return [(self.labels[label], math.exp(row[label])) for label, row in rows]


@shows_progress
def finetune(
    model: Model,
    examples: Iterable[Labelled],
    unit: LabelledUnit = "text",
    config: FineTuningConfig | None = None,
    *,
    told: Callable[[str], None] = lambda line: None,
    progress: ProgressOption = None,
) -> Model:
    """A model of family classifier: a network with a head that has learnt labels.

    model: of any family of networks. examples: with a label for the text, or for each of its words, as `unit` says.
    told: is given a line for each epoch. Raises SettingError where the model is no network; TextError where there are
    too few labels; EstimationError where the loss is no number.

    good:  chainrule.finetune(chainrule.load("lm/"), chainrule.read_labelled("reviews.tsv"))
    """
    progress = callback(progress)
    from chainrule.training.finetuning import Example, finetuned

    began = time.perf_counter()
    if not isinstance(model, Model):
        raise TypeError(f"this takes a model, as chainrule.load gives one; found {model!r}")
    if not isinstance(config, FineTuningConfig | None):
        raise TypeError(f"config is {config!r}; expected a FineTuningConfig")
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"a model of family {model.family!r} has no encoder to put a head on; networks have")
    examples = checked(examples, unit)
    units = _labelled_units(model, examples, unit)
    labels = classes_of(examples)
    numbers = {label: number for number, label in enumerate(labels)}
    pairs = []
    for own, example in zip(units, examples, strict=True):
        pairs.append(Example(own, np.array([numbers[label] for label in example.labels])))
    config = config or FineTuningConfig()
    classifier, record = finetuned(model.engine.network, labels, unit, pairs, config, told, progress)
    parameters = sum(weight.numel() for weight in classifier.parameters())
    record = {
        **circumstances("classifier", config),
        "seconds": time.perf_counter() - began,
        **record,
        "base": model.family,
        "base_record": model.record,
        "parameters": parameters,
    }
    return Model("classifier", classifier, model.tokenizer, record, model.speller)


def predicted_of(model: Model, encoded: Encoded) -> list[Predicted]:
    """The labels of encoded documents, or of their words. Raises SettingError where the model is no classifier."""
    classifier = classifier_of(model)
    units = units_of(model.tokenizer, encoded, classifier.unit)
    rows = _log_probs(classifier, _by_text(encoded, units))
    return [Predicted(text.shown, classifier.labels, row) for text, row in zip(units.by_document(), rows, strict=True)]


def classifier_of(model: Model) -> Classifier:
    """Raises SettingError where the model is none."""
    classifier: Classifier = model.engine_that("classify")
    return classifier


def assessed(model: Model, examples: Iterable[Labelled], progress: Progress = silent) -> Classification:
    """How well a classifier does on labelled texts. Raises SettingError; TextError where it does not know a label."""
    classifier = classifier_of(model)
    examples = checked(examples, classifier.unit)
    units = _labelled_units(model, examples, classifier.unit)
    check_labels(examples, classifier.labels)
    numbers = {label: number for number, label in enumerate(classifier.labels)}
    log_probs = np.concatenate(_log_probs(classifier, units, progress)).astype(np.float64)
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


def _log_probs(
    classifier: Classifier, units: Sequence[Units], progress: Progress = silent
) -> list[Float32[ndarray, "units labels"]]:
    """Raises ModelFormatError where a damaged model gives something else."""
    found = classifier.log_probs(units, progress)
    for own in found:
        check_log_probs(own)
    return found


def _labelled_units(model: Model, examples: Sequence[Labelled], unit: LabelledUnit) -> list[Units]:
    """Raises TextError where a normaliser has changed what the words are, or the labels are of other units;
    MarkerError. Each is told with its place.
    """
    try:
        encoded = model.tokenizer.encode_texts([example.text for example in examples])
    except MarkerError as error:
        raise error.at(examples[error.document - 1].place) from None
    found = _by_text(encoded, units_of(model.tokenizer, encoded, unit))
    for own, example in zip(found, examples, strict=True):
        if own.number != len(example.labels):
            raise TextError(
                f"{example.place}: once it is normalised, the text has {own.number} words, and there are "
                f"{len(example.labels)} labels; give one to each, and leave out words that are not kept"
            )
    return found


def _by_text(encoded: Encoded, units: TextUnits) -> list[Units]:
    """What a classifier is given of each document: its tokens, and which of its units each belongs to."""
    from chainrule.neural.classifier import Units

    found = []
    token = 0
    for tokens, (first, behind) in zip(documents_of(encoded.ids), pairwise(units.documents.tolist()), strict=True):
        owners = units.of_tokens[token : token + len(tokens)]
        found.append(Units(tokens, np.where(owners < 0, -1, owners - first), behind - first))
        token += len(tokens)
    return found
