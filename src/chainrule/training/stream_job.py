"""What all networks that learn from one stream of ids have in common: how they are made, and what a run keeps."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.errors import TextError
from chainrule.neural.build_network import build
from chainrule.neural.config import TWO_SIDED, TransformerConfig
from chainrule.neural.config import settings_of as network_settings
from chainrule.neural.network import Network
from chainrule.neural.quantising import check_trainable
from chainrule.protocol import END
from chainrule.training.batches import check_long_enough
from chainrule.training.defaults import recipe_for, stream_settled
from chainrule.training.initial_vectors import coverage_of, set_vectors
from chainrule.training.job import TrainingJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.training.job import Setup
    from chainrule.training.objective import Objective
    from chainrule.training.options import StreamOptions

_AT_ONCE = 1 << 22  # tokens
_SHORT = 4  # so many documents and more are read at once


def stream_job(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions,
    objective: Callable[[Network, Setup], Objective],
) -> TrainingJob[Network]:
    """A network that is to learn from a stream. Raises TextError where there is too little of it, SettingError."""
    training, validation = stream_settled(config, options.training), options.validation
    if validation is not None and not validation.stream.size:
        raise TextError("the text to validate on is empty; give another, or leave it out")
    check_long_enough(stream, config.context)
    window = getattr(config, "window", None)
    if window is not None and window > stream.size:
        raise TextError(
            f"the text has {stream.size:,} tokens, fewer than a window of {window:,}; give more text, or a shorter "
            "window"
        )
    recipe = recipe_for(config, training)

    notes = [] if options.vectors is None else [coverage_of(options.vectors, vocabulary_size)]
    if options.start is not None:
        check_trainable(options.start)
    else:
        notes += _of_short_documents(stream, config)

    def build_network() -> Network:
        counts = torch.from_numpy(counts_of(stream, vocabulary_size)) if config.output != "full" else None
        network = build(config, vocabulary_size, counts)
        if options.vectors is not None:
            set_vectors(network, options.vectors)
        if options.start is not None:
            network.load_state_dict(options.start.state_dict())
        return network

    return TrainingJob(
        training=training,
        recipe=recipe,
        network=network_settings(config),
        text={
            **options.origin,
            "tokens": stream.size,
            "ids": _digest_of(stream),
            "validation_tokens": None if validation is None else validation.stream.size,
            "validation": None if validation is None else _digest_of(validation.stream),
            "vocabulary": vocabulary_size,
        },
        build=build_network,
        matrices=Network.matrices,
        objective=objective,
        step=f"{recipe.batch} rows of {config.context} tokens",
        smaller="batch, context or width",
        note="; ".join(notes) or None,
    )


def _of_short_documents(stream: Int32[ndarray, " tokens"], config: NetworkConfig) -> list[str]:
    """What to say where documents are much shorter than what a network reads at once."""
    if config.memory != "document" and isinstance(config, tuple(TWO_SIDED.values())):
        return []  # it writes no texts
    length = stream.size / max(1, sum(np.count_nonzero(part == END) for part in _parts(stream)))
    if length * _SHORT > config.context:
        return []
    of_running_text = (
        "memory='stream' has them read together"
        if config.memory == "document"
        else "texts that the model writes will end with a line, too: document='file' makes a file one text"
    )
    return [
        f"documents have {length:.0f} tokens on average, and {config.context:,} are read at once; if they are lines of "
        f"running text, {of_running_text}"
    ]


def flops_per_token(network: Network) -> float:
    """Of one step, forward and back: six for each weight that multiplies, and those of attention."""
    weights = sum(parameter.numel() for parameter in network.parameters() if parameter.dim() >= 2)
    config = network.config
    if config.output == "full" and not config.tied:
        weights -= network.embedding.weight.numel()  # looked up, not multiplied
    attention = 0.0
    if isinstance(config, TransformerConfig):
        attention = 6.0 * config.layers * config.width * min(config.context, 2 * (config.window or config.context))
    return 6.0 * weights + attention


def _digest_of(stream: Int32[ndarray, " tokens"]) -> str:
    """What tells one stream of ids from another."""
    digest = hashlib.sha256()
    for part in _parts(stream):
        digest.update(np.ascontiguousarray(part, np.int32).data)
    return digest.hexdigest()[:16]


def counts_of(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> ndarray:
    """How often each token is in a stream."""
    counts = np.zeros(vocabulary_size, np.int64)
    for part in _parts(stream):
        counts += np.bincount(part, minlength=vocabulary_size)
    return counts


def _parts(stream: Int32[ndarray, " tokens"]) -> Iterator[Int32[ndarray, " tokens"]]:
    """A stream may be a file that is larger than memory."""
    for start in range(0, stream.size, _AT_ONCE):
        yield stream[start : start + _AT_ONCE]
