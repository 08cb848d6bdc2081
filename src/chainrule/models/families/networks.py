"""The families of the core's networks. No engine is loaded before a function here is called."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from chainrule.kinds import kinds
from chainrule.models.families.family import Family, Quantization

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.models.families.family import Arrays, Json, Task
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.language_model import NeuralModel
    from chainrule.neural.saving import Engine
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import StreamOptions


def _train(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: NetworkConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[Engine, Json]:
    from chainrule.neural.saving import engine_of
    from chainrule.training.run import train_network

    network, record = train_network(stream, vocabulary_size, config, options, run)
    return engine_of(network), record


def _take_apart(model: Engine) -> tuple[Json, Arrays]:
    from chainrule.neural.saving import to_state

    return to_state(model)


def _putting_together(family: str) -> Callable[[Json, Arrays, int], Engine]:
    def from_state(settings: Json, arrays: Arrays, vocabulary_size: int) -> Engine:
        from chainrule.neural import saving

        configs = [config.get() for config in kinds()[family].configs]
        return saving.from_state(settings, arrays, vocabulary_size, configs)

    return from_state


def _compact(model: Engine, progress: Progress, bits: int | None = None) -> Engine:
    from chainrule.neural.saving import compact

    return compact(model, progress, bits)


def _unpack(model: Engine, progress: Progress) -> Engine:
    from chainrule.neural.saving import unpack

    return unpack(model, progress)


def _is_compact(model: Engine) -> bool:
    from chainrule.neural.saving import is_compact

    return is_compact(model)


def _stream_scoring(model: NeuralModel) -> StreamScoring:
    from chainrule.evaluation.likelihood import StreamScoring

    score = model.score_stream_with_unknown
    return StreamScoring(score, model.stream_signature, partial(score, unknown=False))


def network_family(name: str, job: Task, **fields: Any) -> Family:
    """Return a family of networks. job: what they do."""
    return Family(
        token_bytes=0,
        to_state=_take_apart,
        from_state=_putting_together(name),
        train=_train,
        trains_in_steps=True,
        context=lambda model: model.network.encoder.context,
        embeds=True,
        compaction=Quantization(_compact, _unpack, _is_compact),
        job=job,
        **fields,
    )


def continuing_network(name: str) -> Family:
    """Return a family of networks that continue texts."""
    return network_family(name, "continue", stream_scoring=_stream_scoring)


BILINEAR = continuing_network("bilinear")
BAG = continuing_network("bag")
FEEDFORWARD = continuing_network("feedforward")
CONVOLUTION = continuing_network("convolution")
RECURRENT = continuing_network("recurrent")
TRANSFORMER = continuing_network("transformer")
MASKED = network_family("masked", "fill")
MASKED_RECURRENT = network_family("masked-recurrent", "fill")
TWO_SIDED = network_family("two-sided", "fill")
TEXT_ENCODER = network_family("text-encoder", "embed")
