"""The verb translate: generates a text for each line, with scores and alignments; compares texts with references."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.base.tables import count_of, printable
from chainrule.cli.shared.options import (
    BEAM_GROUP,
    FILE,
    FORMATS_READ,
    NO_FLAGS,
    Flags,
    Json,
    Needs,
    Overwrite,
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
from chainrule.cli.shared.screen import finite, note, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_read_once, note_repairs
from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError, TextError
from chainrule.features.seq2seq.options import LanguageOptions, TargetBeam, WriteOptions
from chainrule.features.seq2seq.shell_evaluate import target_beam

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.generation import GeneratedText
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Corpus

    Generate = Callable[[list[str], int], list[list[GeneratedText]]]  # lines, and the number of the first


def print_texts(number: int, texts: list[GeneratedText], nbest: int, *, alignments: bool, json: bool) -> None:
    """Prints what was written for a line. number: of the line, from 0."""
    if json:
        print_json({"line": number, "texts": [_as_json(text) for text in texts]})
        return
    if nbest > 1:
        for text in texts:
            print(f"{number} ||| {printable(text.text)} ||| log_prob= {text.log_prob:.4f} ||| {text.score:.4f}")
        if not texts:  # an empty line has one empty text, so that no list is missing
            print(f"{number} |||  ||| log_prob= 0.0000 ||| 0.0000")
        return
    line = printable(texts[0].text) if texts else ""
    print(f"{line}\t{_alignment(texts[0]) if texts else ''}" if alignments else line)


def _alignment(written: GeneratedText) -> str:
    if written.attention is None:
        return ""
    best = written.attention[: len(written.tokens), : len(written.source_tokens)].argmax(1)
    return " ".join(f"{target}-{source}" for target, source in enumerate(best.tolist()))


def _as_json(written: GeneratedText) -> dict[str, object]:
    attention = written.attention
    return {
        **{name: value for name, value in written._asdict().items() if name != "attention"},
        "attention": None if attention is None else [[round(float(x), 4) for x in row] for row in attention],
    }


class References:
    """The references of all lines, and the texts that were written for them. Lines with an empty side do not count."""

    def __init__(self, references: Corpus, source: Corpus | None, progress: Progress) -> None:
        """source: the source text, to check that it has as many lines; None where it can be read only once. Raises
        TextError.
        """
        self.name = ", ".join(references.sources)
        self.references = list(_lines(references, progress))
        self.written: list[str] = []
        self.measured: list[str] = []  # their references
        self.lines = 0
        if source is not None:
            self._check(sum(1 for _ in _lines(source, progress)))

    def add(self, texts: list[GeneratedText]) -> None:
        """Adds the texts that were written for the next line; none if the line was empty. Raises TextError."""
        if self.lines >= len(self.references):
            raise self._mismatch("more")
        reference = self.references[self.lines]
        self.lines += 1
        if texts and reference.strip():
            self.written.append(texts[0].text)
            self.measured.append(reference)

    def print_scores(self, *, json: bool) -> None:
        """Prints BLEU, chrF and the length ratio, to standard error, or as a last line of JSON. Raises TextError."""
        from chainrule.evaluation.texts.text_scores import measure_translations

        self._check(self.lines)
        left_out = self.lines - len(self.written)
        if left_out:
            note(f"{count_of(left_out, 'line')} not measured, since the source or the reference is empty")
        scores = measure_translations(self.written, self.measured)
        if json:
            figures: dict[str, Any] = {name: finite(value) for name, value in scores.to_dict().items()}
            print_json({"scores": figures | {"variants": {score.name: score.variant for score in scores.scores}}})
        else:
            sys.stdout.flush()
            print(f"\n{count_of(scores.texts, 'line')} measured against {self.name}\n{scores}", file=sys.stderr)

    def _check(self, lines: int) -> None:
        """Raises TextError unless there is a reference for each line."""
        if lines != len(self.references):
            raise self._mismatch(f"{lines:,}")

    def _mismatch(self, lines: str) -> TextError:
        own = count_of(len(self.references), "line")
        return TextError(f"{self.name}: has {own}, but the source has {lines}; expected a reference for each line")


def _lines(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for block in corpus.blocks(progress, "reading"):
        yield from block.documents()


_AT_ONCE = 1024  # lines, which are sorted by length


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
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.files.opening import load
    from chainrule.protocol import UNKNOWN

    given = WriteOptions(**given_settings(options)).given
    _check(search, sampling, nbest, alignments=alignments, is_sampled=sample, json=json)
    beam = None if sample else target_beam(search, nbest)
    if tree is not None and sample:
        raise CycloptsError(msg="--tree has no effect with --sample, which does not search.")
    names = texts or ("-",)
    check_read_once(*names, references)
    source = reading.corpus(*names, beside=[references])
    drawn = draw_seed(seed) if sample else 0
    if tree is not None:
        check_tree(tree, overwrite=overwrite)
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
            attends = alignments or (json and loaded.has_attention)

            def generate(lines: list[str], first: int) -> list[list[GeneratedText]]:
                return loaded.write(lines, beam, alignments=attends, **given)

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
                for written in _generated(generate, lines, number, partial(_place, block, first)):
                    print_texts(number, written, nbest, alignments=alignments, json=json)
                    if judged is not None:
                        judged.add(written)
                    number += 1
                sys.stdout.flush()
        for line in sources:
            loaded.beam_tree(line, beam, **given).save(cast("Path", tree), overwrite=overwrite)
    note_repairs(source)
    if shortened:
        note(f"{count_of(shortened, 'source')} longer than the model reads; see long_sources of chainrule info {model}")
    if unknown:
        note(f"the model does not know {count_of(unknown, 'token')} of the sources; each counts as <unk>")
    if sample and seed is None and config.temperature:
        note(f"--seed {drawn} gives these texts again")
    if judged is not None:
        judged.print_scores(json=json)


def _check(
    search: Flags[TargetBeam],
    sampling: SamplingFlags,
    nbest: int,
    *,
    alignments: bool,
    is_sampled: bool,
    json: bool,
) -> None:
    """Raises CycloptsError, SettingError."""
    if is_sampled:
        given = [*given_flags(search), *["alignments"] * alignments]
        refuse(given, "has no effect with --sample, which does not search")
    else:
        refuse_sampling(sampling, "needs --sample")
    if alignments and nbest > 1 and not json:
        raise SettingError("--alignments needs one text a line, or --json; leave out --nbest or add --json")
    if nbest < 1:
        raise SettingError(f"nbest is {nbest}; expected 1 or more")


def _check_single(sources: Sequence[str]) -> None:
    """Raises SettingError."""
    if len(sources) > 1:
        raise SettingError("a tree is that of one search, but there are several lines to translate; give one")


def _parts(block: Block) -> Iterator[tuple[int, list[str]]]:
    """The documents in parts, as many as are searched together; each part with the index of its first document in the
    block.
    """
    documents = block.documents()
    for first in range(0, len(documents), _AT_ONCE):
        yield first, documents[first : first + _AT_ONCE]


def _place(block: Block, first: int, i: int) -> str:
    return block.locate(first + i + 1)


def _generated(
    generate: Generate, lines: list[str], number: int, place: Callable[[int], str]
) -> Iterator[list[GeneratedText]]:
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
