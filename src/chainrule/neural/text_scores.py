"""Scores of known texts by a network, many texts at a time.

The input of a text begins with </s>. What a network remembers after the end of a document, the caller decides by where
it cuts rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from chainrule.base.arguments import as_tokens, check_tokens
from chainrule.base.distributions import NAN_MESSAGE, check_log_probs, top_of
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.scoring_batches import TOGETHER, TOGETHER_ON_PROCESSORS, batches_of, padded, pieces_of
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.neural import encoder_states
    from chainrule.neural.network import Network
    from chainrule.neural.scoring_batches import Piece

    Tokens = Int32[ndarray, " tokens"]

_TOPS_AT_ONCE = 256  # positions whose whole distributions are in memory
_READ_AT_ONCE = 2048  # tokens of a row, if a state can carry over from one part of the row to the next


@torch.inference_mode()
def score_rows(
    network: Network,
    rows: Sequence[Tokens],
    *,
    unknown: bool,
    warm_up: int | None = None,
    on_share: Callable[[float], None] | None = None,
) -> tuple[list[Float32[ndarray, " tokens"]], list[Float32[ndarray, " tokens"]]]:
    """For each row, the log-probabilities of its tokens after </s>, and of <unk> at their positions (or zeros).

    warm_up: as `pieces_of` takes it. on_share: a callback for the share that is done, from 0 to 1.
    """
    scores, others = ([np.zeros(len(row), np.float32) for row in rows] for _ in range(2))
    total, done = sum(map(len, rows)), 0
    for batch, tokens in _batches(network, rows, warm_up):
        targets = _tensor(network, padded([rows[row][begin:end] for row, begin, _, end in batch], END))
        log_probs = _log_probs_of(network, tokens, targets, unknown=unknown)
        for i, (row, begin, first, end) in enumerate(batch):
            scores[row][first:end] = log_probs[i, first - begin : end - begin, 0]
            if unknown:
                others[row][first:end] = log_probs[i, first - begin : end - begin, 1]
        done += sum(end - first for _, _, first, end in batch)
        if on_share is not None:
            on_share(done / total)
    for log_prob in (*scores, *others):
        check_log_probs(log_prob)
    return scores, others


@torch.inference_mode()
def position_tops(
    network: Network, sequences: Sequence[Tokens], k: int
) -> list[tuple[Float32[ndarray, "tokens k"], Int32[ndarray, "tokens k"]]]:
    """The k likeliest tokens at each position of texts, in the contexts of `score_rows`."""
    k = min(k, network.vocabulary_size)
    tops = [(np.empty((len(row), k), np.float32), np.empty((len(row), k), np.int32)) for row in sequences]
    rows: list[Tokens] = []
    spans: list[tuple[int, int]] = []  # of each row: its sequence, and its first position there
    for i, sequence in enumerate(map(as_tokens, sequences)):
        check_tokens(sequence, network.vocabulary_size)
        done = 0
        for part in [sequence] if network.memory == "stream" or not len(sequence) else documents_of(sequence):
            spans.append((i, done))
            rows.append(part)
            done += len(part)
    for batch, tokens in _batches(network, rows):
        hidden = torch.cat([hidden for _, hidden in _hidden_parts(network, tokens)], 1)
        for i, (row, begin, first, end) in enumerate(batch):
            number, offset = spans[row]
            for low in range(first, end, _TOPS_AT_ONCE):
                high = min(low + _TOPS_AT_ONCE, end)
                log_probs = network.output.log_probs(hidden[i, low - begin : high - begin])
                for out, column in zip(tops[number], top_tokens(log_probs, k), strict=True):
                    out[offset + low : offset + high] = column
    return tops


def top_tokens(
    log_probs: Float32[Tensor, "rows V"], k: int
) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
    """The k likeliest tokens of distributions, best first; ties go to the lower id.

    Raises SettingError if k is below 1, ModelFormatError if there is a NaN.
    """
    if k < 1:
        raise SettingError(f"k is {k}; expected 1 or more")
    size = log_probs.shape[1]
    more, tokens = log_probs.topk(min(k + 1, size))
    best, tokens = more[:, :k], tokens[:, :k]
    if not bool((best[:, :1] <= 0).all()):  # false for NaN, too
        raise ModelFormatError(NAN_MESSAGE)
    tokens, order = tokens.sort(1)  # so that ties go to the lower id: sort by id, then stably by log-probability
    best, order = best.gather(1, order).sort(dim=1, descending=True, stable=True)
    ids = tokens.gather(1, order).to(torch.int32).cpu().numpy()
    shared = (more[:, k:] == best[:, -1:]).any(1).cpu().numpy()  # where others tie with the last one
    for row in np.flatnonzero(shared):
        _, ids[row : row + 1] = top_of(log_probs[row : row + 1].cpu().numpy(), k)
    return best.cpu().numpy(), ids


def documents_of(stream: Tokens) -> list[Tokens]:
    """A stream, cut after each </s>."""
    parts = np.split(stream, np.flatnonzero(stream == END) + 1)
    return parts if len(parts[-1]) else parts[:-1]


def _batches(
    network: Network, rows: Sequence[Tokens], warm_up: int | None = None
) -> Iterator[tuple[list[Piece], Int64[Tensor, "B T"]]]:
    """Batches of pieces of rows, with their inputs."""
    inputs = [np.concatenate([[END], row[:-1]]) for row in rows]
    together = TOGETHER_ON_PROCESSORS if network.device.type == "cpu" else TOGETHER
    for batch in batches_of(pieces_of([len(row) for row in rows], network.encoder, warm_up=warm_up), together):
        yield batch, _tensor(network, padded([inputs[row][begin:end] for row, begin, _, end in batch], END))


def _log_probs_of(
    network: Network, tokens: Int64[Tensor, "B T"], targets: Int64[Tensor, "B T"], *, unknown: bool
) -> Float32[ndarray, "B T tokens"]:
    """The log-probabilities of the targets and, if asked, of <unk>, given the tokens up to the same position."""
    asked = torch.stack([targets, torch.full_like(targets, UNKNOWN)][: 1 + unknown], -1)
    parts = [network.output.log_probs_of(hidden, asked[:, part]) for part, hidden in _hidden_parts(network, tokens)]
    return torch.cat(parts, 1).cpu().numpy()


def _hidden_parts(network: Network, tokens: Int64[Tensor, "B T"]) -> Iterator[tuple[slice, Float[Tensor, "B part D"]]]:
    """The hidden states after tokens that begin texts, a part of the positions after the other."""
    encoder = network.encoder
    carries = encoder.context is None and encoder.reach is None
    state: encoder_states.State = None
    for begin in range(0, tokens.shape[1], _READ_AT_ONCE) if carries else [0]:
        part = slice(begin, begin + _READ_AT_ONCE if carries else None)
        hidden, state = encoder(network.embed(tokens[:, part]), state, None)
        yield part, hidden


def _tensor(network: Network, array: ndarray) -> Tensor:
    return torch.from_numpy(array).to(network.device)
