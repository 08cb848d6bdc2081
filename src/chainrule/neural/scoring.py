"""Scores known texts by a network, many at a time: cuts them into pieces that are scored in parallel.

Each token is scored with the context it has when read step by step. A row is a text: its inputs are </s> and all its
tokens but the last, its targets are its tokens. The caller decides by where it cuts rows what a network remembers after
the end of a document. If a state fills after `context` inputs, pieces are the windows that stepping reads, which begin
at multiples of the stride. If a state never fills, but a prediction depends on the last `reach` inputs only, a piece
begins that much earlier than its first score. Otherwise a piece is the whole row, unless `warm_up` inputs are taken to
be enough.

What a token costs may differ in its last bits with what is read in the same pass. For a network that reads alone, a
text's figures depend on nothing but the text: each piece has a pass of its own, or several go through a pass one after
the other where that gives each the same bits.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from chainrule.base.arguments import as_tokens, check_tokens
from chainrule.base.distributions import NAN_MESSAGE, check_log_probs, top_of
from chainrule.base.threads import pause
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.device import follow_load
from chainrule.neural.layers.matrix_products import FEW, log_softmax
from chainrule.neural.layers.output import FullSoftmax
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.layers import state as encoder_states
    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " tokens"]

WARM_UP = 512  # inputs that a recurrent network reads before the first score of a piece of a long stream
_SCORED = 4096  # the fewest scores of such a piece
_ROWS = 64  # the most such pieces
TOGETHER = 1 << 14  # tokens in a batch
TOGETHER_ON_PROCESSORS = 1 << 11  # likewise: the vectors between layers stay in the cache
ALONE_FROM = 1 << 25  # weights of an encoder, from which on a batch on a processor saves nothing over single texts
T = TypeVar("T")


class Piece(NamedTuple):
    """Inputs `begin` to `end` of a row, of which those from `first` on give the scores of their targets."""

    row: int
    begin: int
    first: int
    end: int


def inputs_of(rows: Sequence[Tokens], piece: Piece) -> Tokens:
    """Return the inputs of a piece; those of its row are </s> and all tokens but the last."""
    tokens = rows[piece.row][max(0, piece.begin - 1) : piece.end - 1].astype(np.int64)
    return tokens if piece.begin else np.append(END, tokens)


def stride(context: int, wanted: int | None = None) -> int:
    """Return the distance between the windows of a state that fills, in tokens. wanted: for scoring, by the user."""
    return context - context // 2 if wanted is None else wanted


def reads_alone(network: Network) -> bool:
    """Return whether each piece has a separate pass: if asked for, and where that costs nothing."""
    if network.alone is not None:
        return network.alone
    encoder = sum(weight.numel() for _, weight in network.encoder.named_parameters())
    return network.device.type == "cpu" and encoder >= ALONE_FROM


def _together(network: Network) -> int:
    """Return the most tokens of a batch with more than one piece."""
    if reads_alone(network):
        return 0
    return TOGETHER_ON_PROCESSORS if network.device.type == "cpu" else TOGETHER


def window_start(inputs: int, context: int) -> int:
    """Return the beginning of the window in which the last of `inputs` inputs is read."""
    beyond = inputs - context
    return 0 if beyond <= 0 else -(-beyond // stride(context)) * stride(context)


def pieces_of(lengths: Sequence[int], network: Network, *, warm_up: int | None = None) -> list[Piece]:
    """Cut rows into `Piece`s that score each input of each row. lengths: the lengths of the rows, in inputs.

    Those of a bidirectional encoder overlap and are equally long; where two score the same input, the later piece of
    the row counts, since it has the most context on both sides.
    """
    return [piece for row, length in enumerate(lengths) for piece in _row_pieces(row, length, network, warm_up)]


def _row_pieces(row: int, length: int, network: Network, warm_up: int | None) -> Iterator[Piece]:
    if not length:
        return
    encoder = network.encoder
    if encoder.is_bidirectional:
        size = min(length, encoder.context or length)
        begins = [*range(0, length - size, max(1, size // 2)), length - size]
        yield from (Piece(row, begin, begin + size // 4 * (begin > 0), begin + size) for begin in begins)
        return
    if encoder.context is not None:
        context, step = encoder.context, stride(encoder.context, network.stride)
        yield Piece(row, 0, 0, min(context, length))
        for begin in range(step, length - context + step, step):
            yield Piece(row, begin, begin + context - step, min(begin + context, length))
        return
    early, size = 0, length
    if network.reach is not None:
        early = network.reach - 1
        size = max(network.reach, WARM_UP)
    elif warm_up is not None and length >= 2 * _SCORED:
        early = warm_up
        size = -(-length // min(_ROWS, length // _SCORED))
    for first in range(0, length, size):
        yield Piece(row, max(0, first - early), first, min(first + size, length))


def batches_of(pieces: Sequence[Piece], together: int = TOGETHER) -> Iterator[list[Piece]]:
    """Return batches of pieces of similar length, the longest first. together: the most tokens in a batch."""
    by_length = sorted(pieces, key=lambda piece: piece.begin - piece.end)
    return make_batches(by_length, lambda piece: piece.end - piece.begin, together)


def make_batches(items: Iterable[T], length: Callable[[T], int], together: int) -> Iterator[list[T]]:
    """Yield batches of items that come longest first: at most `together` tokens each, padded to the length of the
    first.
    """
    batch: list[T] = []
    for item in items:
        if batch and (len(batch) + 1) * length(batch[0]) > together:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def pad(
    rows: Sequence[Int[ndarray, " tokens"]], filler: int, *, left: bool = False, length: int = 0
) -> Int64[ndarray, "rows most"]:
    """Return rows of unequal lengths as one array, padded on the right or on the left; at least to `length`."""
    most = max(length, *map(len, rows)) if rows else length
    array = np.full((len(rows), most), filler, np.int64)
    for line, row in zip(array, rows, strict=True):
        line[most - len(row) if left else 0 : most if left else len(row)] = row
    return array


def round_up(length: int) -> int:
    """Return the length that rows are padded to in training: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    This keeps shapes few: oneDNN, which computes bfloat16 products on processors, takes 2 to 5 ms to prepare each new
    shape, longer than the product itself takes, and caches 1,024 of them.
    """
    step = 1 << max(length.bit_length() - 3, 0)
    return -(-length // step) * step


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
    """Return, for each row, the log-probabilities of its tokens after </s>, and of <unk> at their positions (or zeros).

    warm_up: as `pieces_of` takes it. on_share: a callback for the share that is done, from 0 to 1.
    """
    scores, others = ([np.zeros(len(row), np.float32) for row in rows] for _ in range(2))
    total, done = sum(map(len, rows)), 0
    pieces = pieces_of([len(row) for row in rows], network, warm_up=warm_up)
    if reads_alone(network) and network.packs_texts():
        short = [piece for piece in pieces if piece.end - piece.begin <= FEW]
        pieces = [piece for piece in pieces if piece.end - piece.begin > FEW]
        for batch, texts in _packed_passes(network, rows, short):
            for (row, begin, first, end), hidden in zip(batch, texts, strict=True):
                own = slice(first, end)
                asked = np.stack([rows[row][own], np.full(end - first, UNKNOWN)][: 1 + unknown], -1).astype(np.int64)
                log_probs = network.output.log_probs_of(hidden[first - begin :], _tensor(network, asked)).cpu().numpy()
                scores[row][own] = log_probs[:, 0]
                if unknown:
                    others[row][own] = log_probs[:, 1]
                done += end - first
            if on_share is not None:
                on_share(done / total)
    for batch, tokens in _batches(network, rows, pieces):
        targets = _tensor(network, pad([rows[row][begin:end] for row, begin, _, end in batch], END))
        is_scored = np.zeros(targets.shape, np.bool_)
        for line, (_, begin, first, end) in zip(is_scored, batch, strict=True):
            line[first - begin : end - begin] = True
        log_probs = _log_probs_of(network, tokens, targets, _tensor(network, is_scored), unknown=unknown)
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


def stream_rows(
    network: Network,
    rows: Sequence[Tokens],
    size: int,
    *,
    alone: bool = False,
    banned: bool = False,
    pieces: Sequence[Piece] | None = None,
) -> Iterator[Float32[ndarray, "part V"]]:
    """Yield the distributions of the tokens of several texts, one text after the other, `size` positions at a time.

    alone: whether each has the bits that it has without the other texts; parts may then be smaller, which saves copies.
    banned: whether <s>, and what else never comes, has the probability that the network's own softmax gives it. pieces:
    what is read; by default the texts, each as a whole.
    """
    pieces = pieces_of([len(row) for row in rows], network) if pieces is None else pieces
    log_probs_of = network.output.log_probs
    if banned and isinstance(network.output, FullSoftmax):
        log_probs_of = partial(_with_banned, network.output)
    waiting: list[ndarray] = []
    count = 0
    hidden_states = _hidden_alone if alone else hidden_in_order
    for hidden in hidden_states(network, rows, pieces):
        for low in range(0, len(hidden), size):
            with torch.inference_mode():
                part = log_probs_of(hidden[low : low + size]).cpu().numpy()
            check_log_probs(part)
            if alone and count + len(part) > size:
                yield _joined(waiting)
                waiting, count = [], 0
            waiting.append(part)
            count += len(part)
            while count >= size:
                joined = _joined(waiting)
                yield joined[:size]
                waiting, count = [joined[size:]] * (count > size), count - size
    if count:
        yield _joined(waiting)


def _with_banned(output: FullSoftmax, hidden: Float[Tensor, "R D"]) -> Float32[Tensor, "R V"]:
    return log_softmax(output.logits(hidden, banned=True))


def _joined(parts: Sequence[ndarray]) -> ndarray:
    """Return arrays of rows as one, without a copy of a single one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@torch.inference_mode()  # which ends at each yield, so that several models can be read in turns
def _hidden_alone(
    network: Network, rows: Sequence[Tokens], pieces: Sequence[Piece]
) -> Iterator[Float[Tensor, "part D"]]:
    """Yield the hidden states of `hidden_in_order`, with the bits that each text has by itself: see
    `_packed_passes`.
    """
    most = FEW if network.packs_texts() else 0
    for is_short, some in groupby(pieces, lambda piece: piece.end - piece.begin <= most):
        if is_short:
            for batch, texts in _packed_passes(network, rows, [*some]):
                yield torch.cat([text[piece.first - piece.begin :] for piece, text in zip(batch, texts, strict=True)])
            continue
        for piece in some:
            tokens = _tensor(network, inputs_of(rows, piece)[None])
            for part, hidden in _hidden_parts(network, tokens):
                yield hidden[0, max(0, piece.first - piece.begin - (part.start or 0)) :]


@torch.inference_mode()
def _packed_passes(
    network: Network, rows: Sequence[Tokens], pieces: Sequence[Piece]
) -> Iterator[tuple[list[Piece], Sequence[Float[Tensor, "T D"]]]]:
    """Yield batches of pieces in order, of at most FEW tokens, and the hidden states of each.

    They go through a pass one after the other, without padding, each with the bits that it has alone: products of up to
    FEW vectors have them, and attention has a call for each. network: one that `packs_texts`.
    """
    for batch in _packed(pieces, FEW):
        follow_load()
        texts = [_tensor(network, inputs_of(rows, piece)[None]) for piece in batch]
        if network.packs_texts():  # which may depend on the number of threads
            lengths = [text.shape[1] for text in texts]
            yield batch, torch.split_with_sizes(network.read_texts(torch.cat(texts, 1), lengths)[0], lengths)
        else:
            yield batch, [network.read(network.as_read(text))[0][0] for text in texts]
        pause()


def _packed(pieces: Sequence[Piece], together: int) -> Iterator[list[Piece]]:
    """Yield batches of pieces, in order, of at most `together` tokens, unless one has more."""
    batch: list[Piece] = []
    count = 0
    for piece in pieces:
        length = piece.end - piece.begin
        if batch and count + length > together:
            yield batch
            batch, count = [], 0
        batch.append(piece)
        count += length
    if batch:
        yield batch


@torch.inference_mode()
def hidden_in_order(
    network: Network, rows: Sequence[Tokens], pieces: Sequence[Piece]
) -> Iterator[Float[Tensor, "part D"]]:
    """Yield the hidden states of pieces of several texts, in order."""
    together, batch = _together(network), list[Piece]()

    def read() -> Iterator[Float[Tensor, "part D"]]:
        parts = _hidden_parts(network, _tensor(network, pad([inputs_of(rows, piece) for piece in batch], END)))
        if len(batch) == 1:
            [piece] = batch
            before = piece.first - piece.begin
            yield from (hidden[0, max(0, before - (part.start or 0)) :] for part, hidden in parts)
            return
        whole = torch.cat([hidden for _, hidden in parts], 1)
        for hidden, piece in zip(whole, batch, strict=True):
            yield hidden[piece.first - piece.begin : piece.end - piece.begin]

    for piece in pieces:
        longest = max(other.end - other.begin for other in (*batch, piece))
        if batch and (len(batch) + 1) * longest > together:
            yield from read()
            batch.clear()
        batch.append(piece)
    if batch:
        yield from read()


@torch.inference_mode()
def position_tops(
    network: Network, sequences: Sequence[Tokens], k: int
) -> list[tuple[Float32[ndarray, "tokens k"], Int32[ndarray, "tokens k"]]]:
    """Return the k likeliest tokens at each position of several texts, in the contexts of `score_rows`."""
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
    for batch, tokens in _batches(network, rows, pieces_of([len(row) for row in rows], network)):
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
    """Return the k likeliest tokens of distributions, best first; ties go to the lower id.

    Raises SettingError if k is below 1, ModelFormatError if there is a NaN.
    """
    if k < 1:
        raise SettingError(f"k is {k}; expected 1 or more")
    if k == 1:
        rows = log_probs.cpu().numpy()  # NumPy finds the largest of a row ten times as fast
        ids = rows.argmax(1)[:, None]  # the first one of those that tie; a NaN before all
        largest = np.take_along_axis(rows, ids, 1)
        if not (largest <= 0).all():
            raise ModelFormatError(NAN_MESSAGE)
        return largest, ids.astype(np.int32)
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
    """Return a stream, cut after each </s>."""
    parts = np.split(stream, np.flatnonzero(stream == END) + 1)
    return parts if len(parts[-1]) else parts[:-1]


def _batches(
    network: Network, rows: Sequence[Tokens], pieces: Sequence[Piece]
) -> Iterator[tuple[list[Piece], Int64[Tensor, "B T"]]]:
    """Yield batches of pieces of rows, with their inputs."""
    for batch in batches_of(pieces, _together(network)):
        follow_load()
        yield batch, _tensor(network, pad([inputs_of(rows, piece) for piece in batch], END))
        pause()


def _log_probs_of(
    network: Network,
    tokens: Int64[Tensor, "B T"],
    targets: Int64[Tensor, "B T"],
    is_scored: Bool[Tensor, "B T"],
    *,
    unknown: bool,
) -> Float32[ndarray, "B T tokens"]:
    """Return the log-probabilities of the targets and, if asked, of <unk>, given the tokens up to the same position.

    is_scored: where they are computed; elsewhere there are zeros. A small network's output costs most of its pass.
    """
    asked = torch.stack([targets, torch.full_like(targets, UNKNOWN)][: 1 + unknown], -1)
    log_probs = torch.zeros(asked.shape, device=asked.device)
    for part, hidden in _hidden_parts(network, tokens):
        chosen = is_scored[:, part]
        if chosen.all():
            log_probs[:, part] = network.output.log_probs_of(hidden, asked[:, part])
        else:
            log_probs[:, part][chosen] = network.output.log_probs_of(hidden[chosen], asked[:, part][chosen])
    return log_probs.cpu().numpy()


def _hidden_parts(network: Network, tokens: Int64[Tensor, "B T"]) -> Iterator[tuple[slice, Float[Tensor, "B part D"]]]:
    """Yield the hidden states after tokens that begin texts, a part of the positions at a time."""
    encoder = network.encoder
    carries = encoder.context is None and encoder.reach is None
    state: encoder_states.State = None
    for begin in range(0, tokens.shape[1], _READ_AT_ONCE) if carries else [0]:
        part = slice(begin, begin + _READ_AT_ONCE if carries else None)
        hidden, state = network.read(network.as_read(tokens[:, part]), state)
        yield part, hidden
        pause()


def _tensor(network: Network, array: ndarray) -> Tensor:
    return torch.from_numpy(array).to(network.device)
