"""How files are read as documents: the settings, and what a file's name says about it. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

Document = Literal["line", "file", "record"]
EncodingErrors = Literal["strict", "replace", "skip"]
Format = Literal["plain", "json", "parquet"]

DOCUMENTS: tuple[Document, ...] = ("line", "file", "record")
ENCODING_ERRORS: tuple[EncodingErrors, ...] = ("strict", "replace", "skip")
COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2")
FORMATS: dict[str, Format] = {".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
SUFFIXES = (".txt", *FORMATS)  # of the files that are taken from a folder, compressed or not


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What of a file is a document, and what happens where it is not UTF-8.

    document: a line, a whole file, or a record: an object of JSON lines or a row of Parquet. By default a record of
    .jsonl, .ndjson and .parquet files and a line of all others. Said outright, `record` reads standard input and files
    of other suffixes as JSON lines, and `line` cuts the text of a record into its lines. field: the record's text.
    encoding_errors: a byte that is not UTF-8 is an error, becomes U+FFFD, or is left out. suffixes: of the files that
    are taken from folders, whether compressed or not. Raises SettingError.
    """

    document: Document | None = None
    field: str = "text"
    encoding_errors: EncodingErrors = "strict"
    suffixes: tuple[str, ...] = SUFFIXES

    def __post_init__(self) -> None:
        if self.document not in (None, *DOCUMENTS):
            raise SettingError(f"document is {self.document!r}; choose one of {', '.join(DOCUMENTS)}")
        if self.encoding_errors not in ENCODING_ERRORS:
            known = ", ".join(ENCODING_ERRORS)
            raise SettingError(f"there is no rule for encoding errors called {self.encoding_errors!r}; choose {known}")
        if not self.field:
            raise SettingError("field is empty; name the field of the records that holds their text")
        bad = next((suffix for suffix in self.suffixes if not suffix.startswith(".") or len(suffix) < 2), None)
        if bad is not None or not self.suffixes:
            raise SettingError(f"suffixes: found {bad or 'none'}, expected suffixes with their dot, such as .txt")

    def format_of(self, name: str) -> Format:
        """How a file of this name is read. Raises SettingError if a document cannot be what was asked for."""
        by_name = FORMATS.get(text_suffix(name), "plain")
        if self.document == "file" and by_name != "plain":
            raise SettingError(
                f"{name}: holds records, and document='file' is for plain text; "
                "a document can be a record of it, or a line of a record"
            )
        return "json" if self.document == "record" and by_name == "plain" else by_name

    def document_of(self, name: str) -> Document:
        """What of a file of this name is a document."""
        return self.document or ("record" if text_suffix(name) in FORMATS else "line")

    def takes(self, name: str) -> bool:
        """Whether a file of this name is taken from a folder."""
        return text_suffix(name) in self.suffixes and not PurePath(name).name.startswith(".")


def document_in(*records: Mapping[str, Any]) -> Document | None:
    """What a document was, by the records of texts or of models.

    None where those that tell how they read do not agree, or files' names decided, or none tells.
    """
    readings = [record["reading"] for record in records if isinstance(record.get("reading"), dict)]
    documents = {reading.get("document") for reading in readings}
    document = documents.pop() if len(documents) == 1 else None
    return document if document in DOCUMENTS else None


def may_hold(name: str, document: Document | None) -> bool:
    """Whether a file of this name can be read as such documents: .txt holds no records, .jsonl nothing else."""
    if document == "file":
        return text_suffix(name) not in FORMATS
    return document != "record" or text_suffix(name) != ".txt"


def text_suffix(name: str) -> str:
    """A name's suffix in lower case, that of a compression taken away: .txt of a.TXT.gz."""
    path = PurePath(name.lower())
    return path.with_suffix("").suffix if path.suffix in COMPRESSIONS else path.suffix


def compression_suffix(name: str) -> str:
    """The suffix of a name that says how the file is compressed; empty where it is not."""
    suffix = PurePath(name.lower()).suffix
    return suffix if suffix in COMPRESSIONS else ""
