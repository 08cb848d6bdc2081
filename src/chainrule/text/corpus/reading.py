"""Settings of how files are read as documents, and what file names say about formats. Reads nothing."""

from __future__ import annotations

import codecs
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

Document = Literal["line", "file", "record"]
EncodingErrors = Literal["strict", "replace", "skip"]
Format = Literal["plain", "json", "parquet", "table"]
BadRule = Literal["stop", "skip"]

DOCUMENTS: tuple[Document, ...] = ("line", "file", "record")
ENCODING_ERRORS: tuple[EncodingErrors, ...] = ("strict", "replace", "skip")
COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2")
FORMATS: dict[str, Format] = {".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".csv": "table"}
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")  # the formats of tables that are written
# Of the files read from a folder, compressed or not: a table beside texts often describes them.
SUFFIXES = (".txt", ".jsonl", ".ndjson", ".parquet")
UTF_8 = "utf-8"
_SHOWN = 8  # fields named in a message, at most
TEXT_FIELD = "text"  # of a record, where no other is named


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    """What becomes of records that cannot be read: the first one stops the reading, or all are skipped, and counted.

    bad_records_out: a table, which is replaced: where each skipped record is, what is wrong with it, and the record.
    Raises SettingError.
    """

    bad_records: BadRule | None = option(
        None,
        "what to do about a record that cannot be read: stop, the default for texts and what is learned from; or skip "
        "it, with a note, the default for minimal pairs and tests",
        reads=BadRule,
    )
    bad_records_out: str | None = option(
        None, "write skipped records to this file, with what is wrong: .jsonl, .csv, .tsv or .parquet"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bad_records_out is None:
            return
        if self.bad_records == "stop":
            raise SettingError("bad_records_out is for skipped records; set bad_records='skip', too")
        if text_suffix(self.bad_records_out) not in TABLES:
            raise SettingError(
                f"bad_records_out is {self.bad_records_out!r}; the name of a table ends in {', '.join(TABLES)}"
            )


@dataclass(frozen=True, kw_only=True)
class Reading(RecordOptions):
    """How files are read.

    document: a line, a whole file, or a record: an object of JSON lines, or a row of Parquet or CSV. By default, a
    record in .jsonl, .ndjson, .parquet and .csv files, and a line in all others. If set, `record` reads .tsv files as
    tables, and standard input and files with other suffixes as JSON lines; `line` splits the text of a record into
    lines.
    field: the field or column with the text of a record, text by default. If set, files and standard input are read as
    by document `record`, whatever their suffix; with document `line`, the text of each record is split into lines.
    encoding: of the bytes, by a name that Python knows, such as latin-1 or utf-16; Parquet is always UTF-8.
    encoding_errors: a byte that is not UTF-8 raises an error (strict), becomes U+FFFD (replace), or is removed (skip).
    suffixes: those of the files to read from folders, compressed or not.
    bad_records, bad_records_out: as in `RecordOptions`; by default, a bad record stops the reading.
    Raises SettingError if a value is unknown.
    """

    document: Document | None = option(
        None,
        "what is a document. By default a record of .jsonl, .ndjson, .parquet and .csv files, and a line of others. "
        "record: read .tsv as a table, standard input and other files as JSON lines; line: split the text of records "
        "into lines; tree: a tree in brackets, CoNLL-U (.conllu) or JSON lines, as a text of brackets",
        reads=Literal["line", "file", "record", "tree"],
    )
    field: str | None = option(
        None,
        "the field of a record, or the column of a table, with the text: text by default. If set, .tsv is read as a "
        "table, standard input and other files as JSON lines",
    )
    encoding: str = option(
        UTF_8, "the encoding of the text, by a name that Python knows, such as latin-1, cp1252 or utf-16"
    )
    encoding_errors: EncodingErrors = option(
        "strict", "what to do about bytes that are not in the encoding: fail, replace them by U+FFFD, or skip them"
    )
    suffixes: tuple[str, ...] = option(
        SUFFIXES,
        f"which files of a folder to read, also compressed; by default {' '.join(SUFFIXES)}. Put texts before it",
    )

    def __post_init__(self) -> None:
        if self.document not in (None, *DOCUMENTS):
            raise SettingError(f"document is {self.document!r}; choose one of {', '.join(DOCUMENTS)}")
        if self.encoding_errors not in ENCODING_ERRORS:
            known = ", ".join(ENCODING_ERRORS)
            raise SettingError(f"there is no rule for encoding errors called {self.encoding_errors!r}; choose {known}")
        super().__post_init__()
        check_encoding(self.encoding)
        if self.field == "":
            raise SettingError("field is empty; name the field of the records that holds their text")
        if self.field is not None and self.document == "file":
            raise SettingError("field is for records, and document='file' for plain text; leave one of them out")
        bad = next((suffix for suffix in self.suffixes if not suffix.startswith(".") or len(suffix) < 2), None)
        if bad is not None or not self.suffixes:
            raise SettingError(f"suffixes: found {bad or 'none'}, expected suffixes with their dot, such as .txt")

    def format_of(self, name: str) -> Format:
        """Return the format of a file with this name. Raises SettingError if it cannot have such documents."""
        by_name = FORMATS.get(text_suffix(name), "plain")
        if self.document == "file" and by_name != "plain":
            raise SettingError(
                f"{name}: holds records, and document='file' is for plain text; "
                "a document can be a record of it, or a line of a record"
            )
        if (self.document == "record" or self.field is not None) and by_name == "plain":
            return "table" if text_suffix(name) == ".tsv" else "json"
        return by_name

    @property
    def text_field(self) -> str:
        """The field or column with the text of a record."""
        return TEXT_FIELD if self.field is None else self.field

    @property
    def record(self) -> dict[str, Any]:
        """The settings, for the record of a model: without an encoding, if it is UTF-8."""
        settings = asdict(self) | {"field": self.text_field}
        del settings["bad_records_out"]
        if self.bad_records != "skip":
            del settings["bad_records"]
        if is_utf_8(self.encoding):
            del settings["encoding"]
        return settings

    def document_of(self, name: str) -> Document:
        """Return the kind of document in a file with this name."""
        return self.document or ("record" if self.field is not None or text_suffix(name) in FORMATS else "line")

    def takes(self, name: str) -> bool:
        """Return whether a file with this name is read from a folder."""
        return text_suffix(name) in self.suffixes and not PurePath(name).name.startswith(".")


def check_encoding(name: str) -> None:
    """Raise SettingError unless this is the name of an encoding of text."""
    try:
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise SettingError(
            f"encoding is {name!r}; expected the name of one that Python knows, such as utf-8, latin-1, cp1252, utf-16 "
            "or shift_jis"
        ) from None


def is_utf_8(encoding: str) -> bool:
    """Return whether this is a name of UTF-8, such as utf8."""
    return codecs.lookup(encoding).name == UTF_8


def document_in(*records: Mapping[str, Any]) -> Document | None:
    """Return the kind of document, from the records of some texts or models.

    None if records disagree, or file names decided, or no record has it.
    """
    readings = [record["reading"] for record in records if isinstance(record.get("reading"), dict)]
    documents = {reading.get("document") for reading in readings}
    document = documents.pop() if len(documents) == 1 else None
    return document if document in DOCUMENTS else None


def may_hold(name: str, document: Document | None) -> bool:
    """Return whether a file with this name can have such documents: .txt has no records, and .jsonl has only
    records.
    """
    if document == "file":
        return text_suffix(name) not in FORMATS
    return document != "record" or text_suffix(name) != ".txt"


def text_suffix(name: str) -> str:
    """Return a name's suffix in lower case, without that of a compression: .txt for a.TXT.gz."""
    path = PurePath(name.lower())
    return path.with_suffix("").suffix if path.suffix in COMPRESSIONS else path.suffix


def compression_suffix(name: str) -> str:
    """Return the suffix of a compressed file's name; empty for other files."""
    suffix = PurePath(name.lower()).suffix
    return suffix if suffix in COMPRESSIONS else ""


def suggest_fields(names: Any, options: str = "Reading(field=...)") -> str:
    """Names the fields that exist, for a message that one is missing. options: the settings that choose fields."""
    shown = [repr(name) for name in list(names)[:_SHOWN]]
    more = ", ..." if len(names) > _SHOWN else ""
    which = f"; choose one with {options}" if options else ""
    return f"there are {', '.join(shown)}{more}{which}" if shown else "the record is empty"
