"""Formats of n-best lists, and how weights are tuned.

Imports nothing heavy: the flags of `chainrule rescore` are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import Options, option

LatticeFormat = Literal["kaldi-lattice", "slf"]
ListFormat = Literal["json", "table", "moses", "kaldi", "espnet", "srilm", "kaldi-lattice", "slf"]
Objective = Literal["wer", "cer", "bleu", "likelihood"]


@dataclass(frozen=True, kw_only=True)
class TuningConfig(Options):
    """How weights are tuned: from the given ones and from random ones. Raises SettingError."""

    restarts: int = option(8, "tune again from this many random weights", least=0)
    seed: int = option(0, "the seed of the random weights")
