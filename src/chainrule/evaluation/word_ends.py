"""Where words end: the probability that the next token begins another word, or that the text ends.

A model of subwords says that a word has ended only by the token after it, whose white space it begins with. So the
probability of a word's own tokens is that of all words that begin with it, and the end must be paid for by the word
that ends, not by the next one: Pimentel and Meister, How to compute the probability of a word (2024); Oh and Schuler,
Leading whitespaces of language models' subword vocabulary pose a confound (2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.protocol import END
from chainrule.text.units import begins_word

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer


def word_end_corrections(
    model: LanguageModel[Any], tokenizer: Tokenizer, ids: Int64[ndarray, " T"], of_tokens: Int64[ndarray, " T"]
) -> Float64[ndarray, " words"]:
    """What to add to the log-probability of each word's tokens, in nats; they sum to zero.

    ids: the tokens of a text, its </s> last. of_tokens: the word of each, as in `Words`.
    """
    borders = begins_word(tokenizer)
    borders[END] = True
    ends = np.zeros(len(ids) + 1)  # log P(the word ends | the first tokens); certain at both ends of the text
    if not borders.all():
        state = model.start([np.empty(0, np.int32)])
        for position, token in enumerate(ids[:-1].tolist(), 1):
            state = model.advance(state, np.array([token], np.int32))
            ends[position] = np.logaddexp.reduce(model.next_log_probs(state)[0][borders].astype(np.float64))
    firsts = np.searchsorted(of_tokens, np.arange(of_tokens[-1] + 2))
    corrections: Float64[ndarray, " words"] = np.diff(ends[firsts])
    return corrections
