"""Options and arguments that verbs share, and flags derived from configurations.

Each field of a configuration is a flag, with the field's own help, so that each setting is described only once, for the
library and all verbs. The options for generating texts are in groups, as the help shows them.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from cyclopts import CycloptsError, Group, Parameter, convert

from chainrule.base.options import hints_of, is_rare, own_fields_first
from chainrule.decoding.config import BeamConfig, Limits, SamplingConfig
from chainrule.models.config import GenerateOptions
from chainrule.models.run_options import MemoryOptions, RunOptions, TokenOptions, VectorOptions
from chainrule.text.numbers import is_number, whole_number_of
from chainrule.text.tokenization.config import TokenizerConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import DataclassInstance
    from cyclopts import Token


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
            numbers.append(whole_number_of(token.value))
        except ValueError:
            has_commas = "," in token.value
            advice = "; put spaces between them" if has_commas else "; put texts before it" if is_several else ""
            message = f"{token.keyword or 'The value'} takes whole numbers, not {token.value}{advice}."
            raise CycloptsError(msg=message) from None
    return tuple(numbers) if is_several else numbers[0]


def _numbers(type_: Any, tokens: Sequence[Token]) -> Any:
    """As cyclopts reads them, but 1_0 is no number."""
    for token in tokens:
        if "_" in token.value and is_number(token.value.replace("_", "")):
            raise CycloptsError(msg=f"{token.keyword or 'The value'} takes numbers, not {token.value}.")
    return convert(type_, tokens)


WholeNumber = Parameter(converter=_integers)
Number = Parameter(converter=_numbers)


@dataclass(frozen=True)
class Needs:
    """A mark of a parameter that cannot be given without another one, perhaps of one value: Needs("by model"); or
    without one of several: Needs("output|plot").
    """

    name: str


@dataclass(frozen=True)
class MayBeEmpty:
    """A mark of an option of several values that means something without any."""


FORMATS_READ = (
    "with .gz, .zst, .xz and .bz2; .jsonl, .parquet and .csv, a record a document; folders of .txt, .jsonl and "
    ".parquet; and - for standard input."
)
FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)
TextFiles = Annotated[str, FILE, Parameter(help=f"Text, a line a document: files, also {FORMATS_READ}", required=True)]
TextFile = Annotated[str, FILE, Parameter(help=f"Text, a line a document: a file, also {FORMATS_READ}")]
ModelPath = Annotated[
    Path, Parameter(help="A model: our folder or one of Hugging Face; an ARPA, KenLM binary, GGUF or llama2.c file.")
]
FurtherModels = Annotated[
    tuple[Path, ...],
    Parameter(
        negative=(),
        consume_multiple=True,
        help="Further models; each has columns with the name of its folder.",
        show_default=False,
    ),
]
NetworkPath = Annotated[Path, Parameter(help="A network: our folder or one of Hugging Face; a GGUF or llama2.c file.")]


def as_output(type_: Any, tokens: Sequence[Token]) -> Path:
    """A path, which a slash at its end makes that of a folder."""
    value = tokens[0].value
    if not value.endswith("/"):
        return Path(value)
    from chainrule.base.files import FolderPath

    return FolderPath(value)


Output = Annotated[Path, Parameter(name=("--output", "-o"), converter=as_output, help="The folder to write to.")]
ModelOutput = Annotated[
    Path,
    Parameter(
        name=("--output", "-o"),
        converter=as_output,
        help="A new model folder, or an ARPA file: .arpa, .arpa.gz, .zst, .xz or .bz2.",
    ),
]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON, for programs.")]
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
TreeFile = Annotated[
    Path | None,
    Parameter(
        help="Write the tree of the beam search, with the path of greedy search: a picture, .svg; a page with a slider "
        "through the steps, .html; or .json."
    ),
]


def check_tree(tree: Path, *, overwrite: bool) -> None:
    """Checks, before the search, that its tree may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    check_new_file(tree, overwrite=overwrite)
    if tree.suffix.lower() not in (".json", ".svg", ".html"):
        raise CycloptsError(msg=f"--tree {tree}: its name must end in .json, .svg or .html.")


def refuse_sampling(flags: SamplingFlags, why: str = "has no effect with --beam, which does not sample") -> None:
    """Raises CycloptsError where an option of sampling was given. why: after its name."""
    refuse(given_flags(flags), why)


def refuse(given: Iterable[str], why: str) -> None:
    """Raises CycloptsError for the first of the options given, by the names of their parameters, if any."""
    for name in given:
        raise CycloptsError(msg=f"--{name.replace('_', '-')} {why}.")


FIELD_FLAGS = {"output": "--output-layer"}  # fields whose name is that of another flag


def flags_of(config: type[DataclassInstance], prefix: str = "") -> Any:
    """A class of flags for cyclopts: the fields of a configuration, each with its help, all omitted by default.

    prefix: of the flags, without their dashes.
    """
    hints = hints_of(config)
    flags = []
    for setting in own_fields_first(config):
        if is_rare(setting) or setting.metadata.get("flag") is None:
            continue
        kind = _kind_of(setting, hints[setting.name])
        assert kind is not Any, f"{config.__name__}.{setting.name}: import its type where the class is, or set `reads`"
        is_several = get_origin(kind) is tuple
        default = setting.default if setting.metadata["shown"] and setting.default is not MISSING else None
        shown = Parameter(show_default=False if default in (None, ()) or is_several else partial(_shown, default))
        marks: list[Parameter | Needs] = [Parameter.combine(_parameter(setting, kind, prefix), shown)]
        if needs := setting.metadata["needs"]:
            marks.append(Needs(needs))
        optional = kind if is_several else kind | None
        own = field(default=() if is_several else None, metadata=setting.metadata)
        flags.append((setting.name, Annotated[optional, *marks], own))
    name = config.__name__.removesuffix("Config") + "Flags"
    flag_class = make_dataclass(name, flags, frozen=True, kw_only=True)
    flag_class.__module__ = __name__
    return Parameter(name="*")(flag_class)


def flag(config: type[DataclassInstance], name: str) -> Parameter:
    """What cyclopts must know of one option, for a parameter that has its type: its flag, its help, how it is read.

    good:  resume: Annotated[bool, flag(RunOptions, "resume")] = False
    """
    [setting] = [setting for setting in fields(config) if setting.name == name]
    return _parameter(setting, _kind_of(setting, hints_of(config)[name]))


def _kind_of(setting: Field[Any], hint: Any) -> Any:
    """The type of a flag."""
    reads = setting.metadata["reads"]
    return str if reads == "file" else reads or hint


def _parameter(setting: Field[Any], kind: Any, prefix: str = "") -> Parameter:
    name, is_several = setting.metadata["flag"], get_origin(kind) is tuple
    parameter = Parameter(
        name=f"--{prefix}{name or setting.name.replace('_', '-')}" if prefix or name else FIELD_FLAGS.get(setting.name),
        help=_sentence(setting.metadata["help"]),
        consume_multiple=is_several or None,
        negative=() if is_several or setting.metadata["is_switch"] else None,
        allow_leading_hyphen=setting.metadata["hyphens"],
    )
    if setting.metadata["reads"] == "file":
        return Parameter.combine(parameter, FILE)
    kinds = (kind, *get_args(kind))
    if float in kinds:
        return Parameter.combine(parameter, Number)
    return Parameter.combine(parameter, WholeNumber) if int in kinds else parameter


def flags_of_any(configs: Sequence[type[DataclassInstance]], prefix: str = "", without: Sequence[str] = ()) -> Any:
    """As `flags_of`, for several configurations of which one will be chosen: the fields of all, each once.

    without: fields that are no flags.
    A default is shown where it is the same in all that have the field; a choice is one of the values of all.
    """
    every: dict[str, tuple[str, Any, Any]] = {}
    defaults: dict[str, set[Any]] = {}
    for config in configs:
        hints = hints_of(config)
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
    """The settings that were given on the command line, as values of their fields."""
    values = {}
    for setting in () if flags is NO_FLAGS else fields(flags):
        if (value := getattr(flags, setting.name)) not in (None, ()):
            parse = setting.metadata["parse"]
            values[setting.name] = value if parse is None else parse(value)
    return values


def given_flags(flags: Any) -> list[str]:
    """The names of the flags that were given."""
    given = given_settings(flags)
    return (
        [setting.metadata["flag"] or setting.name for setting in fields(flags) if setting.name in given]
        if given
        else []
    )


_VALUE = re.compile(r"\S*\d |\S+( \(.*?\))?:")  # at the start of a help text: 2, or word (the default):


def _sentence(text: str) -> str:
    """A help text as a sentence; a value at its start keeps its case."""
    return f"{text if _VALUE.match(text) else text[0].upper() + text[1:]}."


def _shown(default: Any, _: object) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default).replace("\n", r"\n")


if TYPE_CHECKING:
    Config = TypeVar("Config")

    class Flags(Generic[Config]):
        """The flags of a configuration; of several, A | B, as `flags_of_any`. All are optional."""

        def __init__(self, **settings: Any) -> None: ...
else:

    class Flags:
        def __class_getitem__(cls, config: Any) -> Any:
            return _flags_of(config)


@cache
def _flags_of(config: Any) -> Any:
    return flags_of(config) if isinstance(config, type) else flags_of_any(get_args(config))


class _NoFlags(dict[str, Any]):
    """The default of flags: none is given. A dict, which pydantic, by which cyclopts checks defaults, takes for any."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # it stays empty


NO_FLAGS: Any = _NoFlags()


def with_defaults(config: type[DataclassInstance], flags: Any, **settings: Any) -> Any:
    """The flags of a configuration, with these settings where none is given."""
    given = {} if flags is NO_FLAGS else {own.name: getattr(flags, own.name) for own in fields(flags)}
    return _flags_of(config)(**settings | {name: value for name, value in given.items() if value not in (None, ())})


# Flags of options that several verbs have.
Resume = Annotated[bool, flag(RunOptions, "resume")]
WRITTEN = "output|target|into|plot|page|quiz|tree|paragraph|times|nbest_out|weights_out|tune"  # files of verbs
Overwrite = Annotated[bool, flag(RunOptions, "overwrite"), Needs(WRITTEN)]
MarkerRule = Annotated[Literal["error", "skip", "keep"], flag(TokenOptions, "markers")]
Memory = Annotated[str | None, flag(MemoryOptions, "memory")]
Seed = Annotated[int | None, flag(GenerateOptions, "seed")]
Draft = Annotated[str | None, flag(GenerateOptions, "draft")]
Normalise = Annotated[str | None, flag(TokenizerConfig, "normalise")]
VectorFlags = Flags[VectorOptions]
TokenizerFlags = Flags[TokenizerConfig]


def tokenizer_of(flags: TokenizerFlags, default_min_count: int = 1) -> TokenizerConfig:
    """default_min_count: of a vocabulary from the text, if --vocabulary-min-count is not given. Raises SettingError."""
    given = given_settings(flags)
    config = TokenizerConfig(**given)
    takes_default = "min_count" not in given and config.learns_words and config.vocabulary is None
    return replace(config, min_count=default_min_count) if takes_default else config


BEAM_GROUP = Group("Beam search", sort_key=3)
LimitFlags = Annotated[Flags[Limits], Parameter(group=Group("Limits", sort_key=1))]
SamplingFlags = Annotated[Flags[SamplingConfig], Parameter(group=Group("Sampling", sort_key=2))]
BeamFlags = Annotated[Flags[BeamConfig], Parameter(group=BEAM_GROUP)]


def beam_config(flags: BeamFlags, best: int) -> BeamConfig | None:
    """None without --beam. Raises SettingError; CycloptsError if another option needs a beam."""
    given = given_settings(flags)
    if "size" not in given:
        refuse(given, "needs --beam")
        return None
    return BeamConfig(best=best, **given)
