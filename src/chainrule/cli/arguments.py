"""Arguments that several verbs share, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

from cyclopts import CycloptsError, Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token


def _file_or_dash(type_: Any, value: str | None) -> None:
    """A lone - is standard input; anything else with a leading hyphen is a misspelt option."""
    if value is not None and value.startswith("-") and value != "-":
        raise CycloptsError(msg=f"There is no option {value} (a file: ./{value}).")


def _integers(type_: Any, tokens: Sequence[Token]) -> Any:
    """Whole numbers only: 5.5 is not 5."""
    numbers = []
    for token in tokens:
        try:
            numbers.append(int(token.value))
        except ValueError:
            raise CycloptsError(msg=f"{token.keyword or 'The value'} takes whole numbers, not {token.value}.") from None
    return tuple(numbers) if get_origin(type_) is tuple else numbers[0]


WholeNumber = Parameter(converter=_integers)


_READ = (
    "with .gz, .zst, .xz and .bz2; .jsonl and .parquet, a record a document; folders of them; and - for standard input."
)
_FILE = Parameter(allow_leading_hyphen=True, validator=_file_or_dash)
TextFiles = Annotated[str, _FILE, Parameter(help=f"Text, a line a document: files, also {_READ}", required=True)]
TextFile = Annotated[str, _FILE, Parameter(help=f"Text, a line a document: a file, also {_READ}")]
ModelPath = Annotated[Path, Parameter(help="A model folder, or an ARPA file.")]
Output = Annotated[Path, Parameter(name=("--output", "-o"), help="The folder to write to.")]
ModelOutput = Annotated[
    Path, Parameter(name=("--output", "-o"), help="A new model folder, or an ARPA file: .arpa, .arpa.gz, .bz2 or .xz.")
]
Overwrite = Annotated[bool, Parameter(negative=(), help="Replace what is there.")]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON for programs, not text for people.")]
TokenizerName = Annotated[
    Literal["word", "whitespace", "character", "byte"],
    Parameter(help="word: words and punctuation; whitespace: as KenLM; character: code points; byte: bytes."),
]
MarkerRule = Annotated[
    Literal["error", "skip", "keep"],
    Parameter(help="What a literal <s>, </s> or <unk> in the text does; keep counts <unk> as the unknown word."),
]
ModelTokenizerName = Annotated[
    Literal["word", "whitespace", "character", "byte"] | None,
    Parameter(help="How text is cut for an ARPA file, which does not say; a model folder knows."),
]
ModelMarkerRule = Annotated[
    Literal["error", "skip", "keep"] | None,
    Parameter(help="What a literal <s>, </s> or <unk> in the text does; by default as in training."),
]
Seed = Annotated[
    int | None, WholeNumber, Parameter(help="The same seed gives the same texts; without one, it is drawn and told.")
]
