"""`lmplz`: an ARPA file as KenLM's lmplz estimates it from a text, for those who have its options."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from chainrule.base.files import read_file, replace_file
from chainrule.base.memory import Owned
from chainrule.errors import EstimationError, SettingError, TextError
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.ngram.config import NGramConfig
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.corpus.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.text.corpus.corpus import Paths, Source

_WHITE_SPACE = re.compile(rb"[\0\t\n\r ]+")  # KenLM's
FALLBACK = (0.5, 1.0, 1.5)  # KenLM's


@shows_progress
def lmplz(
    source: Source | Paths,
    arpa: str | os.PathLike[str] | BinaryIO,
    *,
    order: int,
    prune: Sequence[int] = (),
    discount_fallback: Sequence[float] | None = None,
    limit_vocab_file: str | os.PathLike[str] | None = None,
    interpolate_unigrams: bool = True,
    skip_symbols: bool = False,
    vocab_pad: int = 0,
    verbose_header: bool = False,
    progress: ProgressOption = None,
) -> None:
    """Estimate an ARPA file with the n-grams and numbers of KenLM's lmplz, whose options these are.

    source: a sentence a line, its words separated by white space. arpa: where the file goes. prune: n-grams seen at
    most this often are dropped, by order; the last number repeats. discount_fallback: discounts where they cannot be
    estimated, up to three; none: those of KenLM. limit_vocab_file: words; n-grams with others are dropped.
    interpolate_unigrams: whether all unigrams share the mass of unseen words, or <unk> gets it. skip_symbols: whether
    <s>, </s> and <unk> in the text count as white space. vocab_pad: P(<unk>) is as if there were at least this many
    words. verbose_header: whether the file begins with comments about the text.
    Raises SettingError, TextError, EstimationError, OutputError.

    good:  chainrule.lmplz("corpus.txt", "trigram.arpa", order=3)
    """
    from chainrule.ngram.arpa.write import arpa_parts
    from chainrule.ngram.training import NoDiscountsError, lmplz_table

    config = _config(order, tuple(prune), vocab_pad, interpolate_unigrams=interpolate_unigrams)
    fallback = None if discount_fallback is None else _fallback(tuple(discount_fallback))
    allowed = None if limit_vocab_file is None else frozenset(_WHITE_SPACE.split(_read(Path(limit_vocab_file))))
    source, progress = source_of(source), callback(progress)
    tokenizer, stream, *_ = tokenize_source(source, "whitespace", "skip" if skip_symbols else "error", progress)
    tokens = int((stream > END).sum() + (stream == UNKNOWN).sum()) if verbose_header else 0
    owned = Owned(stream)
    del stream
    try:
        table, vocabulary = lmplz_table(
            owned,
            tokenizer.vocabulary,
            config,
            progress,
            unigram_threshold=prune[0] if prune else 0,
            allowed=allowed,
            fallback=fallback,
            min_words=vocab_pad,
        )
    except NoDiscountsError as error:
        raise EstimationError(
            f"{error}; train on a text without repeated passages, or with discount_fallback=... (0.5, 1 and 1.5)"
        ) from error
    with ExitStack() as stack:
        file = stack.enter_context(replace_file(Path(arpa))) if isinstance(arpa, str | os.PathLike) else arpa
        if verbose_header:
            names = ", ".join("stdin" if name == STANDARD_INPUT else os.path.abspath(name) for name in source.sources)
            header = f"# Input file: {names}\n# Token count: {tokens}\n# Smoothing: Modified Kneser-Ney\n"
            file.write(header.encode("utf-8", "surrogateescape"))
        for part in arpa_parts(table, vocabulary, progress):
            file.write(part)


def _config(order: int, prune: tuple[int, ...], vocab_pad: int, *, interpolate_unigrams: bool) -> NGramConfig:
    """Return the configuration for options of lmplz. Raises SettingError."""
    if vocab_pad and not interpolate_unigrams:
        raise SettingError("vocab_pad needs interpolated unigrams; leave it out, or interpolate_unigrams=False")
    if list(prune) != sorted(prune) or len(prune) > order or (prune and prune[0] < 0):
        raise SettingError(
            f"prune is {' '.join(map(str, prune))}; expected at most {order} numbers, one for each order, none below "
            "the one before"
        )
    return NGramConfig(
        order=order,
        prune=(0, *(prune[1:] or prune[:1]))[:order],
        interpolate_unigrams=interpolate_unigrams,
        kenlm_compatible=True,
    )


def _fallback(discounts: tuple[float, ...]) -> tuple[float, float, float]:
    """Return the fallback discounts for counts of 1, 2 and 3 or more. Raises SettingError."""
    discounts = discounts or FALLBACK
    first, second, third = (discounts[min(i, len(discounts) - 1)] for i in range(3))
    if len(discounts) > 3 or not (0 <= first <= 1 and 0 <= second <= 2 and 0 <= third <= 3):
        raise SettingError(
            f"discount_fallback is {' '.join(f'{discount:g}' for discount in discounts)}; expected at most three "
            "numbers, for counts of 1, 2 and 3 or more: at most 1, 2 and 3"
        )
    return first, second, third


def _read(path: Path) -> bytes:
    """Return the bytes of a text. Raises TextError."""
    try:
        return read_file(path, is_text=True)
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror}") from error
