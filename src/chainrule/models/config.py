"""The options of models: how texts are generated, answered and measured. Imports nothing heavy."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.options import Options, changed, option
from chainrule.decoding.config import MOST_TEXTS, BeamConfig, Limits, SamplingConfig
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.models.drafting import Drafting
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source


@dataclass(frozen=True)
class GenerateOptions(Options):
    """How texts are sampled, and from which prompt they go on."""

    prompt: str = option("", "what every text begins with", hyphens=True)
    n: int = option(
        1, "how many texts; with --beam, how many of the best", least=1, most=MOST_TEXTS, served=(1, 2**31 - 1)
    )
    sampling: SamplingConfig | None = option(None, "how tokens are drawn", flag=None)
    limits: Limits | None = option(None, "the limits of a text", flag=None)
    _: KW_ONLY
    seed: int | None = option(
        None,
        "the same seed gives the same texts. Without it, a random seed, which is printed",
        least=0,
        served=(-(2**63), 2**64 - 1),
    )
    draft: Drafting | Model | str | None = option(
        None,
        "speculative decoding: draft some tokens and check them in one pass, for the same text in less time. prompt: "
        "what came after the longest earlier match; ngram: by counts of the text so far; or a model with the same "
        "tokens, such as an n-gram model",
        reads=str,
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True)
class StreamOptions(Options):
    """As `GenerateOptions`, of one text."""

    prompt: str = changed(GenerateOptions, "prompt")
    sampling: SamplingConfig | None = changed(GenerateOptions, "sampling")
    limits: Limits | None = changed(GenerateOptions, "limits")
    _: KW_ONLY
    seed: int | None = changed(GenerateOptions, "seed")
    draft: Drafting | Model | str | None = changed(GenerateOptions, "draft")


@dataclass(frozen=True)
class ChatOptions(Options):
    """The conversation, and how it is answered. messages: with role (system, user or assistant) and content."""

    messages: Iterable[Mapping[str, Any]]
    sampling: SamplingConfig | None = changed(GenerateOptions, "sampling")
    limits: Limits | None = changed(GenerateOptions, "limits")
    _: KW_ONLY
    seed: int | None = changed(GenerateOptions, "seed")
    draft: Drafting | Model | str | None = changed(GenerateOptions, "draft")
    warn: Callable[[str], None] = option(
        warnings.warn, "a callback, called if the earliest messages were left out", flag=None
    )


@dataclass(frozen=True)
class BeamOptions(Options):
    """How the likeliest texts are found, and from which prompt they go on."""

    prompt: str = changed(GenerateOptions, "prompt")
    search: BeamConfig | None = option(None, "how texts are searched", flag=None)
    limits: Limits | None = changed(GenerateOptions, "limits")
    _: KW_ONLY
    progress: ProgressOption = changed(GenerateOptions, "progress")


@dataclass(frozen=True)
class EvaluateOptions(Options):
    """The text on which a model is measured, and how."""

    source: Source | Paths
    progress: ProgressOption = changed(GenerateOptions, "progress")
    _: KW_ONLY
    ends: bool = option(True, "include the end of each line or sentence, </s>, as is usual")
    frequencies: Int64[ndarray, " vocab"] | None = option(
        None, "the count of each token in the training text", flag=None
    )


@dataclass(frozen=True, kw_only=True)
class ContextOptions(Options):
    """How much of a text a network sees before each word or token: one of these. None: all that it can.

    The beginning of a text counts as a word, or token, unless the model's own tokenizer adds it: that is always seen.
    """

    context_words: int | None = option(
        None,
        "let a network see only this many words before each word; give several to compare sizes",
        least=1,
        reads=tuple[int, ...],
    )
    context_tokens: int | None = option(
        None,
        "let a network see only this many tokens before each token; give several to compare sizes",
        least=1,
        reads=tuple[int, ...],
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if None not in (self.context_words, self.context_tokens):
            raise SettingError("context_words and context_tokens are both given; choose one")


@dataclass(frozen=True, kw_only=True)
class DynamicOptions(Options):
    """How a network learns from a text as it reads it: dynamic evaluation (Krause et al. 2018).

    After each segment, the weights take a step down the gradient of the segment's loss.
    """

    segment: int = option(
        32, "tokens that are read before each step", least=1, below=1 << 16, flag="dynamic-segment", needs="dynamic"
    )
    rate: float | None = option(
        None,
        "the size of a step, for each weight in units of its usual gradient; by default 0.006; 0.002 of Transformers "
        "and above 256 units",
        above=0,
        below=1,
        flag="dynamic-rate",
        needs="dynamic",
    )
    decay: float = option(
        0.0,
        "the share of the way back to the trained weights that each step goes",
        least=0,
        below=1,
        flag="dynamic-decay",
        needs="dynamic",
    )
    forgets: bool = option(
        False,
        "begin each document with the trained weights",
        flag="dynamic-forgets",
        is_switch=True,
        needs="dynamic",
    )
    rank: int | None = option(
        None,
        "of Transformers: learn low-rank adapters of this rank in place of the weights; by default 8, where they are "
        "quantised or have more than 50 million weights",
        least=1,
        below=1 << 12,
        flag="dynamic-rank",
        needs="dynamic",
    )


@dataclass(frozen=True, kw_only=True)
class LearningOptions(DynamicOptions):
    """Whether networks learn as they read, and how."""

    dynamic: bool = option(
        False, "let networks learn from the text as they read it (dynamic evaluation)", is_switch=True
    )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(ContextOptions, LearningOptions):
    """How networks read texts that they score."""
