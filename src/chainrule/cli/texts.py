"""The options that say how texts are read: the same for every verb that takes some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.screen import note
from chainrule.text.reading import SUFFIXES, Document, EncodingErrors, Reading

if TYPE_CHECKING:
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
            help="The names that are taken from folders, whether compressed or not. Texts stand before it.",
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


AS_USUAL = TextOptions()


def check_read_once(*texts: str | None) -> None:
    """Raises CycloptsError where standard input is named twice: its second reading would find nothing."""
    if texts.count("-") > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once.")


def note_repairs(*sources: Source) -> None:
    """Says, after their reading, in how many places they were not UTF-8."""
    for source in sources:
        for name, places in source.record.get("repaired", {}).items():
            note(f"{name}: {places:,} place{'s' * (places != 1)} were not UTF-8 and were replaced or left out")


def with_shares(option: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names and their shares, from NAME=SHARE. Raises CycloptsError, also where a name stands twice."""
    pairs = [(name, share) for name, _, share in (value.rpartition("=") for value in values)]
    for value, (name, share) in zip(values, pairs, strict=True):
        if not name or not share:
            raise CycloptsError(msg=f"{option} takes names with their shares, such as news.txt=0.3, not {value}.")
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CycloptsError(msg=f"{option} names {twice} twice.")
    return pairs
