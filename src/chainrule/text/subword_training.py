"""Learning subword pieces from a text with the library `tokenizers`.

    bpe         byte-pair encoding on bytes, with GPT-2's way of cutting words       Sennrich et al. (2016)
    unigram     the likeliest pieces of a unigram model, on the same bytes           Kudo (2018)
    wordpiece   BERT's: words and punctuation, pieces marked ##, learnt by merging   Schuster and Nakajima (2012)

The first two know all bytes, so that nothing is ever unknown to them and any text comes back exactly.

What merging takes grows with the square of a word's length, so a word longer than LONGEST_WORD is learnt from in parts.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chainrule.base.jit import run
from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError, SettingError
from chainrule.text.byte_symbols import SYMBOLS
from chainrule.text.subword import Subword, library
from chainrule.text.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Documents = Callable[[], Iterable[list[str]]]
    Json = dict[str, Any]

SMALLEST = len(MARKER_TOKENS) + len(SYMBOLS) + 1
LONGEST_WORD = 1000  # characters
_UNKNOWN_WORD = "[UNK]"


def trained(kind: str, documents: Documents, vocabulary_size: int, progress: Progress = silent) -> Subword:
    """Pieces learnt from batches of documents; the same text and library give the same pieces.

    documents: begins a pass over the batches. vocabulary_size: of tokens with our three markers; there are fewer where
    the text has no more to learn from. Raises SettingError; EstimationError if the characters alone are too many.
    """
    if vocabulary_size < SMALLEST:
        raise SettingError(
            f"a vocabulary of {vocabulary_size} is too small for {kind}; "
            f"the markers, all bytes and one piece are {SMALLEST}"
        )
    learn = _wordpiece if kind == "wordpiece" else _bpe if kind == "bpe" else _unigram
    described = learn(documents, vocabulary_size - len(MARKER_TOKENS), progress)
    learnt = Subword(json.dumps(described).encode(), kind)
    size = len(learnt.alphabet) + len(MARKER_TOKENS)
    if size > vocabulary_size:
        raise EstimationError(
            f"the text has so many different characters that {kind} needs {size:,} tokens for them alone; "
            "ask for more (vocabulary size), or take bpe, which cuts rare characters into bytes"
        )
    return learnt


def _bpe(documents: Documents, pieces: int, progress: Progress) -> Json:
    tokenizers = library()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=list(SYMBOLS), show_progress=False)
    return _learnt(_on_bytes(tokenizers.models.BPE()), trainer, documents, "learning bpe pieces", progress)


def _unigram(documents: Documents, pieces: int, progress: Progress) -> Json:
    tokenizers = library()
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=pieces, initial_alphabet=list(SYMBOLS), show_progress=False)
    described = _learnt(_on_bytes(tokenizers.models.Unigram()), trainer, documents, "learning unigram pieces", progress)
    # There are no scores where the text has nothing in it.
    scored = [(piece, 0.0 if score is None else score) for piece, score in described["model"]["vocab"]]
    described["model"]["vocab"] = _settled(scored)
    return described


def _wordpiece(documents: Documents, pieces: int, progress: Progress) -> Json:
    """In two passes, for the library breaks ties by the numbers of characters, and numbers ##x as it meets them: in an
    order drawn anew each time. The first pass finds them, the second gets them in order.
    """
    tokenizers = library()

    def learnt(first: list[str], size: int, task: str) -> Json:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=_UNKNOWN_WORD))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers.decoders.WordPiece()
        trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=size, special_tokens=first, show_progress=False)
        return _learnt(tokenizer, trainer, documents, task, progress)

    characters = learnt([_UNKNOWN_WORD], 0, "finding characters")["model"]["vocab"]
    numbered = [_UNKNOWN_WORD, *sorted(set(characters) - {_UNKNOWN_WORD})]
    described = learnt(numbered, max(pieces + 1, len(numbered)), "learning wordpiece pieces")
    described["added_tokens"] = [token for token in described["added_tokens"] if token["content"] == _UNKNOWN_WORD]
    return described


def _on_bytes(model: Any) -> Any:
    """A tokenizer that has learnt nothing, on bytes."""
    tokenizers = library()
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def _learnt(tokenizer: Any, trainer: Any, documents: Documents, task: str, progress: Progress) -> Json:
    """Trains a tokenizer and describes it, as in a tokenizer.json."""

    cutter = (
        tokenizer.pre_tokenizer
    )  # which must not be asked for in training, when the library has locked its tokenizer

    def short_words() -> Iterator[list[str]]:
        for batch in documents():
            yield [part for document in batch for part in _with_short_words(document, cutter)]
        progress(task, 0, None)  # all has been read; now the library works, and tells nothing

    run(tokenizer.train_from_iterator, short_words(), trainer, while_waiting=lambda: progress(task, 0, None))
    return json.loads(tokenizer.to_str())


_LONG_RUN = re.compile(rf"\s{{{LONGEST_WORD + 1}}}|\S{{{LONGEST_WORD + 1}}}")


def _with_short_words(document: str, cutter: Any) -> list[str]:
    """A document, cut wherever a word that the library would find in it goes on after LONGEST_WORD characters."""
    if len(document) <= LONGEST_WORD or _LONG_RUN.search(document) is None:
        return [document]
    cuts = [
        cut
        for _, (start, stop) in cutter.pre_tokenize_str(document)
        for cut in range(start + LONGEST_WORD, stop, LONGEST_WORD)
    ]
    return [document[start:stop] for start, stop in pairwise([0, *cuts, len(document)])]


def _settled(scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """A unigram vocabulary in an order of its own.

    The library goes through its tables in an order drawn anew each time, so the last digits of scores differ, and which
    of the bytes that the text lacks is scored how.
    """
    lowest = round(min(score for _, score in scored), 6)
    floor = lowest + 1e-4 * (len(SYMBOLS) + 1)  # the library spaces the bytes that were not seen by this much
    settled = [(piece, lowest if len(piece) == 1 and score < floor else round(score, 6)) for piece, score in scored]
    return sorted(settled, key=lambda pair: (-pair[1], pair[0]))
