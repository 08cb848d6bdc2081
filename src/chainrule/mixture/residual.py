"""The known distribution that a network learns the residual of, at any position of the text that the network learns.

    P(w | h) = P_known(w | h)^alpha exp(z_w(h)) / Z(h)

with logits z of a network: a log-linear mixture of both, with weights alpha and 1 (`interpolation`), whose network is
trained as a part of it (Li et al. 2022, N-gram is back). A model predicts the text that it was estimated from too well,
and would leave the network little to learn; so the text is cut into folds, and each is predicted by a model of all
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.distributions import state_after
from chainrule.errors import SettingError
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

FOLDS = 8
MAX_DOCUMENT = 4096  # tokens that may be read again for each part of a document that is trained on


def fold_bounds(stream: Int32[ndarray, " T"], folds: int = FOLDS) -> Int64[ndarray, " folds+1"]:
    """Return where the folds of a text begin, and its size: about equally long, and where it has documents, of whole
    ones.
    """
    even = np.arange(folds + 1) * stream.size // folds
    ends = np.flatnonzero(np.asarray(stream) == END) + 1
    bounds = even.copy()
    for i in range(1, folds):
        after = ends[np.searchsorted(ends, even[i]) :][:1]
        if after.size and after[0] < even[i + 1]:
            bounds[i] = after[0]
    return bounds


def without_fold(
    stream: Int32[ndarray, " T"], bounds: Int64[ndarray, " folds+1"], fold: int
) -> Int32[ndarray, " rest"]:
    """Return the text that the model of a fold is estimated from: all others; </s> parts what this one lay between."""
    before, after = stream[: bounds[fold]], stream[bounds[fold + 1] :]
    border = [END] if before.size and before[-1] != END and after.size else []
    return with_end(np.concatenate([before, np.array(border, np.int32), after]))


def with_end(stream: Int32[ndarray, " T"]) -> Int32[ndarray, " ended"]:
    """Return a copy of a text that ends with </s>, which a part of a document may not do."""
    ended = stream.size and stream[-1] == END
    return np.concatenate([stream, np.array([] if ended else [END], np.int32)])


@dataclass(frozen=True)
class KnownRows:
    """log P(w | the tokens before) at any position of a text.

    models: that of each fold. bounds: where the folds begin, and the size of the text; None: there is one fold.
    reach: how many tokens back the models look.
    """

    stream: Int32[ndarray, " T"]
    models: Sequence[LanguageModel[Any]]
    reach: int
    bounds: Int64[ndarray, " folds+1"] | None = None

    def __call__(self, positions: Int64[ndarray, " R"]) -> Float32[ndarray, "R V"]:
        """Return the distributions of the tokens at some positions, in nats; 0 for <s>, which has no probability.

        Raises SettingError where another token has none.
        """
        rows = np.empty((len(positions), self.models[0].vocabulary_size), np.float32)
        folds = np.zeros(len(positions), np.int64)
        if self.bounds is not None:
            folds = np.searchsorted(self.bounds, positions, side="right") - 1
        for fold in np.unique(folds).tolist():
            own = np.flatnonzero(folds == fold)
            state = state_after(self.models[fold], self.stream, positions[own], self.reach)
            rows[own] = self.models[fold].next_log_probs(state)
        return as_known(rows)


class DocumentRows:
    """log P(w | the tokens before in the document) at any position of a text, of any model.

    Documents are read from their beginning, side by side, one token at a time, as `start` and `advance` read them.
    """

    def __init__(self, stream: Int32[ndarray, " T"], model: LanguageModel[Any], piece: int | None = None) -> None:
        """Find where the documents begin. Raises SettingError where a document is too long for that.

        piece: longer documents are read in pieces of this many tokens, each as a document.
        """
        self._stream, self._model = np.asarray(stream), model
        self._begins = np.concatenate([[0], np.flatnonzero(self._stream == END) + 1])
        if piece is not None:
            ends = np.append(self._begins[1:], self._stream.size).tolist()
            spans = zip(self._begins.tolist(), ends, strict=True)
            self._begins = np.concatenate([range(first, max(end, first + 1), piece) for first, end in spans])
        longest = int(np.diff(np.append(self._begins, self._stream.size)).max())
        if longest > MAX_DOCUMENT:
            raise SettingError(
                f"a document of the text has {longest:,} tokens, which a network or a mixture would read from the "
                f"beginning for each window of it; residual_of takes these for documents of at most {MAX_DOCUMENT:,} "
                "tokens, such as lines: set document to line, or give an n-gram model"
            )

    def __call__(self, positions: Int64[ndarray, " R"]) -> Float32[ndarray, "R V"]:
        """Return the distributions at some positions, as `KnownRows` does."""
        rows = np.empty((len(positions), self._model.vocabulary_size), np.float32)
        begins = self._begins[np.searchsorted(self._begins, positions, side="right") - 1]
        depths = positions - begins  # tokens of the document that are read before each
        documents, which = np.unique(begins, return_inverse=True)
        deepest = np.zeros(len(documents), np.int64)
        np.maximum.at(deepest, which, depths)
        active = np.arange(len(documents))
        state = self._model.start([self._stream[:0]] * len(documents))
        for depth in range(int(deepest.max(initial=-1)) + 1):
            if (deepest[active] >= depth).sum() * 2 <= len(active):
                state = self._model.select(state, np.flatnonzero(deepest[active] >= depth).astype(np.int32))
                active = active[deepest[active] >= depth]
            wanted = np.flatnonzero(depths == depth)
            if wanted.size:
                rows[wanted] = self._model.next_log_probs(state)[np.searchsorted(active, which[wanted])]
            if depth < deepest.max():
                following = np.minimum(documents[active] + depth, self._stream.size - 1)
                state = self._model.advance(state, self._stream[following].astype(np.int32))
        return as_known(rows)


def as_known(rows: Float32[ndarray, "R V"]) -> Float32[ndarray, "R V"]:
    """Return the rows with 0 for <s>, which has no probability. Raises SettingError where another token has none."""
    rows[:, BEGIN] = 0
    if rows.size and rows.min() == -np.inf:
        raise SettingError(
            "the known distribution gives some token no probability, which no network can change; choose a "
            "smoothing that gives all of them some"
        )
    return rows
