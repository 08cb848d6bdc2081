"""chainrule experiment NAME: what the field teaches with, measured here, with a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, Overwrite, WholeNumber
from chainrule.cli.screen import print_json, progress
from chainrule.report.tables import text_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.experiments.findings import Findings

_COLUMNS = 8  # places on the axis that the table shows

Name = Literal["memory", "cost", "gradients", "positions"]


def experiment(
    name: Annotated[Name, Parameter(help="What is measured.")],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The plot, an SVG file; by default NAME.svg here.")
    ] = None,
    seed: Annotated[int, WholeNumber, Parameter(help="Another seed, other random numbers.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """What networks remember, cost, learn through and extend to.

    memory: one letter carried over strings of growing length, by every family.
    cost: the time of one layer against the length and the width.
    gradients: how much of a gradient arrives from how far.
    positions: perplexity past the trained length, by position encoding.
    """
    from chainrule.cli.texts import check_text_target
    from chainrule.files import replaced

    target = output or Path(f"{name}.svg")
    if target.suffix.lower() != ".svg":
        raise CycloptsError(msg=f"--output {target}: its name must end in .svg.")
    check_text_target(target, None, overwrite=overwrite)
    with progress() as told:
        findings = _function(name)(seed=seed, progress=told)
    with replaced(target) as file:
        file.write(findings.plot().encode())
    if json:
        print_json(_as_json(findings))
        return
    print(findings.title)
    print(text_table(*_table(findings)))
    print("\n".join(findings.says))
    print(f"{target}: the plot")


def _function(name: Name) -> Callable[..., Findings]:
    from chainrule.experiments.cost import cost
    from chainrule.experiments.gradients import gradients
    from chainrule.experiments.memory import memory
    from chainrule.experiments.positions import positions

    functions: dict[Name, Callable[..., Findings]] = {
        "memory": memory,
        "cost": cost,
        "gradients": gradients,
        "positions": positions,
    }
    return functions[name]


def _table(findings: Findings) -> tuple[list[str], list[list[str]]]:
    """A row for each line, at some of the places."""
    places = max((line.x for line in findings.lines), key=len)
    chosen = places[:: -(-len(places) // _COLUMNS)]
    rows = []
    for line in findings.lines:
        values = dict(zip(line.x, line.y, strict=True))
        rows.append([line.label, *(f"{values[place]:.3g}" if place in values else "-" for place in chosen)])
    return [f"{findings.y.label}, by {findings.x.label}", *(f"{place:g}" for place in chosen)], rows


def _as_json(findings: Findings) -> dict[str, Any]:
    lines = [{"label": line.label, "x": list(line.x), "y": list(line.y)} for line in findings.lines]
    return {
        "title": findings.title,
        "x": findings.x.label,
        "y": findings.y.label,
        "lines": lines,
        "says": list(findings.says),
    }
