"""What was made of n-gram models and mixtures, for people: how much pruning left, and the weights of a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.memory import bytes_shown
from chainrule.base.tables import text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FEW_UNKNOWN = 0.1  # of the tokens of a text: with more, a mixture may be worse than its models
_FEW_TOKENS, _FEW_FOR_GATE = 1000, 10_000  # of a text on which weights are tuned, or those that depend on the context


@dataclass(frozen=True)
class PrunedModel:
    """A model that was pruned and written. record: its own."""

    path: Path
    record: Mapping[str, Any]
    seconds: float

    @property
    def bytes(self) -> int:
        """The size of the folder or file."""
        files = self.path.iterdir() if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files)

    def __str__(self) -> str:
        rows = [
            [order, f"{before:,}", f"{left:,}", f"{left / before:.2%}" if before else ""]
            for order, before, left in (row.values() for row in self.to_records())
        ]
        table = text_table(["order", "n-grams", "kept", ""], rows)
        return f"{table}\n{self.path}: {bytes_shown(self.bytes)}, {self.seconds:.1f} s"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each order, and one for all."""
        before, after = self.record["pruned"][-1]["ngrams_before"], self.record["ngrams"]
        left = [*after, *[0] * (len(before) - len(after))]
        rows = [(str(order), *counts) for order, counts in enumerate(zip(before, left, strict=True), 1)]
        names = ("order", "ngrams_before", "ngrams")
        return [dict(zip(names, row, strict=True)) for row in (*rows, ("all", sum(before), sum(after)))]

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of n-grams by order, and the size, for JSON."""
        return {
            "model": str(self.path),
            "ngrams_before": self.record["pruned"][-1]["ngrams_before"],
            "ngrams": self.record["ngrams"],
            "bytes": self.bytes,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class MixedModel:
    """A mixture that was written. record: its own. data: of each model by name, the digests of its training texts.

    is_static: whether it is one n-gram model. has_weights: whether its weights were given, or are those of a model.
    """

    path: Path
    kind: str
    record: Mapping[str, Any]
    seconds: float
    data: Mapping[str, Mapping[str, Any]]
    is_static: bool = False
    has_weights: bool = False

    def __str__(self) -> str:
        """Return a line for each model, with its weight; with buckets, a column for each class of the previous
        token.
        """
        rows = self.record["weights"] if self.kind == "linear" else [self.record["weights"]]
        columns = [f"{i}" for i in range(1, len(rows))] + ["begin"] if len(rows) > 1 else ["weight"]
        cells = [
            [model["name"], model["family"], *(f"{row[i]:.4f}" for row in rows)]
            for i, model in enumerate(self.record["models"])
        ]
        table = text_table(["model", "family", *columns], cells)
        return "\n".join([table, *self._gain(), f"{self.path}: {self.seconds:.1f} s"])

    def _gain(self) -> list[str]:
        """Return what an adaptive mixture gained on the part of the tuning text that its gate did not learn from."""
        if "gate_gain" not in self.record:
            return []
        gain, sees = self.record["gate_gain"], self.record["gate_sees"]
        if not gain:
            of = f"a tenth of the {self.record['tuned_on']['tokens']:,} tokens to tune on"
            return [f"weights that depend on the context gain nothing on {of}; they stay constant"]
        what = "the context and the models' distributions" if sees == "distributions" else "the context"
        of = f"means of weights that depend on {what}"
        return [f"{of}; they gain {gain:.4f} nats a token on a tenth of the tuning text"]

    def to_records(self) -> list[Mapping[str, Any]]:
        """Return a row for each model."""
        return [*self.record["models"]]

    def as_json(self) -> dict[str, Any]:
        """Return the models and their weights, for JSON."""
        record = {"model": str(self.path), "kind": self.kind, "seconds": self.seconds}
        return {**record, "models": self.record["models"], "weights": self.record["weights"]}

    def notes(self) -> Iterator[str]:
        """Yield what speaks against the text that the weights were tuned on."""
        if self.has_weights:
            return
        tuned_on = self.record.get("tuned_on")
        if tuned_on is None:
            yield "all models weigh the same; --tune with a held-out text chooses their weights"
            return
        text = ", ".join(tuned_on["data"])
        for name, digests in self.data.items():
            if not set(tuned_on["data"].values()).isdisjoint(digests.values()):
                yield (
                    f"{name} was trained on {text}, so the weights trust it too much; tune them on a text that no "
                    "model was trained on"
                )
        if self.is_static:
            return
        least = _FEW_FOR_GATE if "gate_gain" in self.record else _FEW_TOKENS
        if tuned_on["tokens"] < least:
            yield (
                f"{text} has only {tuned_on['tokens']:,} tokens to tune weights on, so they may not be the best for "
                f"other texts; give {least:,} or more"
            )
        share = tuned_on["unknown_tokens"] / tuned_on["tokens"]
        if share > _FEW_UNKNOWN:
            or_static = ", or try --static" * all(model["family"] == "ngram" for model in self.record["models"])
            yield (
                f"the vocabulary lacks {share:.1%} of the tokens of {text}; train with that of a similar text "
                f"(--tokenizer){or_static}"
            )
