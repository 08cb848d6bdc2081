"""chainrule experiment NAME: textbook claims about networks, measured, with a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.shared.options import Json, Number, WholeNumber, flag
from chainrule.cli.shared.results import ResultOptions, check_plot, is_table
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.errors import installing
from chainrule.features.lectures.experiments import Name
from chainrule.models.run_options import RunOptions


def experiment(
    name: Annotated[Name, Parameter(help="What to measure, as above.")],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="The plot: .svg, .pdf or .png; by default NAME.svg here. Or its points: .csv, .tsv, .jsonl or "
            ".parquet.",
        ),
    ] = None,
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of all random numbers.")] = 0,
    minutes: Annotated[
        float | None,
        Number,
        Parameter(
            help="For experiments that train networks: train for as many steps as fit this time; by default, for a "
            "minute or two."
        ),
    ] = None,
    overwrite: Annotated[bool, flag(RunOptions, "overwrite")] = False,  # it writes NAME.svg
    json: Json = False,
) -> None:
    """Measure what textbooks claim of language models, with a table and a plot.

        $ chainrule experiment gradients

    balance: bias and variance: perplexity by order, parameters, unseen n-grams.
    retrieval: finding documents by the probability of a query.
    saturation: tanh, the sigmoid and their slopes.
    radius: singular values and the spectral radius, over many steps.
    gradients: how the norm of the gradient changes with distance.
    memory: carrying one letter through longer and longer strings, by family.
    agreement: flights ... were, France ... French, by the words between.
    order: which networks notice that words were shuffled.
    paths: sequential steps and longest paths, counted on the graph.
    cost: the time of one layer, by length and width.
    throughput: tokens a second, read and written, by length.
    positions: perplexity beyond the trained length, by position encoding.
    bottleneck: one vector for a source of any length, or attention.
    attention: scores and ways of attending, on one task.
    heads: what each head of a Transformer looks at, and what is lost without it.
    softmax: the largest weight of attention, by width; why to divide by its root.
    projections: words that look at themselves, with one matrix for q and k or two.
    dilution: the weight of one key among many, by its score.
    lookups: one head fetches one word, two fetch two.
    nonlinearity: the exclusive or, with linear and other layers.
    places: opinions trained at one place in a text, and tested at another.
    nesting: the values of nested expressions, beyond the trained depth.
    probes: what linear probes read from each layer of a Transformer.
    graphs: a hidden graph along which words are copied, found by attention or not.
    pretraining: few labels, from random weights and from pre-trained ones.
    race: an LSTM and a Transformer, by training tokens and by time.
    forcing: a decoder trained on the right words, on its predictions, or on both.
    extrapolation: the loss of a position, by how often it was trained.
    scaling: the loss by size and training tokens, with a power law.
    shots: learning from the examples in a prompt.
    """
    from chainrule.base.files import check_new_file
    from chainrule.drawing.plots import has_matplotlib, write_plot
    from chainrule.features.lectures.experiments.run import experiment as run

    show = ResultOptions(output=output if is_table(output) else None, overwrite=overwrite, json=json)
    show.check()
    plot = None if show.output is not None else output or Path(f"{name}.svg")
    if output is not None and plot is not None:
        check_plot("--output", plot, overwrite=overwrite)
    elif plot is not None:
        check_new_file(plot, overwrite=overwrite)
    with progress_bar() as progress:
        findings = run(name, seed=seed, minutes=minutes, progress=progress)
    if plot is not None and not has_matplotlib():
        note(f"{plot} was not drawn: plots need {installing('report')}")
        plot = None
    if plot is not None:
        write_plot(findings.plot(), plot)
    show.show(findings)
    if plot is not None and not json:
        print(f"wrote {plot}")
