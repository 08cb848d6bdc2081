"""The families of mixtures and of what is mixed in without training: a cache, and equal probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.families.family import Family, refuse
from chainrule.mixture.config import CacheConfig, MixtureConfig
from chainrule.uniform import UniformConfig, UniformModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.families.family import Arrays, Json
    from chainrule.protocol import LanguageModel


def _train_cache(
    stream: MaybeOwned[Int32[ndarray, " T"]], vocabulary_size: int, config: CacheConfig, progress: Progress
) -> tuple[LanguageModel[Any], Json]:
    from chainrule.mixture.cache import UnigramCache

    return UnigramCache(vocabulary_size, config.words), {}


def _put_together_cache(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    from chainrule.mixture.cache import UnigramCache

    words = settings.get("words")
    return UnigramCache(vocabulary_size, words)  # type: ignore[arg-type]  # UnigramCache checks it


UNIFORM = Family(
    UniformConfig,
    token_bytes=4,
    train=lambda stream, vocabulary_size, config, progress: (UniformModel(vocabulary_size), {}),
    take_apart=lambda model: ({}, {}),
    put_together=lambda settings, arrays, vocabulary_size: UniformModel(vocabulary_size),
)
CACHE = Family(
    CacheConfig,
    token_bytes=4,
    train=_train_cache,
    take_apart=lambda model: ({"words": model.words}, {}),
    put_together=_put_together_cache,
)


def mixture_family(families: Mapping[str, Family]) -> Family:
    """The family of mixtures of models of these families, mixtures among them."""

    def take_apart(model: Any) -> tuple[Json, Arrays]:
        from chainrule.mixture import interpolation as saving

        return saving.take_apart(model, lambda family, component: families[family].take_apart(component))

    def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
        from chainrule.mixture import interpolation as saving

        continuing = {name: family.put_together for name, family in families.items() if family.job == "continue"}
        return saving.put_together(settings, arrays, vocabulary_size, continuing)

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
        from chainrule.mixture.components import FewerUnseen

        parts = [
            families[name].stream_scoring(component.model if isinstance(component, FewerUnseen) else component)
            for name, component in zip(model.components.families, model.components.models, strict=True)
        ]
        if not any(parts):
            return None
        contexts = dict.fromkeys("context:document" if part is None else part.signature for part in parts)
        return StreamScoring(model.score_stream_with_unknown, "+".join(contexts))

    return Family(
        MixtureConfig,
        token_bytes=4,
        train=refuse(
            SettingError,
            "a mixture is not trained on a text but made of models: chainrule mix, or chainrule.mix(models)",
        ),
        take_apart=take_apart,
        put_together=put_together,
        stream_scoring=stream_scoring,
        context=context,
        measure_options=lambda model: {"row_sums_of": model},
        why_no_table=lambda model: "it is a mixture; take the models that it was made from",
    )
