"""From a pre-trained model and labelled texts to a classifier, and its predictions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.model import Model, check_model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.record import circumstances
from chainrule.applications.labelling import labelled_units
from chainrule.errors import SettingError
from chainrule.families import FAMILIES
from chainrule.text.labelled import Labelled, LabelledUnit, checked, classes_of
from chainrule.training.finetuning_config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
    check_model(model)
    if not isinstance(config, FineTuningConfig | None):
        raise TypeError(f"config is {config!r}; expected a FineTuningConfig")
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"a model of family {model.family!r} has no encoder to put a head on; networks have")
    examples = checked(examples, unit)
    units = labelled_units(model.tokenizer, examples, unit)
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
