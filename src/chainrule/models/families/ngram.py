"""The family of n-gram models. No engine is loaded before a function here is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.models.families.family import DEFAULT_COUNTING, Counting, Family, Quantization
from chainrule.ngram.config import COMPACT

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.base.progress import Progress
    from chainrule.models.families.family import Arrays, Json
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.layouts import AnyNGram
    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.table_models import CompactNGramModel


def _train(
    stream: MaybeOwned[Int32[ndarray, " T"]],
    vocabulary_size: int,
    config: NGramConfig,
    progress: Progress,
    counting: Counting = DEFAULT_COUNTING,
) -> tuple[AnyNGram, Json]:
    from chainrule.ngram.training import train_ngram

    return train_ngram(
        stream, vocabulary_size, config, progress, counting.heldout, memory=counting.memory, on_plan=counting.on_plan
    )


def _take_apart(model: AnyNGram | CompactNGramModel | ShardedModel) -> tuple[Json, Arrays]:
    from chainrule.ngram.saving import to_state

    return to_state(model)


def _put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> AnyNGram | CompactNGramModel | ShardedModel:
    from chainrule.ngram.saving import from_state

    return from_state(settings, arrays, vocabulary_size)


def _measure_options(model: Any) -> Json:
    from chainrule.ngram.layouts import measure_options

    return measure_options(model)


def _layout(model: Any) -> str:
    from chainrule.ngram.layouts import layout_of

    return layout_of(model)


def _compact(model: Any, progress: Progress, bits: int | None = None) -> Any:
    from chainrule.ngram.layouts import compact

    if bits is not None:
        raise SettingError("bits are those of a network's weights; an n-gram model has none, so leave bits out")
    return compact(model, progress)


def _unpack(model: Any, progress: Progress) -> Any:
    from chainrule.ngram.layouts import fast

    return fast(model, progress)


NGRAM = Family(
    token_bytes=20,
    train=_train,
    to_state=_take_apart,
    from_state=_put_together,
    measure_options=_measure_options,
    layout=_layout,
    compaction=Quantization(_compact, _unpack, lambda model: _layout(model) == COMPACT),
    why_no_table=lambda model: model.why_no_table,
    counts_on_disk=lambda config: not config.needs_whole_counts,
    unknown_mass=lambda config: config.unknown_has_whole_mass,
)
