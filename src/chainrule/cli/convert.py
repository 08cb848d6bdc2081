"""chainrule convert SOURCE TARGET: between model folders and ARPA files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Overwrite
from chainrule.cli.models import check_model_target, opened
from chainrule.cli.screen import progress


def convert(
    source: ModelPath,
    target: Annotated[Path, Parameter(help="A new model folder, or a file that ends in .arpa, .arpa.gz, .bz2 or .xz.")],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    overwrite: Overwrite = False,
) -> None:
    """Between model folders and ARPA files.

    An ARPA file does not say how its text was cut into tokens. The marks of our
    own tokenizers are recognised; else it is taken to be cut at white space.
    """
    check_model_target(target, overwrite=overwrite)
    with progress() as told:
        model = opened(source, tokenizer, None, told)
        model.save(target, overwrite=overwrite, progress=told)
