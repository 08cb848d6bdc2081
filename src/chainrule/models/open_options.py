"""OpenOptions: how models are opened, and how they read texts then."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from chainrule.base.options import Options, option
from chainrule.errors import SettingError
from chainrule.models.files.origin import id_of_name
from chainrule.models.progress_line import ProgressOption  # noqa: TC001  # its hint is read
from chainrule.text.tokenization.config import TokenizerConfig, as_config
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Markers  # its hint is read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.neural.network import Network
    from chainrule.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class OpenOptions(Options):
    """How a model is opened. Raises SettingError.

    Where an option of the last seven is not given, an environment variable counts, such as CHAINRULE_WINDOW_STRIDE; the
    flags of the same names set it for every command.
    """

    tokenizer: TokenizerConfig | str | os.PathLike[str] | None = option(
        None, "the tokenizer of a file that does not name one, such as ARPA; subwords need the path of a tokenizer.json"
    )
    markers: Markers | None = option(None, "the rule for literal <s>, </s> and <unk>; by default the model's own")
    copy: bool = option(False, "whether to read a folder's numbers into memory, not to map them from the file")
    allow_pickle: bool = option(False, "whether to open weights that are pickles; only where you trust their maker")
    exact: bool | None = option(
        None, "whether weights that a file has in blocks of few bits are computed with in float32"
    )
    alone: bool | None = option(
        None,
        "whether a network scores each text in a pass of its own: the same to the last bit, whatever is beside it",
    )
    window_stride: int | None = option(
        None, "how many tokens apart the windows begin in which texts longer than the context are scored", least=1
    )
    cache_bits: int | None = option(None, "8: a Transformer keeps keys and values in eight bits, not in 32", least=8)
    bos: str | None = option(None, "the token that a network reads before each text, such as <|endoftext|>")
    float64_layers: int | None = option(
        None, "how many of the first layers of a Transformer compute in float64 where whole texts are scored", least=1
    )
    revision: str | None = option(None, "the branch, tag or commit of a model that is named as hf:owner/name")
    file: str | None = option(None, "its file to open: a name, a pattern such as *Q4_K_M.gguf, or a part, Q4_K_M")
    progress: ProgressOption = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache_bits not in (None, 8):
            raise SettingError(f"cache_bits is {self.cache_bits}; expected 8, or nothing for 32")

    @property
    def tokenizer_config(self) -> TokenizerConfig | None:
        """The tokenizer that is asked for. Raises SettingError."""
        return None if self.tokenizer is None else as_config(cast("TokenizerConfig | str", self.tokenizer))

    @property
    def is_exact(self) -> bool:
        return _is_on("exact") if self.exact is None else self.exact

    @property
    def is_alone(self) -> bool | None:
        return (_is_on("alone") or None) if self.alone is None else self.alone

    def check_taken(self, taken: frozenset[str] | None, kind: str) -> None:
        """Raise SettingError where an option is given that a kind of models does not take. taken: None for all."""
        given = [] if taken is None else [name for name in self.given if name not in taken and getattr(self, name)]
        if given:
            raise SettingError(f"{kind} takes no {' and no '.join(given)}; leave it out")


def _said(name: str) -> str:
    """Return what the environment says of an option; nothing where it says nothing."""
    return os.environ.get(f"CHAINRULE_{name.upper()}", "")


def _is_on(name: str) -> bool:
    return _said(name) not in ("", "0")


def _count(name: str, given: int | None) -> int | None:
    """Return a count as given, else as the environment says. Raises SettingError."""
    said = _said(name)
    if given is not None or not said:
        return given
    if not said.isdecimal() or int(said) < 1:
        raise SettingError(f"CHAINRULE_{name.upper()} is {said!r}; expected a whole number of 1 or more")
    return int(said)


def _cache_bits(given: int | None) -> int | None:
    """Return the bits as given, else as the environment says. Raises SettingError."""
    if given is None and (said := _said("cache_bits")) not in ("", "8"):
        raise SettingError(f"CHAINRULE_CACHE_BITS is {said!r}; expected 8, or nothing for 32")
    return 8 if given or _said("cache_bits") else None


# What a network has to have for an option, and what to say of a model that has it not.
_NEEDS = {
    "window_stride": ("windows", "does not read texts in windows"),
    "bos": ("beginning", "does not read each text from a beginning token"),
    "cache_bits": ("cache", "keeps no keys and values of tokens"),
    "float64_layers": ("blocks", "is no Transformer, and has none in it"),
}


def parts_of(engine: Any) -> Sequence[Any]:
    """Return the models that a mixture is made of; of others, none."""
    return getattr(getattr(engine, "components", engine), "models", ())


def networks_of(engine: Any) -> Iterator[Network]:
    """Yield the networks in a model that have ways of reading: its own, and those of its parts."""
    for part in parts_of(engine):
        yield from networks_of(part)
    network: Any = getattr(engine, "network", None)
    if hasattr(network, "capabilities"):
        yield network


def capabilities_of(engine: Any) -> frozenset[str]:
    """Return what the networks in a model have: windows, a cache, blocks, a beginning."""
    return frozenset().union(*(network.capabilities for network in networks_of(engine)))


def without_effect(engine: Any) -> dict[str, str]:
    """Return the options that the environment sets and a model has no use for, each with the reason in words."""
    known = capabilities_of(engine)
    return {name: why for name, (needed, why) in _NEEDS.items() if _said(name) and needed not in known}


def set_reading(engine: Any, tokenizer: Tokenizer, record: dict[str, Any], options: OpenOptions) -> None:
    """Say to the networks of a model, given by its parts, how they read texts. Raises SettingError."""
    known = capabilities_of(engine)
    for name, (needed, why) in _NEEDS.items():
        if getattr(options, name) is not None and needed not in known:
            raise SettingError(f"this model {why}, so there is no {name}; leave it out")
    stride, begin = _count("window_stride", options.window_stride), _beginning(tokenizer, record, options.bos, known)
    cache_bits, float64_layers = _cache_bits(options.cache_bits), _count("float64_layers", options.float64_layers)
    for network in networks_of(engine):
        network.set_reading(
            alone=options.is_alone, stride=stride, begin=begin, cache_bits=cache_bits, float64_layers=float64_layers
        )


def _beginning(tokenizer: Tokenizer, record: dict[str, Any], bos: str | None, known: frozenset[str]) -> int | None:
    """Return the token that texts begin with, as given, else as the environment says; None for the model's own.

    Raises SettingError.
    """
    name = _said("bos") if bos is None else bos
    if bos is None and (not name or "beginning" not in known):
        return None
    splitter = tokenizer.splitter
    number = id_of_name(record, splitter, tokenizer.vocabulary, name)
    if number is None:
        named = [*getattr(splitter, "numbers", {}), *MARKER_TOKENS]
        near = get_close_matches(name, named, 3) or [one for one in named if one.startswith("<|")][:5] or MARKER_TOKENS
        raise SettingError(f"bos is {name!r}, and the model has no such token; expected one such as {', '.join(near)}")
    return number
