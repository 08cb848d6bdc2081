"""What counts as a co-occurrence; free of NumPy, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.errors import SettingError

Weighting = Literal["distance", "flat"]
Sides = Literal["both", "left", "right"]


@dataclass(frozen=True, kw_only=True)
class CooccurrenceConfig:
    """What counts as a co-occurrence, as GloVe's. Raises SettingError.

    window: words to each side within a document. weighting: a distance of d counts 1/d, or as much as any other.
    sides: both, so that the counts are symmetric; or only contexts left, or right, of a word.
    """

    window: int = 15
    weighting: Weighting = "distance"
    sides: Sides = "both"

    def __post_init__(self) -> None:
        if type(self.window) is not int or not 1 <= self.window < 1 << 12:
            raise SettingError(f"window is {self.window!r}; expected 1 or more, and less than {1 << 12:,}")
        if self.weighting not in ("distance", "flat"):
            raise SettingError(f"weighting is {self.weighting!r}; expected distance or flat")
        if self.sides not in ("both", "left", "right"):
            raise SettingError(f"sides is {self.sides!r}; expected both, left or right")
