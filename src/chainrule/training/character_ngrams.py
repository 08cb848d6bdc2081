"""Vectors of tokens that are learned as sums of their own and those of their character n-grams.

v_w = o_w + sum of u_g over the n-grams g of w, divided by the root of their number

So rare tokens learn from others that are spelled alike (Bojanowski et al. 2017; Takase, Suzuki and Nagata 2019). Only
the optimiser knows o and u. The network has the sums: it computes, is validated and is saved as any other.
Legend: V vocabulary, D width, G n-grams.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Int64
    from numpy import ndarray

_SHORTEST, _LONGEST = 2, 4  # characters
_FEWEST = 3  # tokens that an n-gram occurs in; those of fewer are left to these tokens' own vectors


class Bags(NamedTuple):
    """Lists of numbers with weights, one after the other. begins: the place of the first number of each list."""

    numbers: Int64[Tensor, " entries"]
    begins: Int64[Tensor, " lists"]
    weights: Float32[Tensor, " entries"]

    @classmethod
    def of(
        cls, numbers: Int64[ndarray, " n"], sizes: Int64[ndarray, " lists"], weights: Float32[ndarray, " n"]
    ) -> Bags:
        return cls(*map(torch.from_numpy, (numbers, np.cumsum(sizes) - sizes, weights.astype(np.float32))))

    def sums(self, rows: Float[Tensor, "R D"], is_set: Bool[Tensor, " R"] | None = None) -> Float[Tensor, "lists D"]:
        """Return the weighted sum of the rows of each list. is_set: False of rows that are 0, which are left out."""
        numbers, begins, weights = (part.to(rows.device) for part in self)
        if is_set is not None:
            kept = is_set[numbers]
            begins = F.pad(kept.cumsum(0), (1, 0))[begins]
            numbers, weights = numbers[kept], weights[kept]
        return F.embedding_bag(numbers, rows, begins, mode="sum", per_sample_weights=weights.to(rows.dtype))


class CharacterNgrams(NamedTuple):
    """The n-grams of each token, the tokens of each n-gram, the number of n-grams, and the share of tokens with any."""

    of_tokens: Bags
    of_ngrams: Bags
    number: int
    covered: float


@lru_cache(maxsize=1)
def character_ngrams(tokens: tuple[bytes, ...]) -> CharacterNgrams:
    """Return the n-grams of 2 to 4 characters that at least three tokens have; <unk>, <s> and </s> have none.

    Tokens are read between < and >, in lower case; capitals count as two further n-grams.
    """
    found = [
        set() if i < FIRST_ORDINARY else _ngrams_of(token.decode(errors="replace")) for i, token in enumerate(tokens)
    ]
    counts = Counter(ngram for own in found for ngram in own)
    numbers = {ngram: i for i, ngram in enumerate(sorted(ngram for ngram, count in counts.items() if count >= _FEWEST))}
    lists = [sorted(numbers[ngram] for ngram in own if ngram in numbers) for own in found]
    sizes = np.array([len(own) for own in lists], np.int64)
    ngrams = np.array([number for own in lists for number in own], np.int64)
    owners = np.repeat(np.arange(len(tokens)), sizes)
    weights, order = sizes[owners] ** -0.5, np.argsort(ngrams, kind="stable")
    of_ngrams = Bags.of(owners[order], np.bincount(ngrams, minlength=len(numbers)), weights[order])
    return CharacterNgrams(Bags.of(ngrams, sizes, weights), of_ngrams, len(numbers), float((sizes > 0).mean()))


def _ngrams_of(token: str) -> set[str]:
    spelled = f"<{token.lower()}>"
    sizes = range(_SHORTEST, min(_LONGEST, len(spelled)) + 1)
    ngrams = {spelled[i : i + size] for size in sizes for i in range(len(spelled) - size + 1)}
    ngrams |= {"Aa"} if token[:1].isupper() else set()  # no n-gram of small letters
    return ngrams | ({"AA"} if token.isupper() else set())


class SummedVectors:
    """The parts of which vectors are sums, for an optimiser in place of the vectors themselves."""

    def __init__(self, vectors: Float[Tensor, "V D"], ngrams: CharacterNgrams) -> None:
        """Begin with the vectors as they are: those of n-grams are 0."""
        self.vectors, self.ngrams = vectors, ngrams
        self.own = nn.Parameter(torch.empty_like(vectors))
        self.shared = nn.Parameter(vectors.new_empty(ngrams.number, vectors.shape[1]))
        self.begin()

    @torch.no_grad()
    def begin(self) -> None:
        """Give the vectors to the tokens' own parts, and 0 to those of n-grams."""
        self.own.copy_(self.vectors)
        self.shared.zero_()

    @torch.no_grad()
    def pass_gradient(self) -> None:
        """Give both parts their gradients, from that of the vectors."""
        self.own.grad = gradient = self.vectors.grad
        self.shared.grad = None
        if gradient is not None:
            is_set = torch.linalg.vector_norm(gradient, dim=1) != 0  # three times as quick as `any`
            self.shared.grad = self.ngrams.of_ngrams.sums(gradient, is_set)

    @torch.no_grad()
    def add_up(self) -> None:
        """Set the vectors to the sums of their parts."""
        torch.add(self.own, self.ngrams.of_tokens.sums(self.shared), out=self.vectors)
