"""The one table of model families: how each is set, trained, taken apart for a model folder, and put together again.

Importing this loads no engine: the functions below import what they need when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.ngram.config import MAX_ORDER, NGramConfig
from chainrule.uniform import UniformConfig, UniformModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.ngram.kinds import AnyNGram
    from chainrule.progress import Progress
    from chainrule.protocol import LanguageModel

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """train: stream of ids, vocabulary size, configuration, progress -> model and training record.
    take_apart: model -> settings and arrays; put_together: settings, arrays, vocabulary size -> model, or
    ModelFormatError.
    """

    config: type
    token_bytes: int  # what training holds in memory for each token of the text, at least
    train: Callable[[Int32[ndarray, " tokens"], int, Any, Progress], tuple[LanguageModel[Any], Json]]
    take_apart: Callable[[Any], tuple[Json, Arrays]]
    put_together: Callable[[Json, Arrays, int], LanguageModel[Any]]


def _train_uniform(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: UniformConfig, progress: Progress
) -> tuple[UniformModel, Json]:
    return UniformModel(vocabulary_size), {}


def _put_together_uniform(settings: Json, arrays: Arrays, vocabulary_size: int) -> UniformModel:
    return UniformModel(vocabulary_size)


def _train_ngram(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NGramConfig, progress: Progress
) -> tuple[AnyNGram, Json]:
    from chainrule.ngram.training import train_ngram

    return train_ngram(stream, vocabulary_size, config, progress)


def _take_apart_ngram(model: AnyNGram) -> tuple[Json, Arrays]:
    from chainrule.ngram.kinds import kind_of

    return {"ngrams": list(model.table.level_sizes), **kind_of(model)}, model.table.arrays()


def _put_together_ngram(settings: Json, arrays: Arrays, vocabulary_size: int) -> AnyNGram:
    from chainrule.ngram.kinds import model_from
    from chainrule.ngram.table import Table

    sizes = settings.get("ngrams")
    if (
        not isinstance(sizes, list)
        or not 1 <= len(sizes) <= MAX_ORDER
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        raise ModelFormatError(
            f"the n-gram settings hold ngrams = {sizes!r}; expected a number for each of at most {MAX_ORDER} orders"
        )
    if sizes[0] != vocabulary_size:
        raise ModelFormatError(
            f"the n-gram table has {sizes[0]} unigrams and the vocabulary {vocabulary_size} tokens; they must agree"
        )
    return model_from(settings, Table.from_arrays(sizes, arrays))


FAMILIES: dict[str, Family] = {
    "uniform": Family(UniformConfig, 4, _train_uniform, lambda model: ({}, {}), _put_together_uniform),
    "ngram": Family(NGramConfig, 20, _train_ngram, _take_apart_ngram, _put_together_ngram),
}


def family_of(config: object) -> str:
    """The name of the family that a configuration belongs to. Raises TypeError where it is of none."""
    for name, family in FAMILIES.items():
        if type(config) is family.config:
            return name
    known = ", ".join(family.config.__name__ for family in FAMILIES.values())
    raise TypeError(f"{config!r} is no configuration of a model family; expected one of {known}")
