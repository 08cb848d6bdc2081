"""chainrule lmplz: takes the options of KenLM's lmplz, for scripts that call it: a text in, an ARPA file out."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import WholeNumber
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.errors import EstimationError

if TYPE_CHECKING:
    from chainrule.ngram.config import NGramConfig

_WHITE_SPACE = re.compile(rb"[\0\t\n\r ]+")  # KenLM's
_UNUSED = "Ignored: "
_SWITCHES = {"": True, "1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def _several(*names: str, help: str) -> Parameter:
    return Parameter(name=names, help=help, consume_multiple=True, negative=())


def lmplz(
    *,
    order: Annotated[int, WholeNumber, Parameter(name=("--order", "-o"), help="The order of the model.")],
    text: Annotated[
        Path | None, Parameter(name="--text", help="A text, a sentence a line; by default standard input.")
    ] = None,
    arpa: Annotated[
        Path | None, Parameter(name="--arpa", help="The file to write; by default standard output.")
    ] = None,
    prune: Annotated[
        tuple[int, ...],
        WholeNumber,
        _several("--prune", help="Drop n-grams seen at most this often, by order; the last number repeats: 0 0 1."),
    ] = (),
    discount_fallback: Annotated[
        tuple[float, ...] | None,
        _several(
            "--discount_fallback",
            help="Discounts to use where they cannot be estimated: up to three numbers; without any, 0.5 1 1.5.",
        ),
    ] = None,
    limit_vocab_file: Annotated[
        Path | None,
        Parameter(name="--limit_vocab_file", help="Words, separated by white space; n-grams with others are dropped."),
    ] = None,
    interpolate_unigrams: Annotated[
        tuple[str, ...], _several("--interpolate_unigrams", help="0: give all mass of unseen words to <unk>.")
    ] = (),
    skip_symbols: Annotated[
        bool,
        Parameter(name="--skip_symbols", negative=(), help="Treat <s>, </s> and <unk> in the text as white space."),
    ] = False,
    vocab_pad: Annotated[
        int,
        WholeNumber,
        Parameter(name="--vocab_pad", help="Compute P(<unk>) as if there were at least this many words."),
    ] = 0,
    verbose_header: Annotated[
        bool, Parameter(name="--verbose_header", negative=(), help="Begin the file with comments about the text.")
    ] = False,
    memory: Annotated[str, Parameter(name=("--memory", "-S"), help=f"{_UNUSED}uses the memory it needs.")] = "",
    temp_prefix: Annotated[
        str, Parameter(name=("--temp_prefix", "-T"), help=f"{_UNUSED}there are no temporary files.")
    ] = "",
    minimum_block: Annotated[str, Parameter(name="--minimum_block", help=f"{_UNUSED}see --memory.")] = "",
    sort_block: Annotated[str, Parameter(name="--sort_block", help=f"{_UNUSED}see --memory.")] = "",
    block_count: Annotated[str, Parameter(name="--block_count", help=f"{_UNUSED}see --memory.")] = "",
    vocab_estimate: Annotated[str, Parameter(name="--vocab_estimate", help=f"{_UNUSED}see --memory.")] = "",
    renumber: Annotated[
        bool, Parameter(name="--renumber", negative=(), help=f"{_UNUSED}an ARPA file has no ids.")
    ] = False,
    intermediate: Annotated[
        str | None, Parameter(name="--intermediate", help="Not supported: use chainrule train.")
    ] = None,
    collapse_values: Annotated[
        bool, Parameter(name="--collapse_values", negative=(), help="Not supported: nothing here reads such files.")
    ] = False,
) -> None:
    """Estimate an ARPA file with the options of KenLM's lmplz, for scripts that call it.

        $ chainrule lmplz -o 3 --text corpus.txt --arpa trigram.arpa

    Writes the same n-grams and numbers as KenLM, with the lines in another
    order. Words are separated by white space. Unlike KenLM's lmplz, it also
    counts the </s> of a last line without a newline, and refuses an empty text.
    """
    from chainrule.api.tokenizers import tokenize_source
    from chainrule.base.files import replace_file
    from chainrule.base.memory import Owned
    from chainrule.ngram.arpa.write import arpa_parts
    from chainrule.ngram.training import NoDiscountsError, lmplz_table
    from chainrule.protocol import END, UNKNOWN
    from chainrule.text.corpus.corpus import Corpus
    from chainrule.text.corpus.streams import STANDARD_INPUT

    for flag, is_given in (("--intermediate", intermediate is not None), ("--collapse_values", collapse_values)):
        if is_given:
            _refuse(flag)
    config = _config(order, prune, interpolate_unigrams, vocab_pad)
    fallback = None if discount_fallback is None else _fallback(discount_fallback)
    allowed = None if limit_vocab_file is None else frozenset(_WHITE_SPACE.split(_bytes_of(limit_vocab_file)))
    source = Corpus.of(STANDARD_INPUT if text is None else text)
    with progress_bar() as progress:
        tokenizer, stream, _ = tokenize_source(source, "whitespace", "skip" if skip_symbols else "error", progress)
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
                f"{error}; train on a text without repeated passages, or with --discount_fallback (0.5, 1 and 1.5)"
            ) from error
        with ExitStack() as stack:
            file = sys.stdout.buffer if arpa is None else stack.enter_context(replace_file(arpa))
            if verbose_header:
                name = "stdin" if text is None else str(text.absolute())
                header = f"# Input file: {name}\n# Token count: {tokens}\n# Smoothing: Modified Kneser-Ney\n"
                file.write(header.encode("utf-8", "surrogateescape"))
            for part in arpa_parts(table, vocabulary, progress):
                file.write(part)
    for name in source.unended:
        note(f"{name}: the last line has no newline; it is counted with its </s>, which KenLM's lmplz leaves out")


def _config(order: int, prune: tuple[int, ...], interpolate_unigrams: tuple[str, ...], vocab_pad: int) -> NGramConfig:
    """Raises CycloptsError, SettingError."""
    from chainrule.ngram.config import NGramConfig

    switch = interpolate_unigrams[0] if len(interpolate_unigrams) == 1 else ""
    if len(interpolate_unigrams) > 1 or switch not in _SWITCHES:
        raise CycloptsError(msg=f"--interpolate_unigrams takes 0 or 1, not {' '.join(interpolate_unigrams)}.")
    if vocab_pad and not _SWITCHES[switch]:
        raise CycloptsError(msg="--vocab_pad needs interpolated unigrams; leave out --interpolate_unigrams 0.")
    if list(prune) != sorted(prune) or len(prune) > order or (prune and prune[0] < 0):
        raise CycloptsError(
            msg=f"--prune takes at most {order} numbers, one for each order, none below the one before."
        )
    return NGramConfig(
        order=order,
        prune=(0, *(prune[1:] or prune[:1]))[:order],
        interpolate_unigrams=_SWITCHES[switch],
        kenlm_compatible=True,
    )


def _fallback(given: tuple[float, ...]) -> tuple[float, float, float]:
    """Raises CycloptsError."""
    given = given or (0.5, 1.0, 1.5)
    first, second, third = (given[min(i, len(given) - 1)] for i in range(3))
    if len(given) > 3 or not (0 <= first <= 1 and 0 <= second <= 2 and 0 <= third <= 3):
        raise CycloptsError(
            msg="--discount_fallback takes at most three numbers, for counts of 1, 2 and 3 or more: at most 1, 2 and 3."
        )
    return first, second, third


def _bytes_of(path: Path) -> bytes:
    """Raises TextError."""
    from chainrule.base.files import read_file
    from chainrule.errors import TextError

    try:
        return read_file(path)
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror}") from error


def _refuse(flag: str) -> NoReturn:
    from chainrule.errors import SettingError

    raise SettingError(f"{flag} writes files for other programs of KenLM; leave it out to get an ARPA file")
