"""Existing models, measured on one text, in one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chainrule.api.models.causal_model import CausalModel
from chainrule.api.models.model import as_kind
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, prefix_errors
from chainrule.evaluation.comparison import Comparison, Contender
from chainrule.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.api.models.model import Model
    from chainrule.text.corpus.corpus import Source


# Fields of a record, besides settings and texts, that make a different model, not another random draw of the same one.
_DISTINGUISHING = (
    "tokenizer",
    "reading",
    "part_of",
    "mix",
    "vectors",
    "start",
    "validated_on",
    "tuned_on",
    "pruned",
    "quantised",
)


def compare_models(models: Iterable[tuple[str, Model]], source: Source, progress: Progress = silent) -> Comparison:
    """Measures named models one after the other; an iterator may open each only when it is needed.

    The source is read once for each model. Raises TextError; SettingError if there is no model.
    """
    contenders = []
    for name, model in models:
        with prefix_errors(name):
            contenders.append(_saved_contender(name, model, source, progress))
    return Comparison(contenders)


def parameters_of(model: Model) -> int | None:
    """How many n-grams or weights a model has; None if its record does not say."""
    weights, ngrams = model.record.get("parameters"), model.record.get("ngrams")
    return weights if ngrams is None else sum(ngrams)


def size_of(model: Model) -> int | None:
    """The bytes of a model's arrays in its folder, without those of the tokenizer and the speller.

    None if the model cannot be saved, as a probing binary of KenLM.
    """
    try:
        _, arrays = FAMILIES[model.family].take_apart(model.language_model)
    except SettingError:
        return None
    return sum(array.nbytes for array in arrays.values())


def _saved_contender(name: str, model: Model, source: Source, progress: Progress) -> Contender:
    return Contender(
        name=name,
        measurement=as_kind(model, CausalModel).evaluate(source, progress),
        train_seconds=model.record.get("seconds"),
        parameters=parameters_of(model),
        configuration=_configuration(model),
        seed=model.record.get("training", {}).get("seed"),
        size=size_of(model),
        record=model.record,
    )


def _configuration(model: Model) -> str | None:
    """A string that is the same for models that differ only in their seeds; None if the record does not tell.

    Models of different texts, of the same text read differently, or changed after training have different
    configurations: they do not differ by chance.
    """
    record = model.record
    if "settings" not in record or "data" not in record:
        return None
    texts = sorted(map(str, record["data"].values()))
    training = {name: value for name, value in record.get("training", {}).items() if name != "seed"}
    others = {name: record.get(name) for name in _DISTINGUISHING}
    return json.dumps(
        [model.family, record["settings"], model.tokenizer.name, texts, training, others], sort_keys=True, default=str
    )
