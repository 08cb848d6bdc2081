"""chainrule attend MODEL TEXT [TARGET] -o FILE: where a network looks, as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Overwrite
from chainrule.cli.models import opened
from chainrule.cli.screen import progress
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.api.attend import AttentionMaps
    from chainrule.base.progress import Progress


def attend(
    model: Annotated[Path, Parameter(help="The folder of a Transformer, or of a model of one text given another.")],
    text: Annotated[str, Parameter(help="The text that is read; of pairs, the source.", allow_leading_hyphen=True)],
    target: Annotated[
        str | None,
        Parameter(help="Of pairs: the target; by default what the model writes.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="A page, .html, or a picture, .svg.")],
    overwrite: Overwrite = False,
) -> None:
    """Show where a network looks: maps of all its layers and heads.

    Each row of a map is a token that looks, each column one that is looked at;
    </s> stands before a text, and after one that is read from both sides. Of
    pairs, a row of the target is the token that the model writes there, as in
    translate --alignments and --json: the target is read from </s> on, and
    written up to </s>. The page needs no other file, no script and no network.
    """
    from chainrule.api.attend import check_target

    if output.suffix.lower() not in (".html", ".svg"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html or .svg.")
    check_target(output, overwrite=overwrite)
    with progress() as told:
        found = _maps(model, text, target, told)
    found.save(output, overwrite=overwrite)
    count = sum(len(each.weights) for each in found.maps)
    print(f"{output}: {count} map{'s' * (count != 1)}")


def _maps(path: Path, text: str, target: str | None, told: Progress) -> AttentionMaps:
    """Raises ModelFormatError, SettingError."""
    from chainrule.api.attend import attend as attended
    from chainrule.api.pair_model import FAMILY, load_pairs
    from chainrule.storage.config_json import read_config

    if path.is_dir() and read_config(path).family == FAMILY:
        return attended(load_pairs(path), text, target)
    if target is not None:
        raise SettingError(
            f"{path}: a language model reads one text; leave out the second, {target!r}, or give a model of pairs"
        )
    return attended(opened(path, None, None, told), text)
