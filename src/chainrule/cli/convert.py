"""chainrule convert SOURCE TARGET: between model folders and ARPA files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import ModelPath, Overwrite, TokenizerName
from chainrule.cli.models import check_model_target
from chainrule.cli.screen import note, progress


def convert(
    source: ModelPath,
    target: Annotated[Path, Parameter(help="A new model folder, or a file that ends in .arpa, .arpa.gz, .bz2 or .xz.")],
    /,
    *,
    tokenizer: TokenizerName = "whitespace",
    overwrite: Overwrite = False,
) -> None:
    """Between model folders and ARPA files.

    An ARPA file does not say how its text was cut into tokens: say it with
    --tokenizer if not at white space.
    """
    from chainrule.model import load

    check_model_target(target, overwrite=overwrite)
    with progress() as told:
        model = load(source, tokenizer=tokenizer, progress=told)
        model.save(target, overwrite=overwrite, progress=told)
    for warning in model.record.get("warnings", []):
        note(warning)
