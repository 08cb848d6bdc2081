"""What `chainrule rescore` writes: the best hypotheses, lists with their new scores, and how good the choices are."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from chainrule.applications.nbest.reading import KEYED
from chainrule.applications.nbest.writing import list_writer, write_best
from chainrule.applications.rescoring.features import IMPOSSIBLE
from chainrule.applications.rescoring.rescoring import STAGES, Chooser
from chainrule.cli.screen import finite
from chainrule.evaluation.bleu import Bleu
from chainrule.files import compressing, replaced
from chainrule.report.tables import text_table
from chainrule.text.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from chainrule.applications.nbest.reading import ListFormat
    from chainrule.applications.rescoring.rescoring import Figure, Judge, Scored
    from chainrule.applications.rescoring.weights import Weights
    from chainrule.evaluation.error_rates import CorpusMeasure


class Run:
    """One run of the verb: how it chooses, and what it has chosen so far."""

    def __init__(self, weights: Weights, said: Weights, own: Sequence[str], names: Sequence[str], judge: Judge | None):
        """said: the weights of own scores alone. own: the names of the lists' own scores. names: of all features."""
        self.weights, self.judge = weights, judge
        before = said.vector(names) * [name in own for name in names]
        self.chooser = Chooser(weights.vector(names), before)
        self.lists = self.hypotheses = self.changed = 0
        self.impossible = dict.fromkeys(names[len(own) : -1], 0)  # hypotheses, by the model

    def add(self, block: Scored) -> None:
        before, after = self.chooser.before(block), self.chooser.after(block)
        if self.judge is not None:
            self.judge.add(block, before, after)
        texts = block.texts()
        self.lists += len(block.lists)
        self.hypotheses += len(texts)
        found = block.features.impossible(len(block.lists[0].scores)).sum(axis=0).tolist()
        for name, number in zip(self.impossible, found, strict=True):
            self.impossible[name] += number
        self.changed += sum(texts[one] != texts[other] for one, other in zip(before, after, strict=True))

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "lists": self.lists,
            "hypotheses": self.hypotheses,
            "changed": self.changed,
            "weights": dict(self.weights.values),
            "impossible": self.impossible,
        }
        if self.weights.record:
            found["tuned"] = dict(self.weights.record)
        return found | (_measured(self.judge) if self.judge is not None else {})


@contextmanager
def outputs(
    output: Path | None, nbest_out: Path | None, kind: ListFormat, models: Sequence[str]
) -> Iterator[Callable[[Chooser, Scored], None]]:
    """What writes a block to the files that were asked for; these appear when all went well. Raises OutputError."""
    as_json = output is not None and FORMATS.get(text_suffix(str(output))) == "json"
    with ExitStack() as stack:
        best: BinaryIO = sys.stdout.buffer
        if output is not None:
            best = stack.enter_context(compressing(stack.enter_context(replaced(output)), output))
        lists = None if nbest_out is None else stack.enter_context(list_writer(nbest_out, kind, models))

        def write(chooser: Chooser, block: Scored) -> None:
            texts = block.texts()
            for found, row in zip(block.lists, chooser.after(block).tolist(), strict=True):
                write_best(best, found, texts[row], as_json=as_json, with_id=kind in KEYED)
            if output is None:
                best.flush()
            if lists is not None:
                for found, scores, order in chooser.ranked(block):
                    lists.write(found, scores, order)

        yield write


def _measured(judge: Judge) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure in judge.measures:
        figures: dict[str, Any] = {stage: _as_json(judge.figure(measure, stage)) for stage in STAGES}
        figures["change"] = _as_json(judge.change(measure))
        if isinstance(measure, Bleu):
            figures["signature"] = measure.signature
        found[measure.name.replace(" ", "_").lower()] = figures
    return found


def _as_json(figure: Figure) -> dict[str, Any]:
    return {"value": finite(figure.value), "interval": [finite(bound) for bound in figure.interval]}


def described(run: Run) -> str:
    """For people."""
    share = run.changed / max(run.lists, 1)
    lines = [f"{run.lists:,} lists of {run.hypotheses:,} hypotheses; {run.changed:,} choices changed, {share:.2%}"]
    weights = ", ".join(f"{name} {value:.4g}" for name, value in run.weights.values.items())
    lines.append(f"weights  {weights}")
    lines += [
        f"{name} gives {number:,} hypotheses no probability: each counts as {IMPOSSIBLE:,.0f} nats, and is written as "
        "null or -inf"
        for name, number in run.impossible.items()
        if number
    ]
    if run.judge is None:
        return "\n".join(lines)
    judge, measures = run.judge, run.judge.measures
    header = ["", *(cell for measure in measures for cell in (measure.short, "95 %"))]
    rows = [[stage, *(cell for m in measures for cell in _cells(m, judge.figure(m, stage)))] for stage in STAGES]
    rows.insert(2, ["change", *(cell for m in measures for cell in _cells(m, judge.change(m), signed=True))])
    lines += ["", text_table(header, rows)]
    lines += [f"\nBLEU  {measure.signature}" for measure in measures if isinstance(measure, Bleu)]
    return "\n".join(lines)


def _cells(measure: CorpusMeasure, figure: Figure, *, signed: bool = False) -> list[str]:
    """A figure and its interval; error rates in per cent."""
    scale, digits = (100, 2) if measure.lower_is_better else (1, 1)
    value, low, high = (f"{scale * number:{'+' * signed}.{digits}f}" for number in (figure.value, *figure.interval))
    unit = " %" if measure.lower_is_better else ""
    return [value + unit, f"{low} to {high}" if math.isfinite(figure.interval[0]) else ""]
