"""Arguments that several verbs share, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter


def _file_or_dash(type_: Any, value: Any) -> None:
    """A lone - is standard input; anything else with a leading hyphen is a misspelt option."""
    for name in [value] if isinstance(value, str) else value:
        if name.startswith("-") and name != "-":
            raise CycloptsError(msg=f"There is no option {name}.")


TextFile = Annotated[
    str,
    Parameter(
        help="Text files, a line a document; .gz, .bz2 and .xz are read too, and - is standard input.",
        allow_leading_hyphen=True,
        validator=_file_or_dash,
    ),
]
ModelPath = Annotated[Path, Parameter(help="A model folder, or an ARPA file.")]
Output = Annotated[Path, Parameter(name=("--output", "-o"), help="Where to write.")]
Overwrite = Annotated[bool, Parameter(negative=(), help="Replace what is there.")]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON for programs, not text for people.")]
TokenizerName = Annotated[
    Literal["word", "whitespace", "character"],
    Parameter(help="word: words and punctuation; whitespace: as KenLM; character: code points."),
]
MarkerRule = Annotated[
    Literal["error", "skip", "keep"],
    Parameter(help="What a literal <s>, </s> or <unk> in the text does; keep counts <unk> as the unknown word."),
]
ModelMarkerRule = Annotated[
    Literal["error", "skip", "keep"] | None,
    Parameter(help="What a literal <s>, </s> or <unk> in the text does; by default as in training."),
]
Seed = Annotated[int | None, Parameter(help="The same seed gives the same texts; without one, it is drawn and told.")]
