"""chainrule experiment NAME: what the field teaches with, measured here, with a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chainrule.cli.arguments import Json, Overwrite, WholeNumber
from chainrule.cli.plot_option import check_plot_option
from chainrule.cli.screen import note, print_json, progress

if TYPE_CHECKING:
    from chainrule.experiments.findings import Findings

Name = Literal["memory", "cost", "gradients", "positions"]


def experiment(
    name: Annotated[Name, Parameter(help="What is measured.")],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The plot: .svg, .pdf or .png; by default NAME.svg here.")
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
    from chainrule.drawing.plots import check_matplotlib, has_matplotlib, write_plot
    from chainrule.experiments.named import experiment as run

    target = output or Path(f"{name}.svg")
    check_plot_option("--output", target)
    if output is not None:
        check_matplotlib()
    check_text_target(target, None, overwrite=overwrite)
    with progress() as told:
        findings = run(name, seed=seed, progress=told)
    is_drawn = has_matplotlib()
    if is_drawn:
        write_plot(findings.plot(), target)
    else:
        note(f"{target} is not drawn: that needs pip install 'chainrule[report]'")
    if json:
        print_json(_as_json(findings))
        return
    print(findings)
    if is_drawn:
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
