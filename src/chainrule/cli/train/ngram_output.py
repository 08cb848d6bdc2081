"""What the verbs that train n-gram models print: the table of estimated smoothing parameters, sizes and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.base.tables import count_of, text_table
from chainrule.cli.shared.screen import note, print_json
from chainrule.cli.train.run_output import cost_line, summary_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.models.model import Model


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


def print_result(model: Model, output: Path, began: float, *, json: bool) -> None:
    """Print what was counted and estimated. began: when, by time.perf_counter."""
    summary = summary_of(output, began, vocabulary=model.vocabulary_size)
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    unknown = record["unknown_tokens"]
    share = f", {unknown / record['tokens']:.2%} of the tokens unknown" if unknown else ""
    closed = not (unknown or record.get("settings", {}).get("open_vocabulary", True))  # then <unk> has no probability
    print(
        f"{summary['model']}: {record['family']} model of {record['tokens']:,} tokens "
        f"in {count_of(record['documents'], 'document')}, "
        f"vocabulary {summary['vocabulary']:,} (V = {summary['vocabulary'] - 1 - closed:,} without <s>"
        f"{' and <unk>' * closed}){share}"
    )
    if "discounts" in record:
        print(estimates_table(record))
        _note_fallback([discounts for discounts in record["discounts"] if not discounts["estimated"]])
    if impossible := record.get("impossible_types"):
        note(
            f"this smoothing leaves {impossible:,} tokens of the text without probability, so the perplexity of texts "
            "with them is infinite; lower --discount"
        )
    if tuned := tuned_line(record):
        print(tuned)
    if record.get("settings", {}).get("smoothing") == "stupid-backoff":
        note("stupid-backoff scores do not sum to one: there is no perplexity, and nothing to sample from")
    print(cost_line(summary))


def _note_fallback(discounts: list[dict[str, Any]]) -> None:
    """One note for all orders: on a tiny text there are many."""
    if discounts:
        first, *others = discounts
        orders = ", ".join(str(other["order"]) for other in others)
        likewise = f"; likewise order{'s' * (len(others) > 1)} {orders}" if others else ""
        values = first["values"]
        used = ", ".join(f"{value:g}" for value in values)
        fallback = f"; used {used} instead" if any(values) else ", so no count is discounted"
        note(f"{first['problem']}{fallback}{likewise}")
