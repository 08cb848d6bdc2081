"""States after prompts that were read lately, so that requests that begin alike read them once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    Tokens = Int32[ndarray, " T"]

_MOST_TOKENS = 1 << 14
_MOST_STATES = 32


class PromptCache:
    """The last states, by what was read. States must stay usable after `advance`, as those of networks do."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[bool, bytes], tuple[Tokens, Any]] = OrderedDict()

    def longest(self, tokens: Tokens, *, is_exact: bool) -> tuple[int, Any]:
        """How many of the tokens the best state has read, and the state; 0 and None if there is none."""
        best: tuple[int, Any] = (0, None)
        for (exact, key), (read, state) in self._states.items():
            if exact == is_exact and best[0] < len(read) <= len(tokens) and np.array_equal(tokens[: len(read)], read):
                best, best_key = (len(read), state), (exact, key)
        if best[0]:
            self._states.move_to_end(best_key)
        return best

    def add(self, tokens: Tokens, state: Any, *, is_exact: bool) -> None:
        """Keeps the state after tokens, and drops the ones that were used least lately."""
        if not 0 < len(tokens) <= _MOST_TOKENS:
            return
        self._states[is_exact, tokens.tobytes()] = (tokens, state)
        self._states.move_to_end((is_exact, tokens.tobytes()))
        size = sum(len(read) for read, _ in self._states.values())
        while size > _MOST_TOKENS or len(self._states) > _MOST_STATES:
            _, (dropped, _) = self._states.popitem(last=False)
            size -= len(dropped)
