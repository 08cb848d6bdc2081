"""Fine-tunes a pre-trained network on labelled texts; the result is a classifier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np

from chainrule.api.models.classifier_model import ClassifierModel
from chainrule.api.models.model import Model, check_model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.run_options import RunOptions, training_run
from chainrule.api.training_record import circumstances
from chainrule.applications.classifier_inputs import digest_of_inputs, kind_of
from chainrule.errors import SettingError
from chainrule.families.table import FAMILIES
from chainrule.text.labelled import Labelled, LabelledUnit, classes_of
from chainrule.training.config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.applications.labelled_pairs import LabelledPair
    from chainrule.training.config import TrainingRun


@shows_progress
def finetune(
    model: Model,
    examples: Iterable[Labelled] | Iterable[LabelledPair],
    unit: LabelledUnit | Literal["pair"] = "text",
    config: FineTuningConfig | None = None,
    *,
    run: TrainingRun | None = None,
    progress: ProgressOption = None,
    **options: Unpack[RunOptions],
) -> ClassifierModel:
    """Trains a network with a classification head on labelled texts; returns a model of family classifier.

    model: a network of any family. examples: with a label for the text, for each of its words, or for a pair of
    sentences, as `unit` says; a pair is read as one text, [CLS] a [SEP] b [SEP], with the types of BERT where the
    network has them.
    run, progress, options: as for `train`. Ctrl-C ends training with the best epoch so far, once there is one.
    Raises SettingError if the model is not a network; TextError if there are too few labels; EstimationError if the
    loss is not finite; and what `train` raises.

    good:  chainrule.finetune(chainrule.load("lm/"), chainrule.read_labelled("reviews.tsv"))
    """
    from chainrule.training.objectives.classifiers import finetune_network
    from chainrule.training.objectives.labels import Example

    progress = callback(progress)
    began = time.perf_counter()
    check_model(model)
    if not isinstance(config, FineTuningConfig | None):
        raise TypeError(f"config is {config!r}; expected a FineTuningConfig")
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"a model of family {model.family!r} has no encoder for a head; give a network")
    kind = kind_of("text", unit)
    examples = kind.check(examples, unit)
    units = kind.encode(model.tokenizer, examples, unit, None)
    labels = classes_of(examples)
    index = {label: i for i, label in enumerate(labels)}
    labelled = [
        Example(own, np.array([index[label] for label in example.labels]))
        for own, example in zip(units, examples, strict=True)
    ]
    config = config or FineTuningConfig()
    run = training_run(run, options, progress)
    classifier, record = finetune_network(model.engine.network, labels, unit, labelled, config, run)
    record = {
        **circumstances("classifier", config),
        "seconds": time.perf_counter() - began,
        "data": {"labelled examples": digest_of_inputs(examples)},
        **record,
        "base": model.family,
        "base_record": model.record,
    }
    return ClassifierModel("classifier", classifier, model.tokenizer, record, model.speller)
