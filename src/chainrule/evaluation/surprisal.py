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
    from collections.abc import Sequence

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
    model: LanguageModel[Any],
    tokenizer: Tokenizer,
    texts: Sequence[tuple[Int32[ndarray, " T"], Int64[ndarray, " T"]]],
) -> list[Float64[ndarray, " words"]]:
    """Corrections to add to the log-probability of each word's tokens, in nats; those of a text sum to zero.

    texts: of each, its tokens, </s> last; and the word of each token, as in `Words`, counted from the text's first.
    """
    by_text = log_word_ends(model, tokenizer, [ids[:-1] for ids, _ in texts])
    return [
        np.diff(ends[np.searchsorted(of_tokens, np.arange(of_tokens[-1] + 2))])
        for ends, (_, of_tokens) in zip(by_text, texts, strict=True)
    ]


def log_word_ends(
    model: LanguageModel[Any], tokenizer: Tokenizer, texts: Sequence[Int32[ndarray, " T"]]
) -> list[Float64[ndarray, " T+2"]]:
    """log P(the word ends | the first tokens of a text), before each token, before </s> and after it, in nats.

    texts: the tokens of each, without </s>. Both ends of a text are certain: 0. So are all where tokens are words.
    """
    borders = begins_word(tokenizer)
    borders[END] = True
    by_text = [np.zeros(len(ids) + 2) for ids in texts]
    if not borders.all():
        longest_first = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for first in range(0, len(texts), _TEXTS_TOGETHER):
            rows = longest_first[first : first + _TEXTS_TOGETHER]
            _read_word_ends(model, borders, [texts[i] for i in rows], [by_text[i] for i in rows])
    return by_text


_TEXTS_TOGETHER = 32  # read step by step, each step of all at once


def _read_word_ends(
    model: LanguageModel[Any],
    borders: Bool[ndarray, " V"],
    texts: Sequence[Int32[ndarray, " T"]],
    ends: Sequence[Float64[ndarray, " T+2"]],
) -> None:
    """Fills `ends` with log P(the next token is a border | the first tokens of a text). texts: the longest first,
    without </s>.
    """
    state = model.start([np.empty(0, np.int32)] * len(texts))
    rows = len(texts)
    for position in range(1, len(texts[0]) + 1):
        left = sum(len(text) >= position for text in texts)
        if left < rows:
            state, rows = model.select(state, np.arange(left, dtype=np.int32)), left
        state = model.advance(state, np.array([text[position - 1] for text in texts[:rows]], np.int32))
        log_probs = model.next_log_probs(state)[:, borders].astype(np.float64)
        for row, own in zip(np.logaddexp.reduce(log_probs, axis=1).tolist(), ends, strict=False):
            own[position] = row
