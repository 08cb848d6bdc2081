"""The options for generating texts, in groups as the help shows them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Group, Parameter

from chainrule.cli.shared.arguments import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.decoding.config import BeamConfig, SamplingConfig
    from chainrule.decoding.limits import Limits

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
    """Raises CycloptsError where an option of sampling was given. why: after its name."""
    refuse(_given(options), why)


def refuse(given: Iterable[str], why: str) -> None:
    """Raises CycloptsError for the first of the options given, by the names of their parameters, if any."""
    for name in given:
        raise CycloptsError(msg=f"--{name.replace('_', '-')} {why}.")


def _given(options: SamplingOptions | BeamOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None}
