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
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        begins: Bool[ndarray, " V"],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
    ) -> list[Float32[ndarray, " T"]]: ...


def pseudo_priced(
    model: PseudoScorer,
    speller: Speller,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pseudo: Pseudo | None = None,
    *,
    given: Sequence[int] | None = None,
) -> tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]:
    """Of each text, without </s> (Salazar 2020), in nats, with the spelling of its unknown tokens; and its tokens.

    pseudo: every token by all others, or without the rest of its word (Kauf and Ivanova 2023); None: the latter where
    the network masks. given: how many tokens at the front of each text are seen, and cost nothing; none, by default.
    Raises SettingError where the network does not mask, and is asked to.
    """
    encoded = tokenizer.encode_texts(texts)
    sequences = documents_of(encoded.ids)
    firsts = [0] * len(sequences) if given is None else given
    prefixes = [sequence[:first] for sequence, first in zip(sequences, firsts, strict=True)]
    rest = [sequence[first:] for sequence, first in zip(sequences, firsts, strict=True)]
    if pseudo == "word-l2r" or (pseudo is None and model.masks):
        scores = model.score_left_to_right(rest, begins_word(tokenizer), prefixes=prefixes)
    else:
        scores = model.score(rest, prefixes=prefixes, end=False)
    totals = np.array([each.sum(dtype=np.float64) for each in scores])
    documents = np.cumsum(encoded.ids == END)
    begins = np.concatenate([[0], np.flatnonzero(encoded.ids == END) + 1])
    places = np.flatnonzero(encoded.ids == UNKNOWN)
    places = places[places - begins[documents[places]] >= np.array(firsts, np.int64)[documents[places]]]
    spelled = speller.log_probs([encoded.surface(place) for place in places.tolist()])
    np.add.at(totals, documents[places], spelled)
    return totals, np.array([len(each) for each in rest])
