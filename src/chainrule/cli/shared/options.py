"""Options and arguments that verbs share, and flags derived from configurations.

Each field of a configuration is a flag, with the field's own help, so that each setting is described only once, for the
library and all verbs. The options for generating texts are in groups, as the help shows them.
"""

from __future__ import annotations

import secrets
from dataclasses import MISSING, asdict, dataclass, field, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from cyclopts import CycloptsError, Group, Parameter

from chainrule.base.options import is_rare, own_fields_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import DataclassInstance
    from cyclopts import Token

    from chainrule.decoding.config import BeamConfig, SamplingConfig
    from chainrule.decoding.limits import Limits
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

_LIMITS = Group("Limits", sort_key=1)
_SAMPLING = Group("Sampling", sort_key=2)
_BEAM = Group("Beam search", sort_key=3)
_TEXTS = Parameter(consume_multiple=True, negative=(), show_default=False)


@Parameter(name="*", group=_LIMITS)
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """What texts may contain, and where they end."""

    max_tokens: Annotated[int, WholeNumber, Parameter(help="Cut a text after this many tokens.")] = 100
    min_tokens: Annotated[int, WholeNumber, Parameter(help="No text ends before this many tokens.")] = 0
    begin: Annotated[
        str,
        Parameter(help="What every text begins with after the prompt; included in scores.", allow_leading_hyphen=True),
    ] = ""
    stop: Annotated[tuple[str, ...], _TEXTS, Parameter(help="End a text before any of these strings.")] = ()
    allow: Annotated[tuple[str, ...], _TEXTS, Parameter(help="Generate only these words.")] = ()
    ban: Annotated[tuple[str, ...], _TEXTS, Parameter(help="Never generate these words.")] = ()
    no_repeat: Annotated[
        int, WholeNumber, Parameter(help="Never repeat an n-gram of this many tokens; 0: allow it.")
    ] = 0
    unknown: Annotated[
        Literal["banned", "spelled"],
        Parameter(help="Never generate unknown words, or spell them out with the model's speller."),
    ] = "banned"

    def limits(self) -> Limits:
        """Raises SettingError."""
        from chainrule.decoding.limits import Limits

        return Limits(
            max_tokens=self.max_tokens,
            min_tokens=self.min_tokens,
            begin=self.begin,
            stop=self.stop,
            allowed=self.allow or None,
            banned=self.ban,
            no_repeat=self.no_repeat,
            unknown=self.unknown,
        )


@Parameter(name="*", group=_SAMPLING)
@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How tokens are sampled. None: the default of SamplingConfig."""

    temperature: Annotated[
        float | None, Parameter(help="Below 1 sharper, above 1 flatter; 0 picks the likeliest token. By default 1.")
    ] = None
    top_k: Annotated[int | None, WholeNumber, Parameter(help="Sample from this many likeliest tokens.")] = None
    top_p: Annotated[
        float | None, Parameter(help="Sample from the smallest set of likeliest tokens with this total probability.")
    ] = None
    min_p: Annotated[
        float | None, Parameter(help="Sample from tokens with at least this share of the likeliest one's probability.")
    ] = None
    typical: Annotated[
        float | None, Parameter(help="Sample from the most typical tokens with this total probability.")
    ] = None
    repetition_penalty: Annotated[
        float | None, Parameter(help="Multiply the log-probability of tokens that occurred before. By default 1.")
    ] = None

    def config(self) -> SamplingConfig:
        """Raises SettingError."""
        from chainrule.decoding.config import SamplingConfig

        return SamplingConfig(**_given(self))


@Parameter(name="*", group=_BEAM)
@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """How beam search works. None: the default of BeamConfig."""

    beam: Annotated[
        int | None, WholeNumber, Parameter(help="Search for the likeliest texts, with this many hypotheses at a time.")
    ] = None
    rank_by: Annotated[
        Literal["total", "mean", "wu"] | None,
        Parameter(help="Rank texts by log-probability, its mean over the tokens, or the rule of Wu et al. 2016."),
    ] = None
    alpha: Annotated[float | None, Parameter(help="The exponent in the rule of Wu et al. By default 0.6.")] = None
    groups: Annotated[
        int | None, WholeNumber, Parameter(help="Divide the beam into groups that avoid each other's tokens.")
    ] = None
    diversity: Annotated[
        float | None, Parameter(help="The penalty, in nats, for a token that another group took. By default 0.5.")
    ] = None
    must_end: Annotated[bool | None, Parameter(negative=(), help="Only return texts that end with </s>.")] = None

    def config(self, best: int) -> BeamConfig | None:
        """None without --beam. Raises SettingError; CycloptsError if another option needs a beam."""
        from chainrule.decoding.config import BeamConfig

        given = _given(self)
        if self.beam is None:
            refuse(given, "needs --beam")
            return None
        size = given.pop("beam")
        if self.rank_by != "wu":
            refuse({name: value for name, value in given.items() if name == "alpha"}, "needs --rank-by wu")
        if self.groups is None:
            refuse({name: value for name, value in given.items() if name == "diversity"}, "needs --groups")
        return BeamConfig(size=size, best=best, **given)


TreeFile = Annotated[
    Path | None,
    Parameter(
        help="Write everything the beam considered, and the way of greedy search: a picture, .svg; a page with a "
        "slider through the steps, .html; or .json."
    ),
]


def check_tree(tree: Path, *, overwrite: bool) -> None:
    """Checks, before the search, that its tree may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    check_new_file(tree, overwrite=overwrite)
    if tree.suffix.lower() not in (".json", ".svg", ".html"):
        raise CycloptsError(msg=f"--tree {tree}: its name must end in .json, .svg or .html.")


def refuse_sampling(options: SamplingOptions, why: str = "has no effect with --beam, which does not sample") -> None:
    """Raises CycloptsError where an option of sampling was given. why: the message after the option's name."""
    refuse(_given(options), why)


def refuse(given: Iterable[str], why: str) -> None:
    """Raises CycloptsError for the first of the options given, by the names of their parameters, if any."""
    for name in given:
        raise CycloptsError(msg=f"--{name.replace('_', '-')} {why}.")


def _given(options: SamplingOptions | BeamOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None}


_FLAGS = {"output": "--output-layer"}  # fields whose name is that of another flag


def flags_of(config: type[DataclassInstance], prefix: str = "") -> Any:
    """A class of flags for cyclopts: the fields of a configuration, each with its help, all omitted by default.

    prefix: of the flags, without their dashes.
    """
    hints = get_type_hints(config)
    flags = []
    for setting in own_fields_first(config):
        if is_rare(setting):
            continue
        default = None if setting.default is MISSING else setting.default
        kind = hints[setting.name]
        is_several = get_origin(kind) is tuple
        parameter = Parameter(
            name=f"--{prefix}{setting.name.replace('_', '-')}" if prefix else _FLAGS.get(setting.name),
            help=_sentence(setting.metadata["help"]),
            show_default=False if default is None or is_several else partial(_shown, default),
            consume_multiple=is_several or None,
            negative=() if is_several else None,
        )
        is_whole = int in (kind, *get_args(kind)) and float not in get_args(kind)
        marks = (parameter, WholeNumber) if is_whole else (parameter,)
        optional = kind if is_several else kind | None
        flags.append((setting.name, Annotated[optional, *marks], field(default=() if is_several else None)))
    name = config.__name__.removesuffix("Config") + "Flags"
    flag_class = make_dataclass(name, flags, frozen=True, kw_only=True)
    flag_class.__module__ = __name__
    return Parameter(name="*")(flag_class)


def flags_of_any(configs: Sequence[type[DataclassInstance]], prefix: str = "", without: Sequence[str] = ()) -> Any:
    """As `flags_of`, for several configurations of which one will be chosen: the fields of all, each once.

    without: fields that are no flags.
    A default is shown where it is the same in all that have the field; a choice is one of the values of all.
    """
    every: dict[str, tuple[str, Any, Any]] = {}
    defaults: dict[str, set[Any]] = {}
    for config in configs:
        hints = get_type_hints(config)
        for own in own_fields_first(config):
            if own.name in without:
                continue
            defaults.setdefault(own.name, set()).add(own.default)
            shared = own.default if len(defaults[own.name]) == 1 else None
            _, kind, known = every.get(own.name, (own.name, hints[own.name], own))
            metadata = dict(known.metadata)
            if kind != hints[own.name] and str(get_origin(kind)) == "typing.Literal":
                kind = Literal[(*get_args(kind), *get_args(hints[own.name]))]  # which drops what is twice
                if own.metadata["help"] not in metadata["help"]:
                    metadata["help"] = f"{metadata['help']}; {own.metadata['help']}"
            every[own.name] = (own.name, kind, field(default=shared, metadata=metadata))
    return flags_of(make_dataclass("AnyConfig", every.values(), kw_only=True), prefix)


def given_settings(flags: Any) -> dict[str, Any]:
    """The settings that were given on the command line."""
    values = {setting.name: getattr(flags, setting.name) for setting in fields(flags)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _sentence(text: str) -> str:
    """A help text as a sentence; a value at its start keeps its case."""
    return f"{text if ':' in text.split(' ')[0] else text[0].upper() + text[1:]}."


def _shown(default: Any, _: object) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)
