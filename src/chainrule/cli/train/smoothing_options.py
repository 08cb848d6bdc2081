"""The smoothing options of n-gram models, and the table of what was estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.base.tables import text_table
from chainrule.cli.shared.arguments import WholeNumber
from chainrule.ngram.config import Begins, NGramConfig, Smoothing, WeightsBy

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULTS = NGramConfig()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SmoothingOptions:
    """How counts become probabilities."""

    smoothing: Annotated[Smoothing, Parameter(help="How counts become probabilities.")] = _DEFAULTS.smoothing
    prune: Annotated[
        tuple[int, ...],
        WholeNumber,
        Parameter(
            help="Drop n-grams seen at most this often, by order, unigrams first (0); the last number repeats: 0 0 1. "
            "Put texts before it.",
            consume_multiple=True,
            negative=(),
        ),
    ] = _DEFAULTS.prune
    discount: Annotated[
        tuple[float, ...],
        Parameter(
            help="For absolute and kneser-ney: the constants to subtract from counts, by order, unigrams first; the "
            "last repeats. By default they are estimated.",
            show_default=False,
            consume_multiple=True,
            negative=(),
        ),
    ] = _DEFAULTS.discount
    pseudocount: Annotated[float, Parameter(help="For lidstone: the constant to add to each count.")] = (
        _DEFAULTS.pseudocount
    )
    weights: Annotated[
        tuple[float, ...],
        Parameter(
            help="For jelinek-mercer: the share of each order, unigrams first; they sum to 1, as 0.3 0.7. One number "
            "more, in front, is the share of the uniform distribution. By default they are estimated.",
            show_default=False,
            consume_multiple=True,
            negative=(),
        ),
    ] = _DEFAULTS.weights
    weights_by: Annotated[
        WeightsBy, Parameter(help="For jelinek-mercer: a weight for each order, or for each order and size of count.")
    ] = _DEFAULTS.weights_by
    backoff_weight: Annotated[
        float, Parameter(help="For stupid-backoff: the factor for each word of context dropped.")
    ] = _DEFAULTS.backoff_weight
    open_vocabulary: Annotated[bool, Parameter(help="Reserve probability for <unk>, even if the text has none.")] = (
        _DEFAULTS.open_vocabulary
    )
    begins: Annotated[Begins, Parameter(help="Begin documents with one <s>, or with order - 1 of them.")] = (
        _DEFAULTS.begins
    )
    interpolate_unigrams: Annotated[
        bool, Parameter(help="Interpolate all unigrams with the uniform distribution, not <unk> alone.")
    ] = _DEFAULTS.interpolate_unigrams
    strict_discounts: Annotated[
        bool, Parameter(negative=(), help="Fail where discounts cannot be estimated, instead of using fixed ones.")
    ] = _DEFAULTS.strict_discounts
    kenlm_compatible: Annotated[
        bool, Parameter(negative=(), help="Reproduce a bug of lmplz that shows only on tiny texts.")
    ] = _DEFAULTS.kenlm_compatible

    def config(self, order: int) -> NGramConfig:
        """Raises SettingError."""
        return NGramConfig(
            order=order,
            smoothing=self.smoothing,
            prune=tuple(self.prune),
            discount=tuple(self.discount),
            pseudocount=self.pseudocount,
            weights=tuple(self.weights),
            weights_by=self.weights_by,
            backoff_weight=self.backoff_weight,
            open_vocabulary=self.open_vocabulary,
            begins=self.begins,
            interpolate_unigrams=self.interpolate_unigrams,
            strict_discounts=self.strict_discounts,
            kenlm_compatible=self.kenlm_compatible,
        )


DEFAULT_SMOOTHING = SmoothingOptions()


def estimates_table(record: dict[str, Any]) -> str:
    """What was counted and estimated, a row for each order."""
    sizes, discounts = record["ngrams"], record["discounts"] or [{}] * len(record["ngrams"])
    width = max((len(row.get("values", ())) for row in discounts), default=0)
    weights = record.get("weights", [[]] * len(sizes))
    rows = []
    for order, (size, row, own) in enumerate(zip(sizes, discounts, weights, strict=True), start=1):
        values = [f"{value:.4f}" for value in row.get("values", ())]
        values += [""] * (width - len(values))
        fallback = "" if row.get("estimated", True) else "fallback"
        rows.append([str(order), f"{size:,}", *values, *([_weight_range(own)] if own else []), fallback])
    header = ["order", "n-grams", *_discount_names(width), *(["weight over lower orders"] if any(weights) else []), ""]
    return text_table(header, rows)


def tuned_line(record: dict[str, Any]) -> str | None:
    """What was tuned on a held-out text, in words; None where nothing was."""
    if "tuned_on_tokens" not in record:
        return None
    result = f"the constant {record['pseudocount']:.6g}" if "pseudocount" in record else "the numbers above"
    return f"tuned on {record['tuned_on_tokens']:,} tokens of {', '.join(record['tuned_on'])}: {result}"


def _discount_names(width: int) -> list[str]:
    return ["D"] if width == 1 else [f"D{n}{'+' * (n == width)}" for n in range(1, width + 1)]


def _weight_range(weights: Sequence[float]) -> str:
    """The weight, or the weights of the rarest and of the most frequent contexts."""
    if len(weights) == 1:
        return f"{weights[0]:.4f}"
    return f"{weights[0]:.4f} to {weights[-1]:.4f}"
