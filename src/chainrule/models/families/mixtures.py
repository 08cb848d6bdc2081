"""The families of mixtures, and of their components without training: the cache and the uniform model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.mixture.uniform import UniformModel
from chainrule.models.families.family import DEFAULT_COUNTING, Counting, Family
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.mixture.config import CacheConfig
    from chainrule.mixture.uniform import UniformConfig
    from chainrule.models.families.family import Arrays, Json
    from chainrule.protocol import LanguageModel


def _train_cache(
    stream: MaybeOwned[Int32[ndarray, " T"]],
    vocabulary_size: int,
    config: CacheConfig,
    progress: Progress,
    counting: Counting = DEFAULT_COUNTING,
) -> tuple[LanguageModel[Any], Json]:
    from chainrule.mixture.cache import NGramCache

    return NGramCache(vocabulary_size, config.words, config.order), {}


def _train_uniform(
    stream: MaybeOwned[Int32[ndarray, " T"]],
    vocabulary_size: int,
    config: UniformConfig,
    progress: Progress,
    counting: Counting = DEFAULT_COUNTING,
) -> tuple[LanguageModel[Any], Json]:
    return UniformModel(vocabulary_size), {}


def _put_together_cache(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    from chainrule.mixture.cache import NGramCache

    words, order = settings.get("words"), settings.get("order", 1)
    return NGramCache(vocabulary_size, words, order)  # type: ignore[arg-type]  # NGramCache checks them


UNIFORM = Family(
    token_bytes=4,
    train=_train_uniform,
    to_state=lambda model: ({}, {}),
    from_state=lambda settings, arrays, vocabulary_size: UniformModel(vocabulary_size),
)
CACHE = Family(
    token_bytes=4,
    train=_train_cache,
    to_state=lambda model: ({"words": model.words} | ({"order": model.order} if model.order > 1 else {}), {}),
    from_state=_put_together_cache,
)


def _parts_of(model: Any) -> list[tuple[Family, LanguageModel[Any]]]:
    """Return the components of a mixture, each with its family."""
    from chainrule.mixture.components import RescaledUnknown

    return [
        (FAMILIES[name], component.model if isinstance(component, RescaledUnknown) else component)
        for name, component in zip(model.components.families, model.components.models, strict=True)
    ]


def _take_apart(model: Any) -> tuple[Json, Arrays]:
    from chainrule.mixture.interpolation import to_state

    return to_state(model, lambda family, component: FAMILIES[family].to_state(component))


def _put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    from chainrule.mixture.interpolation import from_state

    return from_state(settings, arrays, vocabulary_size, _restored)


def _restored(name: str, settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    family = FAMILIES.get(name)
    if family is None or family.job != "continue":
        raise ModelFormatError(f"the mixture has a component of family {name!r}, which this version cannot mix")
    model: LanguageModel[Any] = family.from_state(settings, arrays, vocabulary_size)
    return model


def _context(model: Any) -> int | None:
    """Return the context of the component that reads least."""
    parts = [family.context(component) for family, component in _parts_of(model)]
    return min((part for part in parts if part is not None), default=None)


def _stream_scoring(model: Any) -> StreamScoring | None:
    """Return how a text is scored in one stream, which is done if any component does."""
    from chainrule.evaluation.likelihood import StreamScoring

    parts = [family.stream_scoring(component) for family, component in _parts_of(model)]
    if not any(parts):
        return None
    contexts = dict.fromkeys("context:document" if part is None else part.signature for part in parts)
    return StreamScoring(model.score_stream_with_unknown, "+".join(contexts))


MIXTURE = Family(
    token_bytes=4,
    to_state=_take_apart,
    from_state=_put_together,
    stream_scoring=_stream_scoring,
    context=_context,
    measure_options=lambda model: {"row_sums_of": model},
    why_no_table=lambda model: "it is a mixture; take the models that it was made from",
)
