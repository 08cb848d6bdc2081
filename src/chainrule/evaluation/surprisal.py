"""The surprisal of each token, word, character or byte of a text, whatever the tokenizer.

Each token's log-probability is assigned to units, so that those of a document add up to that of the document:

    words       those of `chainrule.text.units`, which also assigns each token to a word.
    characters  code points. A token's log-probability is spread evenly over its bytes and those of the white space
                before it: exact if tokens are characters or bytes, and otherwise only an illustration.
    bytes       of UTF-8, spread likewise.

The end of a document, </s>, is a unit of its own.

Words are corrected by the probability that they end: that the next token begins another word, or that the text ends. A
model of subwords says that a word has ended only by the token after it, whose white space it begins with. So the
probability of a word's own tokens is that of all words that begin with it, and the end must be paid for by the word
that ends, not by the next one: Pimentel and Meister, How to compute the probability of a word (2024); Oh and Schuler,
Leading whitespaces of language models' subword vocabulary pose a confound (2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.protocol import END
from chainrule.text.units import begins_word, words_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import TokenLogProbs
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer

By = Literal["tokens", "words", "characters", "bytes"]


@dataclass(frozen=True)
class Units:
    """Document i has the units documents[i] to documents[i + 1], its end last. starts, stops: bytes of the text."""

    starts: Int64[ndarray, " units"]
    stops: Int64[ndarray, " units"]
    closed: Float64[ndarray, " units"]  # nats, <unk> for unknown tokens; see `TokenLogProbs`
    total: Float64[ndarray, " units"]  # nats, including the spelling of unknown tokens
    unknown: Bool[ndarray, " units"]  # whether it contains an unknown token
    documents: Int64[ndarray, " documents+1"]


def units(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment, by: By) -> Units:
    """The units of some documents. ids: their tokens. aligned: the positions of these in the text."""
    if by == "tokens":
        return _tokens(ids, scored, aligned)
    if by == "words":
        return _words(ids, scored, aligned)
    begins = np.arange(aligned.text.size) if by == "bytes" else np.flatnonzero((aligned.text & 0xC0) != 0x80)
    return _spread(ids, scored, aligned, begins)


def _tokens(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment) -> Units:
    documents = np.concatenate([[0], np.flatnonzero(ids == END) + 1])
    return Units(aligned.starts, aligned.stops, scored.closed, scored.total, scored.unknown, documents)


def _words(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment) -> Units:
    words = words_of(ids, aligned)

    def sum_by_unit(values: Float64[ndarray, " T"]) -> Float64[ndarray, " units"]:
        return np.bincount(words.of_tokens, weights=values, minlength=words.starts.size)

    unknown = sum_by_unit(scored.unknown.astype(np.float64)) > 0
    closed, total = sum_by_unit(scored.closed), sum_by_unit(scored.total)
    return Units(words.starts, words.stops, closed, total, unknown, words.documents)


def _spread(
    ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment, begins: Int64[ndarray, " units"]
) -> Units:
    """Each token's log-probability, spread evenly over its bytes. begins: where the units begin in the text."""
    text = aligned.text
    first = np.concatenate([[0], aligned.stops[:-1]])  # with the white space before the token
    sizes = aligned.stops - first

    def sum_by_unit(values: Float64[ndarray, " T"]) -> Float64[ndarray, " units"]:
        shares = np.repeat(values / np.maximum(sizes, 1), sizes)
        empty = np.flatnonzero(sizes == 0)
        np.add.at(shares, first[empty], values[empty])
        return np.add.reduceat(shares, begins) if begins.size else np.empty(0)

    stops = np.append(begins[1:], text.size)
    documents = np.concatenate([[0], np.searchsorted(begins, aligned.stops[ids == END])])
    unknown = sum_by_unit(scored.unknown.astype(np.float64)) > 0
    return Units(begins, stops, sum_by_unit(scored.closed), sum_by_unit(scored.total), unknown, documents)


def word_end_corrections(
    model: LanguageModel[Any], tokenizer: Tokenizer, ids: Int64[ndarray, " T"], of_tokens: Int64[ndarray, " T"]
) -> Float64[ndarray, " words"]:
    """Corrections to add to the log-probability of each word's tokens, in nats; they sum to zero.

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
