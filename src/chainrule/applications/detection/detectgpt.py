"""DetectGPT (Mitchell et al. 2023): is a text likelier than the texts around it?

What a model wrote lies near a peak of its own log-probability; what a person wrote does not. The texts around one are
made by a masked model, which fills some of its tokens anew. The measure is equation 1 of the paper, normalised as in
its section 4: (log p(x) - mean log p(x')) / the standard deviation of log p(x'), where log p is a mean over tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.evaluation.token_scores import score_documents
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

MASKED_SHARE = 0.15  # of the tokens, as in the paper
PERTURBATIONS = 20


class Filler(Protocol):
    """A masked model."""

    def fill(self, sequence: Int32[ndarray, " T"]) -> Float32[ndarray, "masks V"]:
        """log P(token | the rest) for every token at each mask, <s>, of a sequence."""


def perturbed(
    filler: Filler, tokenizer: Tokenizer, text: str, count: int, rng: np.random.Generator, share: float = MASKED_SHARE
) -> list[str]:
    """A text with a share of its tokens filled anew, at least one, `count` times. Raises MarkerError."""
    encoded = tokenizer.encode_texts([text])
    ids = encoded.ids[:-1]
    surfaces = [encoded.surface(i) for i in range(len(ids))]
    texts = []
    for _ in range(count):
        places = np.sort(rng.choice(len(ids), max(1, round(share * len(ids))), replace=False))
        masked = ids.copy()
        masked[places] = BEGIN
        probs = np.exp(filler.fill(masked).astype(np.float64))
        probs[:, UNKNOWN] = 0
        changed = list(surfaces)
        for place, row in zip(places.tolist(), probs / probs.sum(1, keepdims=True), strict=True):
            changed[place] = tokenizer.vocabulary.token_bytes(int(rng.choice(len(row), p=row)))
        texts.append(tokenizer.restore(b" ".join(changed)).decode("utf-8", "replace"))
    return texts


def curvatures(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    filler: Filler,
    filler_tokenizer: Tokenizer,
    texts: Sequence[str],
    perturbations: int = PERTURBATIONS,
    *,
    seed: int,
    progress: Progress = silent,
) -> Float64[ndarray, " texts"]:
    """The normalised curvature of each text; 0 where all its perturbations are equally likely.

    Text i has a random stream of its own, from the seed and i. Raises MarkerError.
    """
    found = np.zeros(len(texts))
    for i, text in enumerate(texts):
        progress("perturbing", i, len(texts))
        others = perturbed(filler, filler_tokenizer, text, perturbations, np.random.default_rng([seed, i]))
        log_probs, sizes = score_documents(model, speller, tokenizer.encode_texts([text, *others]), end=False)
        means = log_probs / np.maximum(sizes, 1)
        deviation = means[1:].std(ddof=1)
        found[i] = (means[0] - means[1:].mean()) / deviation if deviation > 0 else 0.0
    return found
