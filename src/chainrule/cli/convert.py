"""chainrule convert SOURCE TARGET: between model folders and ARPA files, and from KenLM binaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Normalise, Overwrite, normalisation_steps
from chainrule.cli.models import check_model_target, open_model, save_or_keep
from chainrule.cli.screen import note, progress_bar
from chainrule.ngram.config import COMPACT


def convert(
    source: ModelPath,
    target: Annotated[
        Path, Parameter(help="A new model folder, or a file that ends in .arpa, .arpa.gz, .zst, .xz or .bz2.")
    ],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    normalise: Normalise = None,
    compact: Annotated[
        bool, Parameter(negative=(), help="Write a compact n-gram model: quantised, a fifth of the size.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Convert between model folders, compact or not, and ARPA files; and from KenLM binaries.

        $ chainrule convert lm/ model.arpa

    An ARPA file or KenLM binary does not say how its text was tokenized. The
    marks of our own tokenizers are recognised; otherwise white space is assumed.
    Without --compact, a compact model is unpacked: larger and faster, with its
    probabilities still quantised.
    """
    from chainrule.api.convert import in_layout
    from chainrule.text.tokenizer_config import TokenizerConfig

    if normalise and tokenizer is None:
        raise CycloptsError(msg="--normalise needs --tokenizer.")
    check_model_target(target, overwrite=overwrite, compact=compact)
    with progress_bar() as progress:
        config = tokenizer and TokenizerConfig(kind=tokenizer, normalise=normalisation_steps(normalise))
        model = open_model(source, config, None, progress)
        if model.layout == COMPACT and not compact:
            note(f"{source}: its probabilities were quantised when it was compacted, and stay so")
        save_or_keep(
            in_layout(model, compact=compact, progress=progress), target, overwrite=overwrite, progress=progress
        )
