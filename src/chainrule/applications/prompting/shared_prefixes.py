"""Scoring many continuations of few prefixes: each distinct prefix is read once.

A `Measurable` like the model inside, with the same scores up to rounding. It reads the continuations token by token,
so it is worth it where they are short and the prefixes long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.token_checks import as_tokens, check_prefixes
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Tokens = Int32[ndarray, " T"]

_READ_TOGETHER = 1 << 11  # tokens of prefixes: whose states are kept for all their continuations


class SharedPrefixes:
    """Scores sequences by stepping from the states of their prefixes."""

    def __init__(self, model: LanguageModel[Any]) -> None:
        self.model = model

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `Scorer.score`."""
        return self._step(sequences, prefixes, end=end, unknown=False)

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `LanguageModel.unknown_log_probs`."""
        return self._step(sequences, prefixes, end=end, unknown=True)

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        return self.model.score_stream(stream)

    def _step(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool, unknown: bool
    ) -> list[Float32[ndarray, " T"]]:
        """unknown: the log-probabilities of <unk> at each position, in place of those of the tokens."""
        check_prefixes(len(sequences), prefixes)
        tail = np.full(int(end), END, np.int32)
        targets = [np.concatenate([as_tokens(sequence), tail]) for sequence in sequences]
        scores = [np.zeros(len(target), np.float32) for target in targets]
        given = [as_tokens([]) for _ in targets] if prefixes is None else [as_tokens(prefix) for prefix in prefixes]
        followers: dict[bytes, list[int]] = {}
        for i, prefix in enumerate(given):
            followers.setdefault(prefix.tobytes(), []).append(i)
        for batch in _batches(list(followers)):
            self._step_batch([followers[prefix] for prefix in batch], given, targets, scores, unknown=unknown)
        return scores

    def _step_batch(
        self,
        followers: Sequence[Sequence[int]],
        prefixes: Sequence[Tokens],
        targets: Sequence[Tokens],
        scores: Sequence[Float32[ndarray, " T"]],
        *,
        unknown: bool,
    ) -> None:
        """Fills in the scores of the targets that follow some prefixes. followers: the targets of each prefix."""
        state = self.model.start([prefixes[own[0]] for own in followers])
        rows = np.repeat(np.arange(len(followers), dtype=np.int32), [len(own) for own in followers])
        active = np.array([i for own in followers for i in own])
        position = 0
        while True:
            has_more = np.array([len(targets[i]) > position for i in active.tolist()], np.bool_)
            active, rows = active[has_more], rows[has_more]
            if not active.size:
                return
            tokens = np.array([targets[i][position] for i in active.tolist()], np.int32)
            asked = np.full_like(tokens, UNKNOWN) if unknown else tokens
            for i, log_prob in zip(active.tolist(), self.model.log_probs_of(state, rows, asked), strict=True):
                scores[i][position] = log_prob
            position += 1
            goes_on = np.array([len(targets[i]) > position for i in active.tolist()], np.bool_)
            active, tokens = active[goes_on], tokens[goes_on]
            if not active.size:
                return
            state = self.model.advance(self.model.select(state, rows[goes_on]), tokens)
            rows = np.arange(active.size, dtype=np.int32)


def _batches(prefixes: list[bytes]) -> Iterator[list[bytes]]:
    """Prefixes of similar length, about as many tokens each time."""
    batch: list[bytes] = []
    for prefix in sorted(prefixes, key=len):
        if batch and (len(batch) + 1) * (len(prefix) // 4 + 1) > _READ_TOGETHER:
            yield batch
            batch = []
        batch.append(prefix)
    if batch:
        yield batch
