"""Arguments that several verbs share, with their help."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_origin

from cyclopts import CycloptsError, Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token

    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.splitters import Normalisation


def file_or_dash(type_: Any, value: str | None) -> None:
    """A lone - is standard input; anything else with a leading hyphen is a misspelt option."""
    if value is not None and value.startswith("-") and value != "-":
        raise CycloptsError(msg=f"There is no option {value} (a file: ./{value}).")


def draw_seed(seed: int | None) -> int:
    """The seed that was given, or a random one that is short enough to be typed again."""
    return secrets.randbelow(10**6) if seed is None else seed


def _integers(type_: Any, tokens: Sequence[Token]) -> Any:
    """Whole numbers only: 5.5 is not 5."""
    is_several = get_origin(type_) is tuple
    numbers = []
    for token in tokens:
        try:
            numbers.append(int(token.value))
        except ValueError:
            advice = "; put texts before it" if is_several else ""
            message = f"{token.keyword or 'The value'} takes whole numbers, not {token.value}{advice}."
            raise CycloptsError(msg=message) from None
    return tuple(numbers) if is_several else numbers[0]


WholeNumber = Parameter(converter=_integers)


_FORMATS = (
    "with .gz, .zst, .xz and .bz2; .jsonl and .parquet, a record a document; folders of them; and - for standard input."
)
FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)
TextFiles = Annotated[str, FILE, Parameter(help=f"Text, a line a document: files, also {_FORMATS}", required=True)]
TextFile = Annotated[str, FILE, Parameter(help=f"Text, a line a document: a file, also {_FORMATS}")]
ModelPath = Annotated[
    Path, Parameter(help="A model: our folder or one of Hugging Face; an ARPA, KenLM binary, GGUF or llama2.c file.")
]
NetworkPath = Annotated[Path, Parameter(help="The model folder of a network.")]
Output = Annotated[Path, Parameter(name=("--output", "-o"), help="The folder to write to.")]
ModelOutput = Annotated[
    Path,
    Parameter(name=("--output", "-o"), help="A new model folder, or an ARPA file: .arpa, .arpa.gz, .zst, .xz or .bz2."),
]
Overwrite = Annotated[bool, Parameter(negative=(), help="Replace existing files.")]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON, for programs.")]
MarkerRule = Annotated[
    Literal["error", "skip", "keep"],
    Parameter(help="What to do about a literal <s>, </s> or <unk> in the text; keep counts <unk> as the unknown word."),
]
ModelTokenizerName = Annotated[
    str | None,
    Parameter(
        help="How to tokenize text for an ARPA file, which does not say: word, whitespace, character, byte, or the "
        "path of a tokenizer.json. A model folder has its tokenizer."
    ),
]
ModelMarkerRule = Annotated[
    Literal["error", "skip", "keep"] | None,
    Parameter(help="What to do about a literal <s>, </s> or <unk> in the text; by default as in training."),
]
Memory = Annotated[
    str | None,
    Parameter(
        help="The most memory to use, such as 4G. What needs more lies in temporary files (in TMPDIR); the result is "
        "the same. By default, what is free."
    ),
]
Seed = Annotated[
    int | None,
    WholeNumber,
    Parameter(help="The same seed gives the same texts. Without it, a random seed, which is printed."),
]
Normalise = Annotated[
    str | None, Parameter(help="Normalise all text first: nfc or nfkc, lower; or two with a comma: nfc,lower.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The tokenizer of a new model."""

    tokenizer: Annotated[
        str | None,
        Parameter(
            help="word (the default): words and punctuation; whitespace: as KenLM; character; byte; bpe, unigram, "
            "wordpiece: pieces learned from the text; or the path of a tokenizer.json or a model folder."
        ),
    ] = None
    normalise: Normalise = None
    vocabulary_size: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="At most this many tokens, markers included: the most frequent words, or pieces (8000 by default)."
        ),
    ] = None
    vocabulary_min_count: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Tokens seen less often become <unk>, in training too; by default 1, for word vectors 5."),
    ] = None
    vocabulary: Annotated[
        str | None, Parameter(help="A file with the vocabulary, one token a line, as the tokenizer writes them.")
    ] = None

    def config(self, default_min_count: int = 1) -> TokenizerConfig:
        """default_min_count: of a vocabulary from the text, if --vocabulary-min-count is not given.

        Raises SettingError.
        """
        from chainrule.text.tokenization.config import TokenizerConfig

        config = TokenizerConfig(
            kind=self.tokenizer or "word",
            normalise=normalisation_steps(self.normalise),
            vocabulary_size=self.vocabulary_size,
            min_count=1 if self.vocabulary_min_count is None else self.vocabulary_min_count,
            vocabulary=self.vocabulary,
        )
        takes_default = self.vocabulary_min_count is None and config.learns_words and self.vocabulary is None
        return replace(config, min_count=default_min_count) if takes_default else config


def normalisation_steps(normalise: str | None) -> tuple[Normalisation, ...]:
    """The steps that --normalise names; the tokenizer checks them."""
    return cast("tuple[Normalisation, ...]", tuple(normalise.split(","))) if normalise else ()


DEFAULT_TOKENIZER = TokenizerOptions()
