"""Networks that label, trained from scratch on the same examples, in one table; and three ways to use word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.training.train_classifier import train_classifier
from chainrule.base.progress import silent
from chainrule.base.tables import text_table
from chainrule.drawing.pages import html_table
from chainrule.errors import SettingError
from chainrule.neural.config.classifiers import LABELLING

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from chainrule.evaluation.classification import Classification
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.training.config import LabelTraining


@dataclass(frozen=True)
class LabelRow:
    """A network, what its vectors of tokens began as, how well it does, and what training took."""

    network: str
    vectors: str  # fresh, tuned or fixed
    result: Classification
    parameters: int
    seconds: float


@dataclass(frozen=True, repr=False)
class LabelComparison:
    """Networks on the same labelled examples; `str` is a table."""

    rows: tuple[LabelRow, ...]

    def __repr__(self) -> str:
        return f"<LabelComparison of {len(self.rows)} networks>\n{self}"

    def __str__(self) -> str:
        return text_table(*self.table())

    def _repr_html_(self) -> str:
        return html_table("", *self.table())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The header and the cells, for people."""
        header = ["network", "vectors", "accuracy", "95 %", "macro F1", "nats", "parameters", "seconds"]
        cells = []
        for row in self.rows:
            low, high = row.result.accuracy.interval
            cells.append(
                [
                    row.network,
                    row.vectors,
                    f"{row.result.accuracy.share:.2%}",
                    f"{100 * low:.1f} to {100 * high:.1f}",
                    f"{row.result.macro_f1:.4f}",
                    f"{row.result.nats:.4f}",
                    f"{row.parameters:,}",
                    f"{row.seconds:.1f}",
                ]
            )
        return header, cells

    def to_records(self) -> list[dict[str, Any]]:
        """A row for each network, of numbers, strings and None: for pandas.DataFrame."""
        return [{**_about(row), **row.result.to_dict()} for row in self.rows]

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each network for JSON, with all figures."""
        return [{**_about(row), **row.result.as_json()} for row in self.rows]


def _about(row: LabelRow) -> dict[str, Any]:
    return {"network": row.network, "vectors": row.vectors, "parameters": row.parameters, "seconds": row.seconds}


@shows_progress
def compare_labels(
    examples: Sequence[Any],
    test: Sequence[Any],
    networks: Sequence[str] = ("bag", "lstm", "convolution", "transformer"),
    *,
    vectors: str | os.PathLike[str] | None = None,
    unit: str | None = None,
    training: LabelTraining | None = None,
    tokenizer: TokenizerConfig | str | None = None,
    progress: ProgressOption = None,
) -> LabelComparison:
    """Trains each network on the same examples and measures it on others.

    vectors: word vectors, which are then tuned and fixed, beside those that are learned from nothing. The rest is as
    for `train_classifier`, and it raises what that does; SettingError where networks read different kinds of inputs.

    good:  compare_labels(chainrule.read_labelled("train.tsv"), chainrule.read_labelled("test.tsv"), vectors="words/")
    """
    progress = callback(progress)
    unknown = [name for name in networks if name not in LABELLING]
    if unknown or not networks:
        raise SettingError(f"networks are {list(networks)!r}; expected some of {', '.join(LABELLING)}")
    kinds = {LABELLING[name].reads for name in networks}
    if len(kinds) > 1:
        raise SettingError(f"these networks read different inputs, {' and '.join(sorted(kinds))}; compare those of one")
    if unit == "rating":
        raise SettingError("unit is 'rating', and this table is of labels; train each network, and use assess_ratings")
    ways: dict[str, dict[str, Any]] = {"fresh": {}}
    if vectors is not None:
        ways |= {"tuned": {"vectors": vectors}, "fixed": {"vectors": vectors, "fixed_vectors": True}}
    rows = []
    for i, (name, way) in enumerate((name, way) for name in networks for way in ways):
        progress("training classifiers", i, len(networks) * len(ways))
        model = train_classifier(
            examples, name, unit=unit, training=training, tokenizer=tokenizer, progress=silent, **ways[way]
        )
        record = model.record
        rows.append(LabelRow(name, way, model.assess(test, silent), record["parameters"], record["training_seconds"]))
    return LabelComparison(tuple(rows))
