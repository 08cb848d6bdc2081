"""chainrule experiment NAME: what the field teaches with, measured here, with a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, Overwrite, WholeNumber
from chainrule.cli.screen import print_json, progress

if TYPE_CHECKING:
    from chainrule.experiments.findings import Findings

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
    from chainrule.base.files import replaced
    from chainrule.cli.texts import check_text_target
    from chainrule.experiments.named import experiment as run

    target = output or Path(f"{name}.svg")
    if target.suffix.lower() != ".svg":
        raise CycloptsError(msg=f"--output {target}: its name must end in .svg.")
    check_text_target(target, None, overwrite=overwrite)
    with progress() as told:
        findings = run(name, seed=seed, progress=told)
    with replaced(target) as file:
        file.write(findings.plot().encode())
    if json:
        print_json(_as_json(findings))
        return
    print(findings)
    print(f"{target}: the plot")


def _as_json(findings: Findings) -> dict[str, Any]:
    lines = [{"label": line.label, "x": list(line.x), "y": list(line.y)} for line in findings.lines]
    return {
        "title": findings.title,
        "x": findings.x.label,
        "y": findings.y.label,
        "lines": lines,
        "says": list(findings.says),
    }
