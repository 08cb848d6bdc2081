"""How texts are generated from sources: keywords in Python, flags on the command line, fields of requests.

Imports nothing heavy, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, changed, option
from chainrule.decoding.config import BeamConfig, SamplingConfig
from chainrule.models.config import GenerateOptions

if TYPE_CHECKING:
    from chainrule.models.progress_line import ProgressOption

MAX_TOKENS = 60  # of a caption, unless another limit is set
_SERVED_TOKENS = (1, 2**31 - 1)

Regions = Literal["grid", "given", "proposed"]  # of a picture, that get a vector


@dataclass(frozen=True, kw_only=True)
class TargetBeam(BeamConfig):
    """As `BeamConfig`, for texts given a source: ranked by mean log-probability, until a better one is unlikely."""

    size: int = changed(
        BeamConfig,
        "size",
        help="how many hypotheses to keep; 1 picks the likeliest token. By default 5, or --nbest if more",
        served=(1, 64),
    )
    rank_by: Literal["total", "mean", "wu"] = changed(BeamConfig, "rank_by", "mean")
    groups: int = changed(BeamConfig, "groups", flag=None)
    diversity: float = changed(BeamConfig, "diversity", flag=None)
    must_end: bool = changed(BeamConfig, "must_end", flag=None)
    stop: Literal["sure", "likely", "full"] = changed(BeamConfig, "stop", "likely")


@dataclass(frozen=True, kw_only=True)
class CaptionBeam(TargetBeam):
    """As `TargetBeam`, for captions."""

    size: int = changed(TargetBeam, "size")
    rank_by: Literal["total", "mean", "wu"] = changed(
        TargetBeam,
        "rank_by",
        help="rank captions by log-probability, its mean over the tokens, or the rule of Wu et al. 2016",
    )


@dataclass(frozen=True)
class SearchOptions(Options):
    """How the likeliest texts given a source are found.

    beam: by default, 5 hypotheses, ranked by mean log-probability, until a better one is unlikely. alignments: whether
    to keep attention weights.
    """

    beam: BeamConfig | None = option(None, "how texts are searched", flag=None)
    _: KW_ONLY
    alignments: bool = option(False, "whether to keep attention weights", flag=None)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options):
    """How texts given texts begin and end. begin: what each text begins with; it is scored, too."""

    begin: str = option("", "what every text begins with; included in scores", hyphens=True, shown=False)
    max_tokens: int | None = option(
        None, "the longest text, in tokens; by default twice the source's plus 20", least=1, served=_SERVED_TOKENS
    )


@dataclass(frozen=True, kw_only=True)
class WriteOptions(SearchOptions, TargetOptions):
    """As `SearchOptions`, of texts given texts."""


@dataclass(frozen=True)
class WriteTreeOptions(TargetOptions):
    """As `WriteOptions`, of one search, whose tree is kept."""

    beam: BeamConfig | None = changed(SearchOptions, "beam")


@dataclass(frozen=True)
class SampleOptions(TargetOptions):
    """How texts given texts are sampled. first: the index of the first source among those of several calls."""

    n: int = option(1, "how many texts for each source", least=1, flag=None)
    sampling: SamplingConfig | None = changed(GenerateOptions, "sampling")
    _: KW_ONLY
    seed: int | None = changed(GenerateOptions, "seed")
    first: int = option(0, "the index of the first source among all sources of several calls", flag=None)
    progress: ProgressOption = changed(SearchOptions, "progress")


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(Options):
    """The languages of a model that reads or writes several: mBART, M2M-100, NLLB. A token, or its beginning.

    In Python, `Seq2SeqModel.with_languages` takes them.
    """

    source_language: str | None = option(
        None, "the language of the source, for mBART, M2M-100 and NLLB: fra_Latn or fra", served=True
    )
    target_language: str | None = option(None, "the language to translate into, likewise", served=True)


@dataclass(frozen=True, kw_only=True)
class CaptionOptions(SearchOptions):
    """As `SearchOptions`, of captions."""

    max_tokens: int = option(MAX_TOKENS, "the longest caption, in tokens", least=1, served=_SERVED_TOKENS)


@dataclass(frozen=True)
class MeasureOptions(Options):
    """How the texts that are measured against references are written. beam, max_tokens: as in `WriteOptions`."""

    beam: BeamConfig | None = option(
        None,
        "how many hypotheses to keep for each source; by default 5",
        reads=int,
        parse=lambda size: TargetBeam(size=size),
    )
    _: KW_ONLY
    max_tokens: int | None = option(
        None, "the longest text, in tokens; by default twice the source's plus 20; 60 of a caption", least=1
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)
