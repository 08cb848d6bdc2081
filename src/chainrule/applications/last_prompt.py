"""The state after the last prompt, so that a prompt which continues it costs only what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import PromptReader

    Tokens = Int32[ndarray, " T"]


class LastPrompt:
    """Reads prompts with a network, and remembers the last one and its state."""

    def __init__(self, model: PromptReader[Any], *, begins_texts: bool, context: int | None = None) -> None:
        """begins_texts: whether a prompt begins a text, after <s>; if not, it is read exactly as it is.

        context: the most tokens that the model reads at once; of a longer prompt, as many as `start` takes are read.
        """
        self._model, self._begins_texts = model, begins_texts
        self._context = context if begins_texts else None
        self._last: tuple[Tokens, Any] | None = None

    def state_after(self, tokens: Tokens) -> Any:
        """The state after a prompt. It stays usable."""
        if self._context is not None and len(tokens) >= self._context:
            return self._model.start([tokens])
        state, new = None, tokens
        if self._last is not None and _continues(tokens, self._last[0]):
            state, new = self._last[1], tokens[len(self._last[0]) :]
        elif self._begins_texts:
            state = self._model.start([np.empty(0, np.int32)])
        if len(new):
            state = self._model.read([new], state)
        self._last = tokens, state
        return state


def _continues(tokens: Tokens, earlier: Tokens) -> bool:
    return len(tokens) >= len(earlier) and np.array_equal(tokens[: len(earlier)], earlier)
