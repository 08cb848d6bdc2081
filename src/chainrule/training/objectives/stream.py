"""What all objectives on one stream of ids share: their job, initial token vectors, and the validation loss."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from chainrule.base.tables import count_of
from chainrule.errors import SettingError, TextError
from chainrule.neural.adapters import adapter_matrices, adapters_of, add_adapters
from chainrule.neural.build import build
from chainrule.neural.config import settings_of as network_settings
from chainrule.neural.layers.state import detach
from chainrule.neural.network import Network
from chainrule.neural.quantization import check_trainable
from chainrule.protocol import END
from chainrule.training.batches import blocks, check_long_enough, lanes
from chainrule.training.character_ngrams import SummedVectors, character_ngrams
from chainrule.training.config import BETA2_OF_NGRAMS
from chainrule.training.defaults import (
    ADAPTER_RATE,
    MANY_TOKENS,
    recipe_for,
    row_length,
    with_adapter_defaults,
    with_stream_defaults,
)
from chainrule.training.job import TrainingJob, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Float, Int32, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.encoders.transformer import Transformer
    from chainrule.neural.layers.cross_entropy import KnownLogProbs
    from chainrule.neural.layers.output import FullSoftmax
    from chainrule.training.character_ngrams import CharacterNgrams
    from chainrule.training.config import InitialVectors, TrainingConfig
    from chainrule.training.device import Machine
    from chainrule.training.distributed import Processes
    from chainrule.training.job import Objective, Setup, StreamOptions


def set_vectors(network: Network, initial: InitialVectors) -> None:
    """Set a network's token vectors, as `set_rows` does. Raises SettingError."""
    set_rows(network.embedding.weight, initial, network.config.token_width_setting, scale=network.embedding.scale)


def set_rows(weight: Tensor, initial: InitialVectors, setting: str, *, scale: float = 1.0) -> None:
    """Copy the vectors that the file has; draw the others with the same standard deviation.

    weight: (V, D). setting: the name of the setting for D. scale: what the network multiplies its vectors by; the
    copies are divided by it, so that the network computes with those of the file. Raises SettingError if the file has
    none of the tokens, or its vectors have another width.
    """
    vectors = initial.vectors
    count, width = vectors.rows.shape
    if not count:
        raise SettingError(
            f"{vectors.name}: it has no word of the vocabulary; give vectors of the text's language, and cut the text "
            "into words as theirs was (tokenizer='word', normalise='lower')"
        )
    if width != weight.shape[1]:
        raise SettingError(
            f"{vectors.name}: its vectors have {width} numbers, those of the network {weight.shape[1]}; "
            f"set {setting}={width}"
        )
    with torch.no_grad():
        weight.normal_(std=float(vectors.rows.std()) / scale)
        weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.rows) / scale
    weight.requires_grad_(not initial.fixed)


def coverage_of(initial: InitialVectors, vocabulary_size: int) -> str:
    """Return a sentence that says how much of the vocabulary the file covers."""
    vectors, count = initial.vectors, len(initial.vectors.ids)
    kept = f"; left out {count_of(vectors.repeated, 'row')} of repeated words" if vectors.repeated else ""
    kept += "; no vector is trained" if initial.fixed else ""
    return f"{vectors.name} has {count:,} of {vocabulary_size:,} tokens ({count / vocabulary_size:.0%}){kept}"


_CHUNK = 1 << 22  # tokens
_SHORT = 4  # documents are short if more of them fit into a context
_MOST_SPELLED = 50_000  # tokens; with more, sums of n-grams were not measured
_COVERED = 0.5  # the share of tokens with n-grams, from which `auto` takes them


def stream_job(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions,
    objective: Callable[[Network, Setup], Objective],
) -> TrainingJob[Network]:
    """Return a job that trains a network on a stream. Raises TextError if the stream is too short; SettingError."""
    adapter, validation = options.adapter, options.validation
    training = with_stream_defaults(config, with_adapter_defaults(options.training, adapter))
    ngrams = _ngrams_for(config, vocabulary_size, training, options)
    if ngrams is not None and options.training.beta2 is None and training.beta2 is not None:
        training = replace(training, beta2=BETA2_OF_NGRAMS)
    training = replace(training, character_ngrams="no" if ngrams is None else "yes")
    if validation is not None and not validation.stream.size:
        raise TextError("the text to validate on is empty; give another, or leave it out")
    check_long_enough(stream, row_length(config, training))
    window = getattr(config, "window", None)
    if window is not None and window > stream.size:
        raise TextError(
            f"the text has {stream.size:,} tokens, fewer than a window of {window:,}; give more text, or a shorter "
            "window"
        )
    recipe = recipe_for(config, training)
    if adapter is not None and training.learning_rate is None and training.optimiser == "adamw":
        recipe = replace(recipe, rate=ADAPTER_RATE)

    notes = [] if options.vectors is None else [coverage_of(options.vectors, vocabulary_size)]
    if options.training.character_ngrams == "yes" and ngrams is None:
        notes.append("no n-gram of characters is in three tokens or more, so that each vector is learned alone")
    if options.training.character_ngrams == "auto" and ngrams is not None:
        notes.append(
            f"vectors of tokens are learned as sums with those of {ngrams.number:,} character n-grams; "
            "character_ngrams='no' leaves them out"
        )
    if options.start is not None:
        if adapter is None:
            check_trainable(options.start)
    else:
        notes += _notes_on_short_documents(stream, config)

    def build_network() -> Network:
        if adapter is not None and options.start is not None:
            add_adapters(options.start, adapter.rank, adapter.scale, adapter.lora_layers)
            return options.start
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
        network=network_settings(config) | ({} if adapter is None else asdict(adapter)),
        text=text_record(stream, vocabulary_size, options),
        build=build_network,
        matrices=Network.matrices if adapter is None else adapter_matrices,
        objective=objective,
        starts_trained=options.start is not None,
        step=f"{recipe.batch} rows of {row_length(config, training)} tokens",
        memory_hint="batch, row_tokens or width",
        notes=tuple(notes),
        blocks=blocks_of if config.blocks else None,
        summed=None if ngrams is None else lambda network: SummedVectors(network.embedding.weight, ngrams),
    )


def _ngrams_for(
    config: NetworkConfig, vocabulary_size: int, training: TrainingConfig, options: StreamOptions
) -> CharacterNgrams | None:
    """Return the character n-grams of the vocabulary, where its vectors are learned as sums. Raises SettingError."""
    wanted, vectors = training.character_ngrams, options.vectors
    why_not = {
        "the vectors of tokens are not trained": options.adapter is not None or (vectors is not None and vectors.fixed),
        "shard shares out the vectors": training.shard,
        "there are no tokens to spell": options.tokens is None,
    }
    reasons = [reason for reason, holds in why_not.items() if holds]
    if wanted == "yes" and reasons:
        raise SettingError(f"character_ngrams is yes, but {reasons[0]}; leave it out")
    is_new = options.start is None and vectors is None
    is_wide = config.ngrams_from is not None and config.width >= config.ngrams_from
    gains = is_wide and MANY_TOKENS <= vocabulary_size <= _MOST_SPELLED
    if reasons or wanted == "no" or (wanted == "auto" and not (gains and is_new)):
        return None
    found = character_ngrams(options.tokens or ())
    return found if found.number and (wanted == "yes" or found.covered >= _COVERED) else None


def blocks_of(network: Network) -> list[nn.Module]:
    """Return the blocks of a Transformer."""
    return list(cast("Transformer", network.encoder).blocks)


def _notes_on_short_documents(stream: Int32[ndarray, " tokens"], config: NetworkConfig) -> list[str]:
    """Return a note for users if documents are much shorter than the context."""
    if config.memory != "document" and config.is_bidirectional:
        return []  # it does not generate texts
    if config.predicts_next_sentence:
        return []  # documents fill rows together
    length = stream.size / max(1, sum(np.count_nonzero(part == END) for part in _parts(stream)))
    if length * _SHORT > config.context:
        return []
    advice = (
        "set memory='stream' to read across their ends"
        if config.memory == "document"
        else "set document='file' to make a file one document; otherwise generated texts end after a line, too"
    )
    return [
        f"documents have {length:.0f} tokens on average, the context {config.context:,}",
        f"if these documents are lines of running text, {advice}",
    ]


def flops_per_token(network: Network) -> float:
    """Return floating-point operations per token, forward and backward: six per weight in a product, and attention."""
    matrices = [parameter for parameter in network.parameters() if parameter.dim() >= 2]
    weights = sum(weight.numel() for weight in matrices)
    if adapters_of(network):  # four for those that are not trained
        return 6.0 * weights - 2.0 * sum(weight.numel() for weight in matrices if not weight.requires_grad)
    config = network.config
    if config.output == "full" and not config.tied:
        weights -= network.embedding.weight.numel()  # a lookup, not a product
    return 6.0 * weights + config.attention_flops


def text_record(stream: Int32[ndarray, " tokens"], vocabulary_size: int, options: StreamOptions) -> dict[str, Any]:
    """Return what a run was trained and validated on; only a run on the same may be resumed."""
    validation = options.validation
    return {
        **options.origin,
        "tokens": stream.size,
        "ids": digest_of(stream),
        "validation_tokens": None if validation is None else validation.stream.size,
        "validation": None if validation is None else digest_of(validation.stream),
        "vocabulary": vocabulary_size,
    }


def digest_of(stream: Int32[ndarray, " tokens"]) -> str:
    """Return a digest that identifies a stream of ids."""
    digest = hashlib.sha256()
    for part in _parts(stream):
        digest.update(np.ascontiguousarray(part, np.int32).data)
    return digest.hexdigest()[:16]


def counts_of(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> ndarray:
    """Return the count of each token in a stream."""
    counts = np.zeros(vocabulary_size, np.int64)
    for part in _parts(stream):
        counts += np.bincount(part, minlength=vocabulary_size)
    return counts


def _parts(stream: Int32[ndarray, " tokens"]) -> Iterator[Int32[ndarray, " tokens"]]:
    """Yield the stream in chunks, since it may be a file larger than memory."""
    for start in range(0, stream.size, _CHUNK):
        yield stream[start : start + _CHUNK]


_BATCH_TOKENS = 1 << 13
_SAMPLE_BLOCKS = 2  # at least, in each row of a sample with a carried state


def loss_of(
    network: Network,
    hidden: Float[Tensor, "B T D"],
    targets: Int64[Tensor, "B T"],
    known: KnownLogProbs | None,
    *,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the loss of hidden states, perhaps beside a known distribution, which only a full output may have."""
    if known is None:
        return network.output.loss(hidden, targets, label_smoothing=label_smoothing)
    return cast("FullSoftmax", network.output).loss(hidden, targets, label_smoothing=label_smoothing, known=known)


@torch.no_grad()
def validation_loss(
    network: Network,
    stream: Int32[ndarray, " tokens"],
    length: int,
    machine: Machine,
    processes: Processes,
    *,
    carried: bool,
    tokens: int | None = None,
    known: Callable[[Int64[ndarray, "B T"]], KnownLogProbs] | None = None,
) -> ValidationResult:
    """Return the loss in nats per token.

    known: the distribution beside the logits at some positions of the text.

    carried: read the text in a few rows and carry their states, not in independent blocks. tokens: about
    this many, evenly spread over the text; by default all. The network must be in evaluation mode.
    """
    tokens = stream.size if tokens is None else min(tokens, stream.size)
    total = torch.zeros(2, dtype=torch.float64)  # nats, predictions
    rows = max(1, _BATCH_TOKENS // length)
    if carried:
        rows = max(1, min(rows, stream.size // length))
        if tokens < stream.size:
            rows = max(1, min(rows, tokens // (_SAMPLE_BLOCKS * length)))
    state = None
    parts = (lanes if carried else blocks)(stream, length, rows, tokens)
    for part, counts in ((part, True) for part in parts) if carried else processes.turns(parts):
        inputs = torch.from_numpy(part.inputs).to(machine.device)
        targets = torch.from_numpy(part.targets).to(machine.device)
        if carried and not part.continues:
            state = network.start(len(inputs))
        with machine.precision():
            hidden, state = network(inputs, state if carried else None)
            nats = loss_of(network, hidden, targets, None if known is None else known(part.positions))
        state = detach(state)
        if counts:
            total += torch.tensor([float(nats), part.targets.size], dtype=torch.float64)
    if not carried:
        processes.add([total])
    return ValidationResult(float(total[0] / total[1]), int(total[1]), read=int(total[1]))


def unigram_loss(counts: Int64[ndarray, " vocab"], stream: Int32[ndarray, " tokens"]) -> float:
    """Return nats per token of a stream, by add-one frequencies of another one."""
    log_probs = np.log(counts + 1) - math.log(int(counts.sum()) + counts.size)
    return float(-log_probs[stream].mean())
