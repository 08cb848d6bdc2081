"""The families of mixtures, and of their components without training: the cache and the uniform model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.mixture.config import CacheConfig, MixtureConfig
from chainrule.mixture.uniform import UniformConfig, UniformModel
from chainrule.models.families.family import DEFAULT_COUNTING, Counting, Family, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
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
    UniformConfig,
    token_bytes=4,
    train=_train_uniform,
    to_state=lambda model: ({}, {}),
    from_state=lambda settings, arrays, vocabulary_size: UniformModel(vocabulary_size),
)
CACHE = Family(
    CacheConfig,
    token_bytes=4,
    train=_train_cache,
    to_state=lambda model: ({"words": model.words} | ({"order": model.order} if model.order > 1 else {}), {}),
    from_state=_put_together_cache,
)


def mixture_family(families: Mapping[str, Family]) -> Family:
    """The family of mixtures of models of these families, mixtures among them."""

    def to_state(model: Any) -> tuple[Json, Arrays]:
        from chainrule.mixture import interpolation as saving

        return saving.to_state(model, lambda family, component: families[family].to_state(component))

    def from_state(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
        from chainrule.mixture import interpolation as saving

        continuing = {name: family.from_state for name, family in families.items() if family.job == "continue"}
        return saving.from_state(settings, arrays, vocabulary_size, continuing)

    def context(model: Any) -> int | None:
        """The context of the component that reads least."""
        parts = [
            families[name].context(component)
            for name, component in zip(model.components.families, model.components.models, strict=True)
        ]
        return min((part for part in parts if part is not None), default=None)

    def stream_scoring(model: Any) -> StreamScoring | None:
        """Scores a text in one stream if any component does."""
        from chainrule.evaluation.likelihood import StreamScoring
        from chainrule.mixture.components import RescaledUnknown

        parts = [
            families[name].stream_scoring(component.model if isinstance(component, RescaledUnknown) else component)
            for name, component in zip(model.components.families, model.components.models, strict=True)
        ]
        if not any(parts):
            return None
        contexts = dict.fromkeys("context:document" if part is None else part.signature for part in parts)
        return StreamScoring(model.score_stream_with_unknown, "+".join(contexts))

    return Family(
        MixtureConfig,
        token_bytes=4,
        train=unsupported(
            SettingError,
            "a mixture is not trained on a text but made of models: chainrule mix, or chainrule.mix(models)",
        ),
        to_state=to_state,
        from_state=from_state,
        stream_scoring=stream_scoring,
        context=context,
        measure_options=lambda model: {"row_sums_of": model},
        why_no_table=lambda model: "it is a mixture; take the models that it was made from",
    )
