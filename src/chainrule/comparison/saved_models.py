"""Models that are there already, measured on one text, in one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, prefix_errors
from chainrule.evaluation.comparison import Comparison
from chainrule.evaluation.contender import Contender
from chainrule.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.api.model import Model
    from chainrule.text.corpus import Source


# Of a record, beside settings and texts: what makes another model, and not another draw of the same one.
_MADE = (
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


def contest(models: Iterable[tuple[str, Model]], source: Source, progress: Progress = silent) -> Comparison:
    """Measures models, each with its name, one after the other; an iterator may open each when its turn comes.

    The source is read once for each model. Raises TextError; SettingError where there is no model.
    """
    contenders = []
    for name, model in models:
        with prefix_errors(name):
            contenders.append(_contender(name, model, source, progress))
    return Comparison(contenders)


def parameters_of(model: Model) -> int | None:
    """The numbers that training set, n-grams or weights; None where its record does not say."""
    weights, ngrams = model.record.get("parameters"), model.record.get("ngrams")
    return weights if ngrams is None else sum(ngrams)


def size_of(model: Model) -> int | None:
    """Bytes of all numbers of a model in its folder, but for the tokenizer's and the speller's; None where a model
    cannot be saved there, as a probing binary of KenLM's.
    """
    try:
        _, arrays = FAMILIES[model.family].take_apart(model.language_model)
    except SettingError:
        return None
    return sum(array.nbytes for array in arrays.values())


def _contender(name: str, model: Model, source: Source, progress: Progress) -> Contender:
    return Contender(
        name=name,
        measurement=model.evaluate(source, progress),
        train_seconds=model.record.get("seconds"),
        parameters=parameters_of(model),
        configuration=_configuration(model),
        seed=model.record.get("training", {}).get("seed"),
        size=size_of(model),
        record=model.record,
    )


def _configuration(model: Model) -> str | None:
    """What models have in common that differ by their seeds alone; None where the model does not say how it was made.

    Models of other texts, of texts that were read otherwise, or that were changed after their training have other
    configurations: what they differ by is not chance.
    """
    record = model.record
    if "settings" not in record or "data" not in record:
        return None
    texts = sorted(map(str, record["data"].values()))
    training = {name: value for name, value in record.get("training", {}).items() if name != "seed"}
    made = {name: record.get(name) for name in _MADE}
    return json.dumps(
        [model.family, record["settings"], model.tokenizer.name, texts, training, made], sort_keys=True, default=str
    )
