"""chainrule convert SOURCE TARGET: between model folders and ARPA files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Normalise, Overwrite, steps_of
from chainrule.cli.models import check_model_target, opened
from chainrule.cli.screen import progress


def convert(
    source: ModelPath,
    target: Annotated[
        Path, Parameter(help="A new model folder, or a file that ends in .arpa, .arpa.gz, .zst, .xz or .bz2.")
    ],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    normalise: Normalise = None,
    overwrite: Overwrite = False,
) -> None:
    """Between model folders and ARPA files.

    An ARPA file does not say how its text was cut into tokens. The marks of our
    own tokenizers are recognised; else it is taken to be cut at white space.
    """
    from chainrule.text.tokenizer_config import TokenizerConfig

    if normalise and tokenizer is None:
        raise CycloptsError(msg="--normalise needs --tokenizer, which says how the normalised text is cut.")
    check_model_target(target, overwrite=overwrite)
    with progress() as told:
        config = tokenizer and TokenizerConfig(kind=tokenizer, normalise=steps_of(normalise))
        model = opened(source, config, None, told)
        model.save(target, overwrite=overwrite, progress=told)
