"""The results of prompts in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.tables import count_of, on_one_line, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.features.prompt.experiment import PromptResult

_SHOWN = 3  # free answers
_LABELS = 10  # listed with how often each was answered, at most


@dataclass(frozen=True)
class PromptTable:
    """Results of several configurations; `str` is one table of them."""

    results: Sequence[PromptResult]

    def __str__(self) -> str:
        single = all(len(result.runs) == 1 for result in self.results)
        chooses = bool(self.results[0].config.choices)
        header = ["template", *([] if single else ["seed", "order"]), "accuracy", "95 %"]
        header += ["macro F1", "calibration error"] if chooses else []
        moves = self.results[0].config.calibrate != "none"
        header += ["before calibration", "changed"] if moves else []
        rows: list[list[str]] = []
        for result in self.results:
            name = on_one_line(result.config.template)
            for run in result.runs:
                low, high = run.accuracy.interval
                figures = run.classification
                cells = [name, *([] if single else [str(run.seed), str(run.order)])]
                cells += [f"{run.accuracy.share:.2%}", f"{100 * low:.2f} to {100 * high:.2f}"]
                cells += [] if figures is None else [f"{figures.macro_f1:.4f}", f"{figures.calibration_error:.4f}"]
                if run.moved is not None:
                    cells += [f"{run.moved[0].share:.2%}", f"{run.moved[1]:,}"]
                rows.append(cells + [""] * (len(header) - len(cells)))
                name = ""
            if result.spread is not None:
                mean = ["mean +- deviation", "", "", f"{result.mean_accuracy:.2%}", f"+- {100 * result.spread:.2f}"]
                rows.append(mean + [""] * (len(header) - len(mean)))
        lines = [text_table(header, rows), count_of(len(self.results[0].records), "example")]
        if not chooses:
            run, expected = self.results[0].runs[0], self.results[0].records
            for record, answer in list(zip(expected, run.predicted, strict=True))[:_SHOWN]:
                lines.append(f"expected {record.fields[self.results[0].config.answer]!r}, answered {answer.strip()!r}")
        for result in self.results:
            figures = result.runs[0].classification
            if figures is not None and len(figures.labels) <= _LABELS:
                answered = zip(
                    figures.labels, figures.confusion.sum(0).tolist(), figures.confusion.sum(1).tolist(), strict=True
                )
                shares = ", ".join(f"{label} {given:,} ({true:,} true)" for label, given, true in answered)
                lines.append(f"answers: {shares}")
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the figures of each, for JSON."""
        return [result.as_json() for result in self.results]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each answer."""
        return [row for result in self.results for row in result.to_records()]

    def notes(self) -> Iterator[str]:
        """Yield what was left out of prompts that would have been too long, in the first run in which something was."""
        for run in (run for result in self.results for run in result.runs):
            if run.dropped or run.cut:
                parts = [f"{run.dropped:,} solved examples were left out of prompts"] if run.dropped else []
                parts += [f"the beginnings of {run.cut:,} prompts were cut off"] if run.cut else []
                yield f"{' and '.join(parts)} that are longer than the model's context"
                return
