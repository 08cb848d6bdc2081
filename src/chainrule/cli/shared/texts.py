"""Options that say how to read texts, the same for every verb, and notes on what was read.

By default, records of a benchmark that cannot be read are skipped and reported, where each counts by itself: minimal
pairs, labelled texts that test a classifier. In data that a model is trained or tuned on, the first one is an error,
since the model would silently differ. --bad-records chooses otherwise. Lines of parallel texts are never skipped.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.options import Flags, Needs, WholeNumber, given_settings, refuse
from chainrule.cli.shared.screen import note, note_at_end
from chainrule.errors import SettingError
from chainrule.kinds import rows
from chainrule.text.corpus.bad_records import BadRecords
from chainrule.text.corpus.reading import UTF_8, BadRule, Reading, RecordOptions, document_in, is_utf_8, text_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.text.corpus.corpus import Corpus, ReadSource, Source


RecordFlags = Flags[RecordOptions]
RECORD_FLAGS = tuple(own.name for own in fields(RecordOptions))


@Parameter(name="*")
class TextOptions(Flags[Reading]):
    """How to read the texts of a verb."""

    @cached_property
    def bad(self) -> BadRecords:
        """The bad records of all texts that are read with these options; they are noted when the command has ended."""
        bad = BadRecords.of(self.reading)
        note_at_end(partial(note_skipped, bad))
        return bad

    def has_only(self, *names: str) -> bool:
        """Whether no other options are given."""
        return given_settings(self).keys() <= set(names)

    @property
    def of_document(self) -> str | None:
        """What is a document, if --document is given."""
        return given_settings(self).get("document")

    def with_document(self, document: str | None) -> TextOptions:
        """The same, of such documents."""
        return type(self)(**given_settings(self) | {"document": document})

    @property
    def reading(self) -> Reading:
        """Raises SettingError."""
        if self.of_document == "tree":
            raise SettingError("--document tree is not for this: it reads lines, files or records")
        return Reading(**given_settings(self))

    def source(self, *texts: str, beside: Iterable[str | None] = ()) -> ReadSource:
        """As `corpus`, or trees."""
        if self.of_document == "tree":
            check_read_once(*texts)
            given = given_settings(self)
            if is_utf_8(given.get("encoding", UTF_8)):
                given.pop("encoding", None)
            refuse(given.keys() - {"document"}, "is for lines, files and records; trees are in files of UTF-8")
            source: ReadSource = rows("documents")["tree"].get().of(texts)
            return source
        return self.corpus(*texts, beside=beside)

    def corpus(self, *texts: str, beside: Iterable[str | None] = ()) -> Corpus:
        """The texts. beside: other texts, if any, that the verb reads with the same options.

        Raises TextError, SettingError; CycloptsError where standard input is named twice, or where an option has no
        effect on any of the texts.
        """
        from chainrule.text.corpus.corpus import Corpus

        check_read_once(*texts)
        corpus = Corpus.of(texts, self.reading, self.bad)
        self.check_effect(texts, beside, corpus.paths)
        return corpus

    def check_effect(
        self, texts: Sequence[str], beside: Iterable[str | None] = (), files: Sequence[str] | None = None
    ) -> None:
        """Raises CycloptsError where an option has no effect on any text. files: those of the texts, if known."""
        given = given_settings(self)
        others = [name for name in beside if name is not None]
        names = list(dict.fromkeys([*texts, *others]))
        if "suffixes" in given and not any(map(os.path.isdir, names)):
            raise CycloptsError(msg=f"--suffixes chooses files of folders; found no folder: {', '.join(names)}.")
        files = [*(texts if files is None else files), *others]
        if not any(os.path.isdir(file) or self.reading.format_of(file) != "plain" for file in files):
            refuse(given.keys() & set(RECORD_FLAGS), f"is for records; found plain text alone: {', '.join(names)}")
        is_parquet = "-" not in names and all(text_suffix(file) == ".parquet" for file in files)
        if is_parquet and not is_utf_8(given.get("encoding", UTF_8)):
            raise CycloptsError(msg=f"--encoding has no effect on {', '.join(names)}: Parquet is always UTF-8.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MixOptions:
    """Several texts mixed into one."""

    mix: Annotated[
        tuple[str, ...],
        Parameter(
            help="Mix texts by their share of the bytes, in place of TEXTS: news.txt=0.3 books/=0.7. The scarcest text "
            "is used whole; documents of the others are sampled.",
            consume_multiple=True,
            negative=(),
        ),
    ] = ()
    mix_bytes: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="How many bytes to mix: texts too short for their share are repeated, which suits networks, but "
            "distorts the counts of n-grams. By default, as many as the scarcest text allows, and none is repeated."
        ),
        Needs("mix"),
    ] = None
    mix_seed: Annotated[int, WholeNumber, Parameter(help="The seed for sampling documents."), Needs("mix")] = 0

    @property
    def names(self) -> list[str]:
        """The names of the texts. Raises CycloptsError."""
        return [name for name, _ in with_shares("--mix", self.mix)]

    def source(self, texts: tuple[str, ...], reading: TextOptions, beside: Iterable[str | None] = ()) -> Source:
        """The texts, or the mix. beside: as for `TextOptions.corpus`.

        Raises TextError, SettingError; CycloptsError where there is neither or both, and as `TextOptions.corpus`.
        """
        if texts and self.mix:
            raise CycloptsError(msg="TEXTS and --mix are both given; name all texts in --mix, each with its share.")
        if texts:
            return reading.source(*texts, beside=beside)
        if not self.mix:
            raise CycloptsError(msg="TEXTS is missing; put it before options that take several words.")
        from chainrule.text.corpus.mix import Mix

        reading.check_effect(self.names, beside)
        return Mix.of(
            dict(with_shares("--mix", self.mix)),
            seed=self.mix_seed,
            size=self.mix_bytes,
            reading=reading.reading,
            bad=reading.bad,
        )


def text_for(
    models: Sequence[Path], reading: TextOptions, *texts: str, beside: Iterable[str | None] = ()
) -> ReadSource:
    """Texts for models to read: without --document, a document is what it was in their training, with a note.

    Where models disagree, the options decide, also with a note. beside: as for `TextOptions.corpus`. Raises as that;
    ModelFormatError.
    """
    from chainrule.text.corpus.corpus import read_as

    records = {str(model): _record(model) for model in models}
    are_of_trees = any((record.get("reading") or {}).get("document") == "tree" for record in records.values())
    if reading.of_document == "tree" or (are_of_trees and reading.of_document is None):
        return reading.with_document("tree").source(*texts)
    by_options = reading.corpus(*texts, beside=beside)
    known = {name: read_as(by_options, document_in(record)) for name, record in records.items() if "reading" in record}
    if len({corpus.documents for corpus in known.values()}) > 1:
        trained = ", ".join(f"{_document_kinds(corpus)} in the training of {name}" for name, corpus in known.items())
        note(f"a document was {trained}; here it is {_document_kinds(by_options)}; --document changes that")
        return by_options
    name, corpus = next(iter(known.items()), ("", by_options))
    if corpus.documents != by_options.documents:
        note(f"a document is {_document_kinds(corpus)}, as in the training of {name}; --document changes that")
    return corpus


def _record(model: Path) -> dict[str, Any]:
    """The record of a model's training; empty for a file, and for a Hugging Face model."""
    from chainrule.storage.config_json import read_config
    from chainrule.storage.hugging_face import is_hugging_face
    from chainrule.storage.sources import local_path

    folder = local_path(model)
    return read_config(folder).record if folder.is_dir() and not is_hugging_face(folder) else {}


def _document_kinds(corpus: Corpus) -> str:
    """What its documents are, in words."""
    return " or ".join({"line": "a line", "file": "a whole file", "record": "a record"}[d] for d in corpus.documents)


DEFAULT_READING = TextOptions()
NO_MIX = MixOptions()


def check_read_once(*texts: str | None) -> None:
    """Raises CycloptsError where standard input is named twice: it cannot be read again."""
    if texts.count("-") > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once.")


def note_repairs(*sources: Source) -> None:
    """Notes, after reading, in how many places texts were not UTF-8, and which tables in folders were not read."""
    from chainrule.text.corpus.corpus import Corpus, unread_tables

    repaired = {name: places for source in sources for name, places in source.record.get("repaired", {}).items()}
    for name, places in repaired.items():
        note(f"{name}: not UTF-8 in {count_of(places, 'place')}, replaced or skipped as you asked")
    for source in sources:
        for name, tables in unread_tables(source).items() if isinstance(source, Corpus) else ():
            note(f"{name}: {count_of(tables, '.csv file')} not read; --suffixes .txt .csv reads such files of folders")


def with_shares(option: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Parses NAME=SHARE. Raises CycloptsError, also where a file is named twice."""
    from chainrule.base.files import describe_duplicate

    pairs = [(name, share) for name, _, share in (value.rpartition("=") for value in values)]
    for value, (name, share) in zip(values, pairs, strict=True):
        if not name or not share:
            raise CycloptsError(msg=f"{option} takes names with their shares, such as news.txt=0.3, not {value}.")
    twice = describe_duplicate([name for name, _ in pairs])
    if twice is not None:
        raise CycloptsError(msg=f"{option} names {twice}.")
    return pairs


def note_lost_fields(source: Source, *outputs: str | os.PathLike[str]) -> None:
    """Notes, after writing, that only the text of records was written. outputs: files, which may hold whole records."""
    from chainrule.text.corpus.corpus import Corpus
    from chainrule.text.corpus.writing import writes_records

    if not isinstance(source, Corpus) or not source.has_records:
        return
    if not outputs or not all(writes_records(Path(name), records=True) for name in outputs):
        note(f"only the field {source.reading.text_field} of the records was written; other fields were left out")


def note_mix(source: Source) -> None:
    """Notes, after reading, how much of each text a mix has."""
    for text in source.record.get("mix", {}).get("texts", []):
        names, drawn, total = ", ".join(text["sources"]), text["documents"], text["of_documents"]
        times = text["bytes"] / max(text["of_bytes"], 1)
        how_often = f", read {times:.1f} times" if drawn > total else ""
        note(
            f"{names}: {drawn:,} of {total:,} documents, {text['bytes']:,} bytes, a share of {text['share']}{how_often}"
        )


def check_text_target(path: Path, source: ReadSource | None, *, overwrite: bool) -> None:
    """Checks, before the work, that a file may be written. source: the text to read. Raises OutputError."""
    from chainrule.base.files import check_new_file

    check_new_file(path, overwrite=overwrite, inputs=[] if source is None else source.paths)


def note_skipped(bad: BadRecords) -> None:
    """Notes what is wrong with the records that were skipped."""
    from chainrule.cli.shared.wrong_usage import with_flags

    for message in bad.notes():
        note(with_flags(message))


@contextmanager
def bad_records(flags: Any, default: BadRule, *inputs: str | os.PathLike[str]) -> Iterator[BadRecords]:
    """A callback for bad records, which are noted, and written to their file, at the end. flags: may have those of
    RecordOptions. default: where they do not say it. inputs: files, which that file must not replace.

    Raises SettingError, OutputError.
    """
    from chainrule.cli.shared.results import check_table

    given = given_settings(flags)
    options = RecordOptions(**{name: given[name] for name in RECORD_FLAGS if name in given})
    out = options.bad_records_out
    check_table(None if out is None else Path(out), *inputs, overwrite=True)
    with BadRecords.of(options, default) as bad:
        yield bad
    note_skipped(bad)
    if bad.count and not given.keys() & set(RECORD_FLAGS):
        note("--bad-records stop stops at the first, --bad-records-out FILE.jsonl keeps them")


def both_fields(field: str | None) -> tuple[str, str] | None:
    """The fields of both sides of pairs, if they are given. Raises CycloptsError."""
    if field is None:
        return None
    first, comma, second = field.partition(",")
    if not comma or not first or not second:
        raise CycloptsError(
            msg=f"--field is {field}; of pairs, name both columns, with a comma between: premise,hypothesis."
        )
    return first, second
