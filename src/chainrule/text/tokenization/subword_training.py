"""Learning subword pieces from a text with the library `tokenizers`.

    bpe         byte-pair encoding on bytes, with GPT-2's way of cutting words       Sennrich et al. (2016)
    unigram     the likeliest pieces of a unigram model, on the same bytes           Kudo (2018)
    wordpiece   BERT's: words and punctuation, pieces marked ##, learned by merging   Schuster and Nakajima (2012)

The first two know all bytes, so that nothing is ever unknown to them and any text comes back exactly.

Merging takes time that grows with the square of a word's length: a word longer than LONGEST_WORD is learned in parts.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run
from chainrule.errors import EstimationError, SettingError
from chainrule.text.tokenization.splitters import SYMBOLS
from chainrule.text.tokenization.subword import Subword, library
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Documents = Callable[[], Iterable[list[str]]]
    Json = dict[str, Any]

SMALLEST = len(MARKER_TOKENS) + len(SYMBOLS) + 1
LONGEST_WORD = 1000  # characters
_UNKNOWN_WORD = "[UNK]"


def train_subword(kind: str, documents: Documents, vocabulary_size: int, progress: Progress = silent) -> Subword:
    """Learn subwords from documents; the same text and version of the library give the same subwords.

    documents: a function that returns the batches of documents, called once for each pass. vocabulary_size: includes
    the three markers; a small text may give fewer subwords. Raises SettingError; EstimationError if the characters
    alone are too many.
    """
    if vocabulary_size < SMALLEST:
        raise SettingError(
            f"a vocabulary of {vocabulary_size} is too small for {kind}; "
            f"expected at least {SMALLEST}: the markers, all bytes and one piece"
        )
    learn = _wordpiece if kind == "wordpiece" else _bpe if kind == "bpe" else _unigram
    described = learn(documents, vocabulary_size - len(MARKER_TOKENS), progress)
    learned = Subword(json.dumps(described).encode(), kind)
    size = len(learned.alphabet) + len(MARKER_TOKENS)
    if size > vocabulary_size:
        raise EstimationError(
            f"the text has so many different characters that {kind} needs {size:,} tokens for them alone; "
            "choose a larger vocabulary size, or bpe, which splits rare characters into bytes"
        )
    return learned


def _bpe(documents: Documents, pieces: int, progress: Progress) -> Json:
    tokenizers = library()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=list(SYMBOLS), show_progress=False)
    return _train(_on_bytes(tokenizers.models.BPE()), trainer, documents, "learning bpe pieces", progress)


def _unigram(documents: Documents, pieces: int, progress: Progress) -> Json:
    tokenizers = library()
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=pieces, initial_alphabet=list(SYMBOLS), show_progress=False)
    described = _train(_on_bytes(tokenizers.models.Unigram()), trainer, documents, "learning unigram pieces", progress)
    # An empty text gives no scores.
    scored = [(piece, 0.0 if score is None else score) for piece, score in described["model"]["vocab"]]
    described["model"]["vocab"] = _in_canonical_order(scored)
    return described


def _wordpiece(documents: Documents, pieces: int, progress: Progress) -> Json:
    """Learn in two passes.

    The library breaks ties by the ids of characters, and numbers the ##x in random order; so the first pass collects
    the characters, and the second gets them in a fixed order.
    """
    tokenizers = library()

    def learned(first: list[str], size: int, task: str) -> Json:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=_UNKNOWN_WORD))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers.decoders.WordPiece()
        trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=size, special_tokens=first, show_progress=False)
        return _train(tokenizer, trainer, documents, task, progress)

    characters = learned([_UNKNOWN_WORD], 0, "finding characters")["model"]["vocab"]
    numbered = [_UNKNOWN_WORD, *sorted(set(characters) - {_UNKNOWN_WORD})]
    described = learned(numbered, max(pieces + 1, len(numbered)), "learning wordpiece pieces")
    described["added_tokens"] = [token for token in described["added_tokens"] if token["content"] == _UNKNOWN_WORD]
    return described


def _on_bytes(model: Any) -> Any:
    """Return a byte-level tokenizer without subwords yet."""
    tokenizers = library()
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def _train(tokenizer: Any, trainer: Any, documents: Documents, task: str, progress: Progress) -> Json:
    """Train a tokenizer, and return the contents of its tokenizer.json."""
    cutter = tokenizer.pre_tokenizer  # fetched here, since the library locks its tokenizer during training

    def short_words() -> Iterator[list[str]]:
        for batch in documents():
            yield [part for document in batch for part in _with_short_words(document, cutter)]
        progress(task, 0, None)  # all is read; the library now works without reporting progress

    run(tokenizer.train_from_iterator, short_words(), trainer, while_waiting=lambda: progress(task, 0, None))
    return json.loads(tokenizer.to_str())


_LONG_RUN = re.compile(rf"\s{{{LONGEST_WORD + 1}}}|\S{{{LONGEST_WORD + 1}}}")


def _with_short_words(document: str, cutter: Any) -> list[str]:
    """Return a document, split wherever a word of the library is longer than LONGEST_WORD characters."""
    if len(document) <= LONGEST_WORD or _LONG_RUN.search(document) is None:
        return [document]
    cuts = [
        cut
        for _, (start, stop) in cutter.pre_tokenize_str(document)
        for cut in range(start + LONGEST_WORD, stop, LONGEST_WORD)
    ]
    return [document[start:stop] for start, stop in pairwise([0, *cuts, len(document)])]


def _in_canonical_order(scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return a unigram vocabulary with rounded scores, in a fixed order.

    The library iterates over hash tables in random order, so the last digits of scores differ between runs, and so do
    the scores of bytes that do not occur in the text.
    """
    lowest = round(min(score for _, score in scored), 6)
    floor = lowest + 1e-4 * (len(SYMBOLS) + 1)  # the library gives bytes that do not occur scores this far apart
    settled = [(piece, lowest if len(piece) == 1 and score < floor else round(score, 6)) for piece, score in scored]
    return sorted(settled, key=lambda pair: (-pair[1], pair[0]))
