"""Sampling: a token after the other, each drawn from the model's own distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError
from chainrule.progress import Progress, silent
from chainrule.protocol import check_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

ROOM = 1 << 22  # how many probabilities are held at once: longer batches are cut, whatever the number of texts


def sample(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    *,
    seed: int,
    max_tokens: int,
    temperature: float = 1.0,
    banned: Sequence[int] = (),
    progress: Progress = silent,
) -> list[Int32[ndarray, " tokens"]]:
    """Continues each prefix until </s> (not returned) or max_tokens.

    temperature: log-probabilities are divided by it; 0 takes the likeliest token, of equals the lowest id. banned: ids
    that are never drawn, the rest renormalised. Row r draws from a random stream of its own, made of the seed and r,
    whatever else is in the batch. Raises SettingError.
    """
    if max_tokens < 0:
        raise SettingError(f"max_tokens is {max_tokens}; expected 0 or more")
    if not 0 <= temperature < np.inf:
        raise SettingError(
            f"temperature is {temperature}; expected 0 (the likeliest token) or more, 1 for the model as it is"
        )
    if seed < 0:
        raise SettingError(f"seed is {seed}; expected 0 or more")
    check_tokens(np.array(banned, np.int64), model.vocabulary_size)
    texts: list[Int32[ndarray, " tokens"]] = []
    together = max(1, ROOM // model.vocabulary_size)
    for first in range(0, len(prefixes), together):
        progress("generating", first, len(prefixes))
        batch = prefixes[first : first + together]
        generators = [np.random.default_rng([seed, first + i]) for i in range(len(batch))]
        texts += _sampled_together(model, batch, generators, max_tokens, temperature, list(banned))
    return texts


def _sampled_together(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    generators: Sequence[np.random.Generator],
    max_tokens: int,
    temperature: float,
    banned: list[int],
) -> list[Int32[ndarray, " tokens"]]:
    """As `sample`, in one batch."""
    texts: list[list[int]] = [[] for _ in prefixes]
    rows = np.arange(len(prefixes))  # those that still grow
    state = model.start(prefixes)
    for _ in range(max_tokens):
        if not rows.size:
            break
        log_probs = np.array(model.next_log_probs(state), np.float64)  # a copy: what came may be the model's own
        log_probs[:, banned] = -np.inf
        tokens = _drawn(log_probs, temperature, [generators[row] for row in rows.tolist()])
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            texts[row].append(token)
        open_rows = np.flatnonzero(tokens != model.end)
        state = model.advance(model.select(state, open_rows), tokens[open_rows])
        rows = rows[open_rows]
    return [np.array(text[:-1] if text and text[-1] == model.end else text, np.int32) for text in texts]


def _drawn(
    log_probs: Float64[ndarray, "rows vocab"], temperature: float, generators: Sequence[np.random.Generator]
) -> Int32[ndarray, " rows"]:
    """A token for each row, by inversion of its cumulative distribution. Raises SettingError where none is left."""
    best = log_probs.argmax(axis=1)
    peaks = np.take_along_axis(log_probs, best[:, None], axis=1)
    if not np.isfinite(peaks).all():
        raise SettingError("there is no token to draw: each is banned or has no probability; ban fewer")
    if temperature == 0:
        return best.astype(np.int32)
    with np.errstate(over="ignore"):  # -inf is right for what a low temperature leaves no chance
        scaled = (log_probs - peaks) / temperature
    cumulative = np.exp(scaled).cumsum(axis=1)
    draws = np.array([generator.random() for generator in generators]) * cumulative[:, -1]
    return np.array(
        [np.searchsorted(row, draw, side="right") for row, draw in zip(cumulative, draws, strict=True)], np.int32
    )
