"""How a task is put to a model, whatever the template and the choices.

Imports nothing heavy: the flags of `chainrule prompt` are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

Calibration = Literal["none", "content-free", "pmi", "batch"]
Match = Literal["exact", "begins", "number"]

ChoiceNormalisation = Literal["none", "tokens", "characters", "bytes"]  # by what log P of a given answer is divided


def unescaped(text: str) -> str:
    r"""Return a text in which \n and \t were typed."""
    return text.replace(r"\n", "\n").replace(r"\t", "\t")


@dataclass(frozen=True, kw_only=True)
class PromptSettings(Options):
    """How prompts are made of examples, and how answers are judged. Raises SettingError.

    calibrate, normalise, match: see `experiment.calibrated`, `choices.normalised` and `experiment.agrees`.
    """

    answer: str = option("label", "the field with the right answer")
    shots: int = option(0, "how many solved examples come before the question", least=0)
    seeds: int = option(1, "how many random selections of examples to try", least=1)
    orders: int = option(1, "how many random orders of each selection to try", least=1)
    between: str = option("\n\n", "the text between examples", parse=unescaped)
    separator: str = option(" ", "the text before an answer, unless there is white space", flag=None)
    calibrate: Calibration = option(
        "none",
        "divide by the probability of each choice whatever the example: with N/A in its place (content-free), after "
        "the end of the template alone (pmi), or on average over examples (batch)",
    )
    normalise: ChoiceNormalisation = option(
        "none", "divide the log-probability of a choice by its tokens, characters or bytes"
    )
    match: Match = option(
        "exact",
        "when a written answer is right: equal to the expected one (exact), beginning with it, or the same number",
    )
    max_tokens: int = option(32, "the longest answer that the model writes", least=1)
    stop: tuple[str, ...] = option(("\n",), "strings that end a written answer", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shots and (self.seeds > 1 or self.orders > 1):
            raise SettingError("seeds and orders vary the examples; set shots to 1 or more")
