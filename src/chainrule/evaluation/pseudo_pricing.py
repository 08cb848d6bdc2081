"""What sentences cost by pseudo-log-likelihood: good for ranking them, and no probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from chainrule.protocol import END, UNKNOWN, Scorer
from chainrule.text.tokenizer import documents_of
from chainrule.text.words import begins_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.pricing import Speller
    from chainrule.text.tokenizer import Tokenizer

Pseudo = Literal["original", "word-l2r"]


class PseudoScorer(Scorer, Protocol):
    """A network that sees both sides. masks: whether it sees masks in place of what it is asked for."""

    masks: bool

    def score_left_to_right(
        self, sequences: Sequence[Int32[ndarray, " T"]], begins: Bool[ndarray, " V"]
    ) -> list[Float32[ndarray, " T"]]: ...


def pseudo_priced(
    model: PseudoScorer, speller: Speller, tokenizer: Tokenizer, texts: Sequence[str], pseudo: Pseudo | None = None
) -> tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]:
    """Of each text, without </s> (Salazar 2020), in nats, with the spelling of its unknown tokens; and its tokens.

    pseudo: every token by all others, or without the rest of its word (Kauf and Ivanova 2023); None: the latter where
    the network masks. Raises SettingError where it does not, and is asked to.
    """
    encoded = tokenizer.encode_texts(texts)
    sequences = documents_of(encoded.ids)
    if pseudo == "word-l2r" or (pseudo is None and model.masks):
        scores = model.score_left_to_right(sequences, begins_word(tokenizer))
    else:
        scores = model.score(sequences, end=False)
    totals = np.array([each.sum(dtype=np.float64) for each in scores])
    places = np.flatnonzero(encoded.ids == UNKNOWN)
    spelled = speller.log_probs([encoded.surface(place) for place in places.tolist()])
    np.add.at(totals, np.cumsum(encoded.ids == END)[places], spelled)
    return totals, np.array([len(each) for each in sequences])
