"""The verb translate: generates a text for each line, with scores and alignments; compares texts with references."""

from __future__ import annotations

import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.base.tables import count_of
from chainrule.cli.shared.options import (
    BEAM_GROUP,
    FILE,
    FORMATS_READ,
    NO_FLAGS,
    Flags,
    Needs,
    SamplingFlags,
    Seed,
    TreeFile,
    WholeNumber,
    check_tree,
    draw_seed,
    given_flags,
    given_settings,
    refuse,
    refuse_sampling,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_read_once, note_repairs
from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError
from chainrule.features.seq2seq.options import LanguageOptions, TargetBeam, WriteOptions
from chainrule.features.seq2seq.shell_evaluate import target_beam

if TYPE_CHECKING:
    from chainrule.features.seq2seq.generation import GeneratedText

SourceFiles = Annotated[
    str, FILE, Parameter(help="Source texts, a line a document: files, also " + FORMATS_READ + " By default, -.")
]


def translate(
    model: Annotated[
        Path, Parameter(help="A model folder that train seq2seq wrote, or a Marian, T5 or BART of others.")
    ],
    /,
    *texts: SourceFiles,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="Print this many texts for each line, as Moses does: line ||| text ||| score.")
    ] = 1,
    references: Annotated[
        str | None, Parameter(help="The right texts, a line for each line: BLEU and chrF are printed at the end.")
    ] = None,
    languages: Flags[LanguageOptions] = NO_FLAGS,
    options: Flags[WriteOptions] = NO_FLAGS,
    sample: Annotated[bool, Parameter(negative=(), help="Sample texts, instead of searching for likely ones.")] = False,
    seed: Annotated[Seed, Needs("sample")] = None,
    sampling: SamplingFlags = NO_FLAGS,
    search: Annotated[Flags[TargetBeam], Parameter(group=BEAM_GROUP)] = NO_FLAGS,
    alignments: Annotated[
        bool,
        Parameter(
            group=BEAM_GROUP,
            negative=(),
            help="Print, after a tab, the source token that each token attended to most: target-source, from 0.",
        ),
    ] = False,
    tree: TreeFile = None,
    reading: TextOptions = DEFAULT_READING,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Generate texts from source texts: translations, summaries, corrections.

        $ chainrule translate mt/ test.de

    Prints a line for each line read, in order; an empty line gives an empty
    line. With --json, each text with its tokens, scores and attention over the
    source's tokens and, last, its end. --references prints BLEU, chrF and the
    length ratio with their intervals: to standard error, or as a last line of
    JSON; of several texts of a line, the first is measured.
    """
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.features.seq2seq.translate import References, Translations, scores_as_json, shown_texts
    from chainrule.models.files.opening import load

    given = WriteOptions(**given_settings(options)).given
    _check(search, sampling, nbest, alignments=alignments, is_sampled=sample, in_rows=show.in_rows)
    beam = None if sample else target_beam(search, nbest)
    if tree is not None and sample:
        raise CycloptsError(msg="--tree has no effect with --sample, which does not search.")
    names = texts or ("-",)
    check_read_once(*names, references)
    source = reading.corpus(*names, beside=[references])
    show.check(*source.paths)
    drawn = draw_seed(seed) if sample else 0
    if tree is not None:
        check_tree(tree, overwrite=show.overwrite)
    with progress_bar() as progress:
        judged = None
        if references is not None:
            judged = References(
                reading.corpus(references, beside=names),
                None if "-" in names else reading.corpus(*names, beside=[references]),
                progress,
            )
        chosen = LanguageOptions(**given_settings(languages))
        loaded = load(model, Seq2SeqModel, progress=progress).with_languages(
            chosen.source_language, chosen.target_language
        )
        if loaded.needs_language:
            raise SettingError(f"{model}: writes several languages; choose one with --target-language")
        loaded.generator.constraints(given.get("begin", ""), given.get("max_tokens"))  # wrong ones are no line's fault
        if sample:
            config = SamplingConfig(**given_settings(sampling))

            def generate(lines: list[str], first: int) -> list[list[GeneratedText]]:
                return loaded.sample(lines, nbest, config, seed=drawn, first=first, **given)
        else:
            attends = alignments or (show.in_rows and loaded.has_attention)

            def generate(lines: list[str], first: int) -> list[list[GeneratedText]]:
                return loaded.write(lines, beam, alignments=attends, **given)

        shown = silent if sys.stdout.isatty() else progress
        written = Translations(loaded, source, generate, shown, is_single=tree is not None)
        with_references = written if judged is None else judged.beside(written)
        show.show_all(map(partial(shown_texts, nbest=nbest, alignments=alignments), count(), with_references))
        for line in written.sources:
            loaded.beam_tree(line, beam, **given).save(cast("Path", tree), overwrite=show.overwrite)
    note_repairs(source)
    for message in written.notes():
        note(message)
    if sample and seed is None and config.temperature:
        note(f"--seed {drawn} gives these texts again")
    if judged is not None:
        scores = judged.scores()
        if judged.left_out:
            note(f"{count_of(judged.left_out, 'line')} not measured, since the source or the reference is empty")
        if show.json:
            print_json(scores_as_json(scores))
        else:
            print(f"\n{count_of(scores.texts, 'line')} measured against {judged.name}\n{scores}", file=sys.stderr)


def _check(
    search: Flags[TargetBeam],
    sampling: SamplingFlags,
    nbest: int,
    *,
    alignments: bool,
    is_sampled: bool,
    in_rows: bool,
) -> None:
    """Raise CycloptsError or SettingError where options contradict each other."""
    if is_sampled:
        given = [*given_flags(search), *["alignments"] * alignments]
        refuse(given, "has no effect with --sample, which does not search")
    else:
        refuse_sampling(sampling, "needs --sample")
    if alignments and nbest > 1 and not in_rows:
        raise SettingError("--alignments needs one text a line, or --json; leave out --nbest or add --json")
    if nbest < 1:
        raise SettingError(f"nbest is {nbest}; expected 1 or more")
