"""The table of Chen and Goodman for any text: every smoothing at every order, measured on the same held-out text.

Source: Chen and Goodman, An empirical study of smoothing techniques for language modeling (1998), section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.tables import text_table
from chainrule.drawing.pages import html_tables
from chainrule.errors import SettingError
from chainrule.evaluation.measurement import NO_DISTRIBUTION
from chainrule.features.compare.ladder import check_overlap
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.ngram.config import SMOOTHINGS, NGramConfig
from chainrule.verbs.training.stream import train_speller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.evaluation.measurement import Measurement
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers


@dataclass(frozen=True, repr=False)
class SmoothingTable:
    """Measurements by smoothing and order."""

    measurements: dict[tuple[str, int], Measurement]

    @property
    def orders(self) -> list[int]:
        return sorted({order for _, order in self.measurements})

    @property
    def smoothings(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.measurements))

    @property
    def best(self) -> tuple[str, int]:
        """The smoothing and order with the fewest bits per byte, of those that are distributions if there are any."""

        def rank(key: tuple[str, int]) -> tuple[bool, float]:
            measurement = self.measurements[key]
            return not measurement.is_distribution, measurement.bits_per_byte

        return min(self.measurements, key=rank)

    def __repr__(self) -> str:
        return f"<SmoothingTable of {len(self.smoothings)} smoothings>\n{self}"

    def __str__(self) -> str:
        """Return both tables, and the notes below them."""
        parts = [f"{title}\n\n{text_table(self.header(), rows)}" for title, rows in self.tables()]
        return "\n\n".join([*parts, "\n".join(self.footnotes())])

    def _repr_html_(self) -> str:
        return html_tables(self.tables(), self.header(), self.footnotes())

    def tables(self) -> list[tuple[str, list[list[str]]]]:
        """Return the title and rows of each table."""
        return [
            ("bits per byte", self.rows(lambda measurement: f"{measurement.bits_per_byte:.4f}")),
            ("perplexity per token", self.rows(lambda measurement: f"{measurement.perplexity:,.2f}")),
        ]

    def footnotes(self) -> list[str]:
        """Return the notes below the tables."""
        name, order = self.best
        best = self.measurements[name, order]
        lines = [f"best by bits per byte: {name}, order {order}", f"signature  {best.signature}"]
        if self.impossible:
            lines.append(f"inf: {', '.join(self.impossible)} gave words of the text no probability")
        if any(not measurement.is_distribution for measurement in self.measurements.values()):
            lines.append(f"* {NO_DISTRIBUTION}")
        return lines

    def header(self) -> list[str]:
        return ["smoothing", *(f"order {order}" for order in self.orders)]

    def rows(self, cell: Callable[[Measurement], str]) -> list[list[str]]:
        """Return a row for each smoothing, a cell for each order, with a star if the model is no distribution."""
        return [
            [name, *(cell(measurement) + "*" * (not measurement.is_distribution) for measurement in self._row(name))]
            for name in self.smoothings
        ]

    @property
    def impossible(self) -> list[str]:
        """The smoothings that gave some token no probability."""
        return [name for name in self.smoothings if any(measurement.impossible for measurement in self._row(name))]

    def as_json(self) -> list[dict[str, Any]]:
        """Return an entry for each smoothing and order; null stands for infinity."""
        return [
            {"smoothing": name, "order": order, **measurement.as_json()}
            for (name, order), measurement in self.measurements.items()
        ]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each smoothing and order, each cell a number or a string: for pandas.DataFrame."""
        return [
            {"smoothing": name, "order": order, **measurement.to_dict()}
            for (name, order), measurement in self.measurements.items()
        ]

    def _row(self, name: str) -> list[Measurement]:
        return [self.measurements[name, order] for order in self.orders]


@shows_progress
def smoothing_table(
    train: Source,
    heldout: Source,
    *,
    smoothings: Sequence[str] = SMOOTHINGS,
    order: int = 5,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    progress: ProgressOption = None,
) -> SmoothingTable:
    """Measure orders 1 to `order` of each smoothing, all estimated from the same counts.

    Weights and constants are estimated from the training text only. Raises TextError, SettingError, EstimationError.
    """
    from chainrule.ngram.training import count_stream, model_of_counts

    progress = callback(progress)
    names = list(dict.fromkeys(smoothings))
    configs = [NGramConfig(order=n, smoothing=name) for name in names for n in range(1, order + 1)]  # type: ignore[arg-type]
    if not configs:
        raise SettingError(f"order {order} of {len(names)} smoothings: there is nothing to compare")
    learner, stream, left_out, literals = tokenize_source(train, tokenizer, markers, progress)
    counts = count_stream(stream, learner.vocabulary_size, NGramConfig(order=order), progress)
    # By whether <unk> has the mass of all unseen words.
    spellers = {
        rule: train_speller(learner, stream, config, left_out, literals)
        for rule, config in {config.unknown_has_whole_mass: config for config in configs}.items()
    }
    measurements: dict[tuple[str, int], Measurement] = {}
    for config in configs:
        language_model, record = model_of_counts(counts.up_to(config.order), config, progress)
        model = CausalModel("ngram", language_model, learner, record, spellers[config.unknown_has_whole_mass])
        measurement = model.evaluate(heldout, progress)
        check_overlap(measurement, heldout)
        measurements[config.smoothing, config.order] = measurement
    return SmoothingTable(measurements)
