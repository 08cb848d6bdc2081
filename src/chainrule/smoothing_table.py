"""Chen and Goodman's table for a text of one's own: every smoothing at every order, measured on the same held-out text.

Source: Chen and Goodman, An empirical study of smoothing techniques for language modeling (1998), section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.ladder import check_overlap
from chainrule.model import Model
from chainrule.ngram.config import SMOOTHINGS, NGramConfig
from chainrule.progress import Progress, silent
from chainrule.trained import learnt_speller, tokenized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.evaluation.likelihood import Measurement
    from chainrule.text.corpus import Source
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.text.vocabulary import Markers


@dataclass(frozen=True)
class SmoothingTable:
    """By smoothing and order, what was measured."""

    measurements: dict[tuple[str, int], Measurement]

    @property
    def orders(self) -> list[int]:
        return sorted({order for _, order in self.measurements})

    @property
    def smoothings(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.measurements))

    @property
    def best(self) -> tuple[str, int]:
        """The smoothing and order with the fewest bits per byte of those that are distributions, if any is."""
        found = self.measurements
        return min(found, key=lambda key: (not found[key].is_distribution, found[key].bits_per_byte))

    def header(self) -> list[str]:
        return ["smoothing", *(f"order {order}" for order in self.orders)]

    def rows(self, shown: Callable[[Measurement], str]) -> list[list[str]]:
        """A row for each smoothing, a cell for each order; what is no distribution has a star."""
        return [
            [name, *(shown(found) + "*" * (not found.is_distribution) for found in self._row(name))]
            for name in self.smoothings
        ]

    @property
    def impossible(self) -> list[str]:
        """The smoothings that gave some token no probability."""
        return [name for name in self.smoothings if any(found.impossible for found in self._row(name))]

    def as_json(self) -> list[dict[str, Any]]:
        """An entry for each smoothing and order; null where something is infinite."""
        return [
            {"smoothing": name, "order": order, **found.as_json()} for (name, order), found in self.measurements.items()
        ]

    def _row(self, name: str) -> list[Measurement]:
        return [self.measurements[name, order] for order in self.orders]


def smoothing_table(
    train: Source,
    heldout: Source,
    *,
    smoothings: Sequence[str] = SMOOTHINGS,
    order: int = 5,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    progress: Progress = silent,
) -> SmoothingTable:
    """Orders 1 .. order of each smoothing, all estimated from the same counts.

    Weights and constants are estimated from the training text alone. Raises TextError, SettingError, EstimationError.
    """
    from chainrule.ngram.training import counted, model_of_counts

    names = list(dict.fromkeys(smoothings))
    configs = [NGramConfig(order=n, smoothing=name) for name in names for n in range(1, order + 1)]  # type: ignore[arg-type]
    if not configs:
        raise SettingError(f"order {order} of {len(names)} smoothings: there is nothing to compare")
    learner, stream, left_out = tokenized(train, tokenizer, markers, progress)
    counts = counted(stream, learner.vocabulary_size, NGramConfig(order=order), progress)
    # By whether <unk> has the mass of all unseen words.
    spellers = {
        rule: learnt_speller(learner, stream, config, left_out)
        for rule, config in {config.unknown_has_whole_mass: config for config in configs}.items()
    }
    measurements: dict[tuple[str, int], Measurement] = {}
    for config in configs:
        language_model, record = model_of_counts(counts.up_to(config.order), config, progress)
        model = Model("ngram", language_model, learner, record, spellers[config.unknown_has_whole_mass])
        measurement = model.evaluate(heldout, progress)
        check_overlap(measurement, heldout)
        measurements[config.smoothing, config.order] = measurement
    return SmoothingTable(measurements)
