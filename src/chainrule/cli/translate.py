"""chainrule translate MODEL [TEXT]: generates a text for each line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from cyclopts import CycloptsError, Group, Parameter

from chainrule.base.progress import silent
from chainrule.cli.shared.arguments import Json, Overwrite, Seed, TextFile, WholeNumber, draw_seed
from chainrule.cli.shared.decoding_options import SamplingOptions, TreeFile, check_tree, refuse, refuse_sampling
from chainrule.cli.shared.screen import count_of, note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_read_once, note_repairs
from chainrule.cli.translation_output import References, print_texts
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.api.seq2seq.generation import Written
    from chainrule.decoding.config import BeamConfig
    from chainrule.text.corpus.block import Block

    Generate = Callable[[list[str], int], list[list[Written]]]  # lines, and the number of the first

_AT_ONCE = 1024  # lines, which are sorted by length
_BEAM = Group("Beam search", sort_key=3)


@Parameter(name="*", group=_BEAM)
@dataclass(frozen=True, kw_only=True)
class _SearchOptions:
    beam: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="How many hypotheses to keep; 1 picks the likeliest token. By default 5, or --nbest if more."),
    ] = None
    rank_by: Annotated[
        Literal["total", "mean", "wu"] | None,
        Parameter(
            help="Rank texts by log-probability, its mean over the tokens (the default), or the rule of Wu et al. 2016."
        ),
    ] = None
    alpha: Annotated[float | None, Parameter(help="The exponent in the rule of Wu et al. By default 0.6.")] = None
    alignments: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Print, after a tab, the source token that each token attended to most: target-source, from 0.",
        ),
    ] = False

    @property
    def given(self) -> list[str]:
        """The options that were given, by name."""
        return [name for name in ("beam", "rank_by", "alpha", "alignments") if getattr(self, name) not in (None, False)]

    def config(self, nbest: int) -> BeamConfig:
        """Raises SettingError."""
        from chainrule.decoding.config import BeamConfig

        return BeamConfig(
            size=max(5, nbest) if self.beam is None else self.beam,
            best=nbest,
            rank_by=self.rank_by or "mean",
            alpha=0.6 if self.alpha is None else self.alpha,
            stop="likely",
        )


def translate(
    model: Annotated[Path, Parameter(help="A model folder that train translation wrote, or a Marian or T5 of others.")],
    text: TextFile = "-",
    /,
    *,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="Print this many texts for each line, as Moses does: line ||| text ||| score.")
    ] = 1,
    references: Annotated[
        str | None, Parameter(help="The right texts, a line for each line: BLEU and chrF are printed at the end.")
    ] = None,
    begin: Annotated[
        str, Parameter(help="What every text begins with; included in scores.", allow_leading_hyphen=True)
    ] = "",
    max_tokens: Annotated[
        int | None, WholeNumber, Parameter(help="The longest text, in tokens; by default twice the source's plus 20.")
    ] = None,
    sample: Annotated[bool, Parameter(negative=(), help="Sample texts, instead of searching for likely ones.")] = False,
    seed: Seed = None,
    sampling: SamplingOptions = SamplingOptions(),  # noqa: B008
    search: _SearchOptions = _SearchOptions(),
    tree: TreeFile = None,
    overwrite: Overwrite = False,
    reading: TextOptions = DEFAULT_READING,
    json: Json = False,
) -> None:
    """Generate texts from source texts: translations, summaries, corrections.

        $ chainrule translate mt/ test.de

    Prints a line for each line read, in order; an empty line gives an empty
    line. With --json, each text with its tokens, scores and attention over the
    source's tokens and, last, its end. --references prints BLEU, chrF and the
    length ratio with their intervals: to standard error, or as a last line of
    JSON; of several texts of a line, the first is measured.
    """
    from chainrule.api.seq2seq.seq2seq_model import load_pairs
    from chainrule.protocol import UNKNOWN

    _check(search, sampling, nbest, max_tokens, is_sampled=sample, has_seed=seed is not None, json=json)
    if tree is not None and sample:
        raise CycloptsError(msg="--tree has no effect with --sample, which does not search.")
    check_read_once(text, references)
    source = reading.corpus(text)
    drawn = draw_seed(seed) if sample else 0
    if tree is not None:
        check_tree(tree, overwrite=overwrite)
    with progress_bar() as progress:
        judged = None
        if references is not None:
            judged = References(reading.corpus(references), None if text == "-" else reading.corpus(text), progress)
        loaded = load_pairs(model, progress=progress)
        loaded.generator.constraints(begin, max_tokens)  # wrong ones are no line's fault
        if sample:
            config = sampling.config()

            def generate(lines: list[str], first: int) -> list[list[Written]]:
                return loaded.sample(lines, nbest, config, seed=drawn, first=first, begin=begin, max_tokens=max_tokens)
        else:
            beam, alignments = search.config(nbest), search.alignments or (json and loaded.has_attention)

            def generate(lines: list[str], first: int) -> list[list[Written]]:
                return loaded.write(lines, beam, begin=begin, alignments=alignments, max_tokens=max_tokens)

        shown = silent if sys.stdout.isatty() else progress
        number = unknown = shortened = 0
        sources: list[str] = []  # for the tree
        for block in source.blocks_as_they_come(shown, "translating"):
            for first, lines in _parts(block):
                if tree is not None:
                    sources += [line for line in lines if line.strip()]
                    _check_single(sources)
                read = loaded.generator.shorten(lines)
                shortened += read.shortened
                unknown += sum(int((ids == UNKNOWN).sum()) for ids in read.rows)
                for texts in _generated(generate, lines, number, partial(_place, block, first)):
                    print_texts(number, texts, nbest, alignments=search.alignments, json=json)
                    if judged is not None:
                        judged.add(texts)
                    number += 1
                sys.stdout.flush()
        for line in sources:
            loaded.beam_tree(line, search.config(nbest), begin=begin, max_tokens=max_tokens).save(
                cast("Path", tree), overwrite=overwrite
            )
    note_repairs(source)
    if shortened:
        note(f"{count_of(shortened, 'source')} longer than the model reads; see long_sources of chainrule info {model}")
    if unknown:
        note(f"the model does not know {count_of(unknown, 'token')} of the sources; each counts as <unk>")
    if sample and seed is None:
        note(f"--seed {drawn} gives these texts again")
    if judged is not None:
        judged.print_scores(json=json)


def _check(
    search: _SearchOptions,
    sampling: SamplingOptions,
    nbest: int,
    max_tokens: int | None,
    *,
    is_sampled: bool,
    has_seed: bool,
    json: bool,
) -> None:
    """Raises CycloptsError, SettingError."""
    if is_sampled:
        refuse(search.given, "has no effect with --sample, which does not search")
    else:
        refuse_sampling(sampling, "needs --sample")
        refuse(["seed"] if has_seed else [], "needs --sample")
    if search.alpha is not None and search.rank_by != "wu":
        raise CycloptsError(msg="--alpha needs --rank-by wu.")
    if search.alignments and nbest > 1 and not json:
        raise SettingError("--alignments needs one text a line, or --json; leave out --nbest or add --json")
    if nbest < 1:
        raise SettingError(f"nbest is {nbest}; expected 1 or more")
    if max_tokens is not None and max_tokens < 1:
        raise SettingError(f"max_tokens is {max_tokens}; expected 1 or more")


def _check_single(sources: Sequence[str]) -> None:
    """Raises SettingError."""
    if len(sources) > 1:
        raise SettingError("a tree is that of one search, but there are several lines to translate; give one")


def _parts(block: Block) -> Iterator[tuple[int, list[str]]]:
    """The documents, as many at once as are sorted by length, each time with the number of the first in the block."""
    documents = block.documents()
    for first in range(0, len(documents), _AT_ONCE):
        yield first, documents[first : first + _AT_ONCE]


def _place(block: Block, first: int, i: int) -> str:
    return block.locate(first + i + 1)


def _generated(
    generate: Generate, lines: list[str], number: int, place: Callable[[int], str]
) -> Iterator[list[Written]]:
    """Generates the texts of each line. Raises SettingError, which names the line, after yielding those before it.

    number: of the first line among all. place: of the line with an index, for messages.
    """
    try:
        yield from generate(lines, number)
    except SettingError:
        for i, line in enumerate(lines):
            try:
                [texts] = generate([line], number + i)
            except SettingError as error:
                raise SettingError(f"{place(i)}: {error}") from error
            yield texts
