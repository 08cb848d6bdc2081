"""chainrule lmplz: takes the options of KenLM's lmplz, for scripts that call it: a text in, an ARPA file out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import MayBeEmpty, Number, WholeNumber
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.errors import SettingError

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
        Number,
        _several(
            "--discount_fallback",
            help="Discounts to use where they cannot be estimated: up to three numbers; without any, 0.5 1 1.5.",
        ),
        MayBeEmpty(),
    ] = None,
    limit_vocab_file: Annotated[
        Path | None,
        Parameter(name="--limit_vocab_file", help="Words, separated by white space; n-grams with others are dropped."),
    ] = None,
    interpolate_unigrams: Annotated[
        tuple[str, ...],
        _several("--interpolate_unigrams", help="0: give all mass of unseen words to <unk>."),
        MayBeEmpty(),
    ] = (),
    skip_symbols: Annotated[
        bool,
        Parameter(name="--skip_symbols", negative=(), help="Treat <s>, </s> and <unk> in the text as white space."),
    ] = False,
    vocab_pad: Annotated[
        int,
        WholeNumber,
        Parameter(name="--vocab_pad", help="Compute P(<unk>) as if the vocabulary had at least this many words."),
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
    from chainrule.features.kenlm.lmplz import lmplz as estimate
    from chainrule.text.corpus.corpus import Corpus
    from chainrule.text.corpus.streams import STANDARD_INPUT

    for flag, is_given in (("--intermediate", intermediate is not None), ("--collapse_values", collapse_values)):
        if is_given:
            raise SettingError(f"{flag} writes files for other programs of KenLM; leave it out to get an ARPA file")
    switch = interpolate_unigrams[0] if len(interpolate_unigrams) == 1 else ""
    if len(interpolate_unigrams) > 1 or switch not in _SWITCHES:
        raise CycloptsError(msg=f"--interpolate_unigrams takes 0 or 1, not {' '.join(interpolate_unigrams)}.")
    source = Corpus.of(STANDARD_INPUT if text is None else text)
    with progress_bar() as progress:
        estimate(
            source,
            sys.stdout.buffer if arpa is None else arpa,
            order=order,
            prune=prune,
            discount_fallback=discount_fallback,
            limit_vocab_file=limit_vocab_file,
            interpolate_unigrams=_SWITCHES[switch],
            skip_symbols=skip_symbols,
            vocab_pad=vocab_pad,
            verbose_header=verbose_header,
            progress=progress,
        )
    for name in source.unended:
        note(f"{name}: the last line has no newline; it is counted with its </s>, which KenLM's lmplz leaves out")
