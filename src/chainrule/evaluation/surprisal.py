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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from chainrule.evaluation.token_scores import score_stream_tokens, score_tokens
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.units import begins_word, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller, TokenLogProbs
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus.block import Block
    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

By = Literal["tokens", "words", "characters", "bytes"]
Convention = Literal["chainrule", "minicons"]


@dataclass(frozen=True)
class Units:
    """Document i has the units documents[i] to documents[i + 1], its end last. starts, stops: bytes of the text."""

    starts: Int64[ndarray, " units"]
    stops: Int64[ndarray, " units"]
    closed: Float64[ndarray, " units"]  # nats, <unk> for unknown tokens; see `TokenLogProbs`
    spelled: Float64[ndarray, " units"]  # nats, the same with the spelling of unknown tokens: -1 times the surprisal
    total: Float64[ndarray, " units"]  # nats, as a piece of the text, with room for all unseen words
    unknown: Bool[ndarray, " units"]  # whether it contains an unknown token
    documents: Int64[ndarray, " documents+1"]
    firsts: Int64[ndarray, " units"] | None = None  # their first tokens; None of parts of tokens


def units(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment, by: By) -> Units:
    """Return the units of some documents. ids: their tokens. aligned: the positions of these in the text."""
    if by == "tokens":
        return _tokens(ids, scored, aligned)
    if by == "words":
        return _words(ids, scored, aligned)
    begins = np.arange(aligned.text.size) if by == "bytes" else np.flatnonzero((aligned.text & 0xC0) != 0x80)
    return _spread(ids, scored, aligned, begins)


def _tokens(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment) -> Units:
    documents = np.concatenate([[0], np.flatnonzero(ids == END) + 1])
    columns = (scored.closed, scored.spelled, scored.total, scored.unknown)
    return Units(aligned.starts, aligned.stops, *columns, documents, np.arange(ids.size))


def _words(ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment) -> Units:
    words = words_of(ids, aligned)

    def sum_by_unit(values: Float64[ndarray, " T"]) -> Float64[ndarray, " units"]:
        return np.bincount(words.of_tokens, weights=values, minlength=words.starts.size)

    unknown = sum_by_unit(scored.unknown.astype(np.float64)) > 0
    closed, spelled, total = map(sum_by_unit, (scored.closed, scored.spelled, scored.total))
    sizes = np.bincount(words.of_tokens, minlength=words.starts.size)
    firsts = np.minimum(np.cumsum(sizes) - sizes, ids.size - 1)
    return Units(words.starts, words.stops, closed, spelled, total, unknown, words.documents, firsts)


def _spread(
    ids: Int32[ndarray, " T"], scored: TokenLogProbs, aligned: Alignment, begins: Int64[ndarray, " units"]
) -> Units:
    """Return each token's log-probability, spread evenly over its bytes. begins: where the units begin in the text."""
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
    closed, spelled, total = map(sum_by_unit, (scored.closed, scored.spelled, scored.total))
    return Units(begins, stops, closed, spelled, total, unknown, documents)


def word_borders(tokenizer: Tokenizer, convention: Convention = "chainrule") -> Bool[ndarray, " V"] | None:
    """Return the tokens that say that the word before them has ended; None where tokens are words, so that all of them
    do.

    convention: chainrule's are those that begin with white space, and </s>. minicons' `bow_correction` takes those that
    begin with a space alone, and not the end of the text (minicons 0.3.39). Its softmax is that of the file, in which
    <s> has a probability: see `read_block`.
    """
    borders = begins_word(tokenizer)
    borders[END] = True
    if borders.all():
        return None
    return borders if convention == "chainrule" else begins_word(tokenizer, spaces_only=True)


def log_word_ends(
    model: LanguageModel[Any], tokenizer: Tokenizer, texts: Sequence[Int32[ndarray, " T"]]
) -> list[Float64[ndarray, " T+2"]]:
    """Return log P(the word ends | the first tokens of a text), before each token, before </s> and after it, in nats.

    texts: the tokens of each, without </s>. Both ends of a text are certain: 0. So are all where tokens are words.
    """
    borders = word_borders(tokenizer)
    if borders is None:
        return [np.zeros(len(ids) + 2) for ids in texts]
    return [own.log_word_ends for own in read_contexts(model, texts, borders=borders)]


class Contexts(NamedTuple):
    """What a model expected before each token of a text, and before </s>."""

    log_probs: Float64[ndarray, " T+1"]  # of the tokens, and of </s>, in nats
    unknown: Float64[ndarray, " T+1"]  # of <unk>
    log_word_ends: Float64[ndarray, " T+2"]  # as `log_word_ends` gives them; zeros unless asked for
    entropies: Float64[ndarray, " T+1"]  # of the next token, in nats; zeros unless asked for
    ranks: Int64[ndarray, " T+1"]  # of the token that came: how many were likelier, plus one
    shifts: Float64[ndarray, " T+1"]  # to add to log_probs for P(token | its own window); zeros without a limit

    def log_text_word_ends(self, unseen_types: int, *, unknown_ends_word: bool) -> Float64[ndarray, " T+2"]:
        """Return `log_word_ends` under the distribution over texts, P' of `token_scores`, in place of the model's own.

        unknown_ends_word: whether <unk> is one of the tokens that say that a word has ended.
        """
        more = (unseen_types - 1) * np.exp(self.unknown)  # what all unseen types together have beyond one
        ends, inside = self.log_word_ends.copy(), slice(1, -1)  # both ends of a text are certain
        with np.errstate(divide="ignore"):
            mass = np.maximum(np.exp(ends[inside]) + (more[1:] if unknown_ends_word else 0), 0)
            ends[inside] = np.minimum(np.log(mass) - np.log1p(more[1:]), 0) if unseen_types != 1 else ends[inside]
        return ends


def read_contexts(
    model: LanguageModel[Any],
    texts: Sequence[Int32[ndarray, " T"]],
    *,
    borders: Bool[ndarray, " V"] | None = None,
    entropy: bool = False,
    banned: bool = False,
) -> list[Contexts]:
    """Read the distribution at each position of some texts, each by itself.

    texts: the tokens of each, without </s>. borders: the tokens that say that a word has ended, if that is asked for.
    entropy: whether entropies and ranks are asked for. banned: whether a network's tokens that never come, such as <s>,
    have the probability that its own softmax gives them.
    """
    if hasattr(model, "read_contexts"):  # a network with a limited context
        own: list[Contexts] = model.read_contexts(texts, borders=borders, entropy=entropy, banned=banned)
        return own
    contexts = [no_contexts(len(ids)) for ids in texts]
    for numbers, position, rows in _distributions(model, texts, banned=banned):
        fill_contexts(contexts, texts, numbers, position, rows, borders, entropy=entropy)
    for one in contexts:
        one.log_word_ends[0] = 0  # the text begins, and so does a word
    return contexts


def fill_contexts(
    contexts: Sequence[Contexts],
    texts: Sequence[Int32[ndarray, " T"]],
    numbers: Sequence[int],
    position: Sequence[int],
    rows: Float32[ndarray, "part V"],
    borders: Bool[ndarray, " V"] | None,
    *,
    entropy: bool,
) -> None:
    """Note what some distributions say. numbers, position: of each, its text, and the tokens of it that come before."""
    for number, place, row in zip(numbers, position, rows, strict=True):
        contexts[number].log_probs[place] = row[_token_at(texts[number], place)]
        contexts[number].unknown[place] = row[UNKNOWN]
    if borders is None and not entropy:
        return
    probs = np.exp(rows)
    if borders is not None:
        with np.errstate(divide="ignore"):
            ends = np.log(np.minimum(probs[:, borders].sum(axis=1, dtype=np.float64), 1))
        for number, place, end in zip(numbers, position, ends.tolist(), strict=True):
            contexts[number].log_word_ends[place] = end
    if entropy:
        terms = np.multiply(probs, rows, out=np.zeros_like(rows), where=probs > 0)
        for number, place, row, own in zip(
            numbers, position, rows, (-terms.sum(axis=1, dtype=np.float64)).tolist(), strict=True
        ):
            contexts[number].entropies[place] = max(own, 0.0)
            contexts[number].ranks[place] = 1 + np.count_nonzero(row > row[_token_at(texts[number], place)])


def read_block(
    model: LanguageModel[Any],
    tokenizer: Tokenizer,
    block: Block,
    *,
    word_ends: bool = True,
    entropy: bool = False,
    convention: Convention = "chainrule",
) -> list[Contexts] | None:
    """Return what a model expected before each token of the documents of a block; None where nothing of it is needed.

    Networks are always read so, that the scores of their tokens do not depend on what else is asked for. By minicons'
    convention, the tokens of others' files that never come, such as <s>, have what the file's softmax gives them.
    """
    borders = word_borders(tokenizer, convention)
    banned = convention == "minicons" and borders is not None
    borders = borders if word_ends else None
    if borders is None and not entropy and not has_text_rows(model):
        return None
    texts = documents_of(tokenizer.encode_block(block).ids)
    return read_contexts(model, texts, borders=borders, entropy=entropy, banned=banned)


def score_alone(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    block: Block,
    encoded: Encoded,
    contexts: Sequence[Contexts] | None = None,
    *,
    only_spelled: bool = False,
) -> TokenLogProbs:
    """Return the scores of the tokens of a block, of which each document is read by itself.

    contexts: what the model expected, if that was read; scores of networks are always taken from it. only_spelled:
    whether the correction for unseen types may be anything, which is less work.
    """
    if contexts is None:
        contexts = read_block(model, tokenizer, block, word_ends=False)
    if contexts and has_text_rows(model):
        both = ([own.log_probs for own in contexts], [own.unknown for own in contexts])
        return score_stream_tokens(encoded, speller, *map(np.concatenate, both))
    if only_spelled and not hasattr(model, "score_stream_with_unknown"):
        scores = model.score_stream(encoded.ids)
        return score_stream_tokens(encoded, speller, scores)
    return score_tokens(model, speller, encoded, alone=True)


def has_text_rows(model: LanguageModel[Any]) -> bool:
    """Return whether a model gives the distributions at all positions of a text at once, as networks do."""
    return hasattr(model, "text_rows") or hasattr(model, "read_contexts")


def no_contexts(tokens: int) -> Contexts:
    """Return contexts of a text of so many tokens, of zeros."""
    log_probs, unknown, entropies, shifts = np.zeros((4, tokens + 1))
    return Contexts(log_probs, unknown, np.zeros(tokens + 2), entropies, np.zeros(tokens + 1, np.int64), shifts)


def _token_at(ids: Int32[ndarray, " T"], place: int) -> int:
    return END if place == len(ids) else int(ids[place])


class Entropy(NamedTuple):
    """The entropy of the next word before each word of a text, its end included, in nats; and its standard error."""

    values: Float64[ndarray, " words"]
    errors: Float64[ndarray, " words"]


_LONGEST_WORD = 24  # tokens of a drawn word, after which it counts as ended


def word_entropies(
    model: LanguageModel[Any],
    ids: Int32[ndarray, " T"],
    starts: Sequence[int],
    borders: Bool[ndarray, " V"],
    samples: int,
) -> Entropy:
    """Estimate the entropy of the next word, which may have several tokens, before the words of a text.

    By the chain rule, a word's entropy is that of its first token, among those that may begin one, and the mean over
    words of the entropies of what follows: whether the word ends here, or which token continues it. So each of the
    drawn words adds up whole entropies, not surprisals, which makes its mean far more precise; it is unbiased but for
    words of more than `_LONGEST_WORD` tokens. Draws depend on the text's position alone, not on other texts.

    starts: the position of each word's first token; borders: as `word_borders` gives them.
    """
    values, errors = np.zeros(len(starts)), np.zeros(len(starts))
    state = model.start([np.empty(0, np.int32)])
    place = 0
    for word, start in enumerate(starts):
        for token in ids[place:start]:
            state = model.advance(state, np.array([token], np.int32))
        place = start
        generator = np.random.default_rng([word, samples])
        probs = np.exp(model.next_log_probs(state).astype(np.float64))[0]
        if start:  # the word before has ended
            probs = np.where(borders, probs, 0)
        first = _entropy_of(probs / probs.sum())
        sums = np.full(samples, first)
        rows = np.arange(samples)
        tokens = generator.choice(len(probs), samples, p=probs / probs.sum())
        own = model.select(state, np.zeros(samples, np.int32))
        for _ in range(_LONGEST_WORD):
            goes_on = tokens != END
            rows, tokens = rows[goes_on], tokens[goes_on]
            if not rows.size:
                break
            own = model.select(own, np.flatnonzero(goes_on).astype(np.int32))
            own = model.advance(own, tokens.astype(np.int32))
            probs = np.exp(model.next_log_probs(own).astype(np.float64))
            ends = probs[:, borders].sum(axis=1, keepdims=True)
            decisions = np.concatenate([ends, np.where(borders, 0, probs)], 1)
            decisions /= decisions.sum(axis=1, keepdims=True)
            sums[rows] += [_entropy_of(row) for row in decisions]
            drawn = (decisions.cumsum(axis=1) < generator.random((len(rows), 1))).sum(axis=1)
            tokens = np.where(drawn == 0, END, np.minimum(drawn, len(borders)) - 1)
        values[word] = sums.mean()
        errors[word] = sums.std(ddof=1) / np.sqrt(samples) if samples > 1 else np.nan
    return Entropy(values, errors)


def _entropy_of(probs: Float64[ndarray, " n"]) -> float:
    above = probs[probs > 0]
    return max(0.0, float(-(above * np.log(above)).sum()))


class WordFigures(NamedTuple):
    """Figures of the words of a text, </s> last, in nats. None where not asked for.

    corrections: to add to the log-probability of each word's tokens, to count its end and not that of the word before.
    text_corrections: the same, to add to its log-probability as a part of the text. entropies: of the next token,
    before the word's first one. ranks: of the word's first token. of_words: entropies of the next word. shifts: to add
    in place of corrections, so that each token has its probability in its window; see `Contexts`.
    """

    corrections: Float64[ndarray, " words"] | None
    text_corrections: Float64[ndarray, " words"] | None
    entropies: Float64[ndarray, " words"] | None
    ranks: Int64[ndarray, " words"] | None
    of_words: Entropy | None
    shifts: Float64[ndarray, " words"] | None


def word_figures(
    model: LanguageModel[Any],
    tokenizer: Tokenizer,
    unseen_types: int,
    block: Block,
    contexts: Sequence[Contexts] | None,
    *,
    word_ends: bool = True,
    entropy: bool = False,
    drawn: int = 0,
) -> list[WordFigures]:
    """Return figures of the words of each document of a block, beside the log-probabilities of their tokens.

    unseen_types: those of the model's speller. contexts: as `read_block` gives them; None where tokens are words, and
    have no corrections. drawn: the number of words drawn before each one, to estimate the entropy of the next word
    where a word may have several tokens; 0 for none.
    """
    encoded = tokenizer.encode_block(block)
    words, texts = words_of(encoded.ids, tokenizer.align(encoded)), documents_of(encoded.ids)
    borders = word_borders(tokenizer) if drawn else None
    unknown_ends_word = bool(begins_word(tokenizer)[UNKNOWN])
    figures, start = [], 0
    for i, first in enumerate(words.documents[:-1].tolist()):
        of_tokens = words.of_tokens[start : start + len(texts[i]) + 1] - first
        firsts = np.searchsorted(of_tokens, np.arange(of_tokens[-1] + 2))  # the first token of each word, and the stop
        own = None if contexts is None else contexts[i]
        corrections = of_text = entropies = ranks = of_words = None
        shifts = None if own is None else own.shifts[firsts[:-1]]
        if word_ends:
            corrections = of_text = np.zeros(len(firsts) - 1)
        if word_ends and own is not None:
            corrections = np.diff(own.log_word_ends[firsts])
            of_text = np.diff(own.log_text_word_ends(unseen_types, unknown_ends_word=unknown_ends_word)[firsts])
        if own is not None and entropy:
            entropies, ranks = own.entropies[firsts[:-1]], own.ranks[firsts[:-1]]
        if borders is not None:
            of_words = word_entropies(model, texts[i], firsts[:-1].tolist(), borders, drawn)
        elif drawn and own is not None:  # tokens are words
            of_words = Entropy(own.entropies[firsts[:-1]], np.zeros(len(firsts) - 1))
        figures.append(WordFigures(corrections, of_text, entropies, ranks, of_words, shifts))
        start += len(texts[i]) + 1
    return figures


_ROWS = 64  # distributions computed at a time
_TEXTS_TOGETHER = 32  # read step by step, each step of all at once


def _distributions(
    model: LanguageModel[Any], texts: Sequence[Int32[ndarray, " T"]], *, banned: bool = False
) -> Iterator[tuple[Sequence[int], Sequence[int], Float32[ndarray, "part V"]]]:
    """Yield distributions of the next token, each with its text and how many of this text's tokens were read
    before it.
    """
    if has_text_rows(model):  # networks: each text with the bits that it has alone
        together = cast("Any", model).text_rows
        places = [(number, place) for number, text in enumerate(texts) for place in range(len(text) + 1)]
        done = 0
        for rows in together(texts, _ROWS, banned=banned):
            some = places[done : done + len(rows)]
            yield [number for number, _ in some], [place for _, place in some], rows
            done += len(rows)
        return
    read = getattr(model, "stream_rows", None)
    if read is not None:  # many positions at a time, each text for itself
        for number, text in enumerate(texts):
            first = 0
            for rows in read(np.append(text, END).astype(np.int32), _ROWS):
                yield [number] * len(rows), range(first, first + len(rows)), rows
                first += len(rows)
        return
    longest_first = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    for first in range(0, len(texts), _TEXTS_TOGETHER):
        numbers = longest_first[first : first + _TEXTS_TOGETHER]
        state = model.start([np.empty(0, np.int32)] * len(numbers))
        position = 0
        while numbers:
            yield numbers, [position] * len(numbers), model.next_log_probs(state)
            left = [number for number in numbers if len(texts[number]) > position]
            if len(left) < len(numbers):
                numbers, state = left, model.select(state, np.arange(len(left), dtype=np.int32))
            if numbers:
                state = model.advance(state, np.array([texts[i][position] for i in numbers], np.int32))
            position += 1
