"""What benchmarks ask of a model: log-probabilities of continuations, and whether greedy decoding produces them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.evaluation.continuations import Pair, split_pairs, text_of
from chainrule.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from chainrule.evaluation.token_scores import score_documents, score_stream_tokens, score_tokens
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float64, Int32
    from numpy import ndarray

    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.evaluation.pseudo_likelihood import PseudoScorer
    from chainrule.evaluation.token_scores import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

_TOKENS_AT_ONCE = 1 << 13  # whose states are in memory


def continuation_log_probs(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    progress: Progress = silent,
    *,
    end: bool = False,
    greedy: bool = True,
) -> tuple[Float64[ndarray, " pairs"], Bool[ndarray, " pairs"]]:
    """Return log P(continuation | context) in nats, unknown words spelled; and whether greedy decoding would produce
    it.

    end: whether </s> is predicted after the continuation. greedy: whether to check for greedy decoding; if not, the
    second answer is False for all, and the model only scores. Raises MarkerError.
    """
    log_probs, is_greedy = np.zeros(len(pairs)), np.zeros(len(pairs), np.bool_)
    encoded, given = split_pairs(pairs, tokenizer)
    sequences = documents_of(encoded.ids)
    for some in _batches([len(sequence) for sequence in sequences]):
        progress("scoring continuations", some.start, len(pairs))
        part = tokenizer.encode_texts([text_of(pair) for pair in pairs[some]])
        log_probs[some], _ = score_documents(model, speller, part, given=given[some], end=end)
        if not greedy:
            continue
        contexts = [sequence[:first] for sequence, first in zip(sequences[some], given[some], strict=True)]
        rest = [sequence[first:] for sequence, first in zip(sequences[some], given[some], strict=True)]
        is_greedy[some] = _is_greedy(model, contexts, [np.append(tokens, END) for tokens in rest] if end else rest)
    return log_probs, is_greedy


def pseudo_continuation_log_probs(
    model: PseudoScorer, speller: Speller, tokenizer: Tokenizer, pairs: Sequence[Pair]
) -> Float64[ndarray, " pairs"]:
    """Return the pseudo-log-likelihoods of the continuations given their contexts, in nats. Raises MarkerError."""
    _, given = split_pairs(pairs, tokenizer)
    return pseudo_log_likelihoods(model, speller, tokenizer, [text_of(pair) for pair in pairs], given=given)[0]


def document_log_probs(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    progress: Progress = silent,
    *,
    running: StreamScoring | None = None,
) -> Float64[ndarray, " texts"]:
    """Return log P of each text by itself, in nats, unknown words spelled and </s> not predicted.

    running: a function that scores a text as one stream, for a model that reads in windows. Raises MarkerError.
    """
    totals = np.zeros(len(texts))
    for i, text in enumerate(texts):
        progress("scoring documents", i, len(texts))
        encoded = tokenizer.encode_texts([text])
        if running is None:
            scored = score_tokens(model, speller, encoded)
        else:
            scored = score_stream_tokens(encoded, speller, *running.score_for(speller)(encoded.ids, lambda share: None))
        totals[i] = scored.total[:-1].sum()
    return totals


def _batches(lengths: Sequence[int]) -> Iterator[slice]:
    """Yield slices of neighbouring sequences with about as many tokens each."""
    begin, size = 0, 0
    for i, length in enumerate(lengths):
        if i > begin and size + length > _TOKENS_AT_ONCE:
            yield slice(begin, i)
            begin, size = i, 0
        size += length
    if lengths:
        yield slice(begin, len(lengths))


def _is_greedy(
    model: LanguageModel[Any], contexts: Sequence[Tokens], rest: Sequence[Tokens]
) -> Bool[ndarray, " continuations"]:
    """Return whether greedy decoding, which never writes <unk>, produces each continuation."""
    distinct = list(dict.fromkeys(context.tobytes() for context in contexts))
    state = model.start([np.frombuffer(context, np.int32) for context in distinct])
    row_of = {context: row for row, context in enumerate(distinct)}
    rows = np.array([row_of[context.tobytes()] for context in contexts], np.int32)
    state = model.select(state, rows)
    is_greedy = np.ones(len(rest), np.bool_)
    alive = np.arange(len(rest))
    for position in range(max(map(len, rest), default=0)):
        goes_on = np.array([len(rest[i]) > position for i in alive.tolist()], np.bool_)
        state, alive = model.select(state, np.flatnonzero(goes_on).astype(np.int32)), alive[goes_on]
        tokens = np.array([rest[i][position] for i in alive.tolist()], np.int32)
        _, best = model.top(state, min(2, model.vocabulary_size))
        likeliest = np.where(best[:, 0] == UNKNOWN, best[:, -1], best[:, 0])
        is_same = likeliest == tokens
        is_greedy[alive[~is_same]] = False
        kept = np.flatnonzero(is_same)
        if not kept.size:
            break
        state = model.advance(model.select(state, kept.astype(np.int32)), tokens[kept])
        alive = alive[kept]
    return is_greedy
