"""The options that say how texts are read: the same for every verb that takes some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import WholeNumber
from chainrule.cli.screen import note
from chainrule.errors import OutputError
from chainrule.text.reading import SUFFIXES, Document, EncodingErrors, Reading, document_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.text.corpus import Corpus, Source


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How the texts of a verb are read."""

    document: Annotated[
        Document | None,
        Parameter(
            help="By default a record of .jsonl, .ndjson and .parquet files, and a line of others. record: what is "
            "not Parquet is JSON lines, standard input too; line: also the lines of a record's text."
        ),
    ] = None
    field: Annotated[str, Parameter(help="The field of a record, or the column, that holds its text.")] = "text"
    encoding_errors: Annotated[
        EncodingErrors,
        Parameter(help="What a byte that is not UTF-8 does: an error, U+FFFD in its place, or nothing in its place."),
    ] = "strict"
    suffixes: Annotated[
        tuple[str, ...],
        Parameter(
            help=f"The names that are taken from folders, also compressed; by default {' '.join(SUFFIXES)}. "
            "Texts stand before it.",
            show_default=False,
            consume_multiple=True,
            negative=(),
        ),
    ] = SUFFIXES

    @property
    def reading(self) -> Reading:
        """Raises SettingError."""
        return Reading(
            document=self.document,
            field=self.field,
            encoding_errors=self.encoding_errors,
            suffixes=tuple(self.suffixes),
        )

    def corpus(self, *texts: str) -> Corpus:
        """Raises TextError, SettingError; CycloptsError where standard input is named twice."""
        from chainrule.text.corpus import Corpus

        check_read_once(*texts)
        return Corpus.of(texts, self.reading)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MixOptions:
    """Several texts as one."""

    mix: Annotated[
        tuple[str, ...],
        Parameter(
            help="Texts with their shares of the bytes to train on, for texts without: news.txt=0.3 books/=0.7. The "
            "scarcest is taken whole; documents of the others are drawn.",
            consume_multiple=True,
            negative=(),
        ),
    ] = ()
    mix_seed: Annotated[int, WholeNumber, Parameter(help="Another seed draws other documents.")] = 0

    def source(self, texts: tuple[str, ...], reading: TextOptions) -> Source:
        """The texts, or the mix. Raises TextError, SettingError; CycloptsError where there is neither or both."""
        if texts and self.mix:
            raise CycloptsError(msg="TEXTS and --mix are both given; texts that are mixed need a share each.")
        if texts:
            return reading.corpus(*texts)
        if not self.mix:
            raise CycloptsError(msg="TEXTS is missing; it stands before options that take several words.")
        from chainrule.text.mix import Mix

        return Mix.of(dict(with_shares("--mix", self.mix)), seed=self.mix_seed, reading=reading.reading)


def text_for(models: Sequence[Path], reading: TextOptions, *texts: str) -> Corpus:
    """Texts that models are to read: without --document, a document is what it was in their training, with a note.

    Where they do not agree in that, it is what it is for a model that does not say. Raises as `TextOptions.corpus`;
    ModelFormatError.
    """
    from chainrule.text.corpus import read_as

    usual = reading.corpus(*texts)
    records = {str(model): _record(model) for model in models}
    known = {name: read_as(usual, document_in(record)) for name, record in records.items() if "reading" in record}
    if len({corpus.documents for corpus in known.values()}) > 1:
        trained = ", ".join(f"{_named(corpus)} in the training of {name}" for name, corpus in known.items())
        note(f"a document was {trained}; here it is {_named(usual)}, unless you say --document")
        return usual
    name, corpus = next(iter(known.items()), ("", usual))
    if corpus.documents != usual.documents:
        note(f"a document is {_named(corpus)}, as in the training of {name}; say --document for another reading")
    return corpus


def _record(model: Path) -> dict[str, Any]:
    """How a model came about; empty where it is no folder."""
    from chainrule.storage.config_json import read_config

    return read_config(model).record if model.is_dir() else {}


def _named(corpus: Corpus) -> str:
    """What its documents are, in words."""
    return " or ".join({"line": "a line", "file": "a whole file", "record": "a record"}[d] for d in corpus.documents)


AS_USUAL = TextOptions()
NOT_MIXED = MixOptions()


def check_read_once(*texts: str | None) -> None:
    """Raises CycloptsError where standard input is named twice: its second reading would find nothing."""
    if texts.count("-") > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once.")


def note_repairs(*sources: Source) -> None:
    """Says, after their reading, in how many places they were not UTF-8."""
    repaired = {name: places for source in sources for name, places in source.record.get("repaired", {}).items()}
    for name, places in repaired.items():
        note(f"{name}: not UTF-8 in {places:,} place{'s' * (places != 1)}, replaced or left out as you said")


def with_shares(option: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names and their shares, from NAME=SHARE. Raises CycloptsError, also where a file is named twice."""
    from chainrule.base.files import describe_duplicate

    pairs = [(name, share) for name, _, share in (value.rpartition("=") for value in values)]
    for value, (name, share) in zip(values, pairs, strict=True):
        if not name or not share:
            raise CycloptsError(msg=f"{option} takes names with their shares, such as news.txt=0.3, not {value}.")
    twice = describe_duplicate([name for name, _ in pairs])
    if twice is not None:
        raise CycloptsError(msg=f"{option} names {twice}.")
    return pairs


def note_lost_fields(source: Corpus) -> None:
    """Says, after the writing, that of records only the text was taken."""
    if any(source.reading.format_of(file) != "plain" for files in source.files for file in files):
        note(f"of the records only {source.reading.field} is written; other fields that they have are left out")


def note_mix(source: Source) -> None:
    """Says, after its reading, what was taken of each text of a mix."""
    for text in source.record.get("mix", {}).get("texts", []):
        names, taken, of = ", ".join(text["sources"]), text["documents"], text["of_documents"]
        note(f"{names}: {taken:,} of {of:,} documents, {text['bytes']:,} bytes, a share of {text['share']}")


def check_text_target(path: Path, source: Corpus | None, *, overwrite: bool) -> None:
    """Asked before the work: whether a file may be written there. source: what is to be read. Raises OutputError."""
    from chainrule.base.files import check_writable

    if path.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file")
    if path.exists():
        files = [] if source is None else [file for files in source.files for file in files if file != "-"]
        if any(path.samefile(file) for file in files):
            raise OutputError(f"{path}: is what is to be read; choose another name")
        if not overwrite:
            raise OutputError(f"{path}: exists already; say --overwrite to replace it, or choose another name")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent} to write it in; make it first")
    check_writable(path.parent)
