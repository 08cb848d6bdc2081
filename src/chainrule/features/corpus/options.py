"""The options of detection and of ranking: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, option

if TYPE_CHECKING:
    from chainrule.models.language_models import MaskedModel
    from chainrule.models.progress_line import ProgressOption


@dataclass(frozen=True, kw_only=True)
class DetectOptions(Options):
    """How texts are examined. masked: a network that fills gaps, to measure the curvature, too."""

    masked: MaskedModel | None = option(
        None, "a model that fills gaps: also measure the curvature (DetectGPT), by its fillings", reads=Path
    )
    perturbations: int = option(20, "with --masked, how often each text is changed", least=2)
    seed: int = option(0, "the seed of the perturbations and of the quiz")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True, kw_only=True)
class RankConfig(Options):
    """How the unigram models of documents are smoothed. mu, share: the strength of dirichlet and jelinek-mercer."""

    smoothing: Literal["dirichlet", "jelinek-mercer"] = option("dirichlet", "how they are smoothed", flag=None)
    # Zhai and Lafferty find mu near 2,000, and lambda from 0.1 (short queries) to 0.7 (long ones).
    mu: float = option(
        2000.0, "the strength of dirichlet, in tokens; 2000 by default", above=0, shown=False, needs="by dirichlet"
    )
    share: float = option(
        0.5,
        "with jelinek-mercer: the weight of the model of all documents; 0.5 by default",
        above=0,
        below=1,
        flag="lambda",
        shown=False,
        needs="by jelinek-mercer",
    )
