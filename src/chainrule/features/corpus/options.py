"""The options of detection: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
