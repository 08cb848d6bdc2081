"""The options of networks that look for similar states. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source

MOST_STATES, MOST_NEAREST = 1 << 20, 1 << 16
_TUNED = "; by default what makes the text of --tune likeliest"


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Options):
    """What a network looks for: similar states at the last tokens that were read, or in another text."""

    neural_cache: int | None = option(
        None,
        "add a neural cache: what came after similar states of the network, at this many previous tokens, such as 2000",
        least=1,
        most=MOST_STATES,
    )
    neural_cache_theta: float | None = option(
        None,
        f"how much more similar states count in the cache{_TUNED}",
        least=0,
        needs="neural_cache",
    )
    neural_cache_weight: float | None = option(
        None, f"the weight of the cache{_TUNED}", least=0, below=1, needs="neural_cache"
    )
    neural_cache_forgets: bool = option(
        False,
        "empty the neural cache at the end of each document",
        is_switch=True,
        needs="neural_cache",
    )
    neighbours_count: int | None = option(
        None,
        "how many of the nearest neighbours count; by default 1024",
        least=1,
        most=MOST_NEAREST,
        needs="neighbours",
    )
    neighbours_temperature: float | None = option(
        None,
        f"the squared distance at which a neighbour counts 1/e{_TUNED}",
        above=0,
        needs="neighbours",
    )
    neighbours_weight: float | None = option(
        None, f"the weight of the neighbours{_TUNED}", least=0, below=1, needs="neighbours"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        cache, text = self.neural_cache_weight or 0, self.neighbours_weight or 0
        if cache + text >= 1:
            raise SettingError(
                f"neural_cache_weight and neighbours_weight are {cache:g} and {text:g}; expected less than 1 in all, "
                "since the rest is the network's"
            )


@dataclass(frozen=True, kw_only=True)
class NeighbourOptions(NeighbourSettings):
    """As `NeighbourSettings`, with the texts. heldout: tunes what is None."""

    neighbours: Source | Paths | None = option(
        None,
        "add the nearest neighbours in this text, such as that of the training (kNN-LM): the model then holds the "
        "network's state before each of its tokens",
        reads="file",
    )
    heldout: Source | Paths | None = option(None, "a text to tune on", flag=None)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neural_cache is None and self.neighbours is None:
            raise SettingError("there is nothing to look for; set neural_cache, neighbours, or both")
        for own in fields(NeighbourSettings):
            value, needed = getattr(self, own.name), own.metadata["needs"]
            if needed and value not in (None, False) and getattr(self, needed) is None:
                raise SettingError(f"{own.name} is {value}, which needs {needed}; set that, too")
