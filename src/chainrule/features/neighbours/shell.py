"""What `chainrule mix --neural-cache` and `--neighbours` do, and `next --passages`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import Flags, WholeNumber, given_settings
from chainrule.cli.shared.parts import Part
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import note_repairs, text_for
from chainrule.features.neighbours.options import NeighbourOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.cli.shared.results import ResultOptions
    from chainrule.cli.shared.texts import TextOptions
    from chainrule.models.model import Model
    from chainrule.text.corpus.corpus import Source


def _with_neighbours(
    flags: Any,
    models: Sequence[Model],
    *,
    names: Sequence[str],
    paths: Sequence[Path],
    reading: TextOptions,
    heldout: Source | None,
    progress: Progress,
) -> list[Model]:
    """Return the models, of which the networks have neighbours. Raises SettingError if there are none."""
    from chainrule.features.context.wrapped import networks_among
    from chainrule.features.neighbours.family import LOOKS, with_neighbours

    given, are_networks = given_settings(flags), networks_among(models, names, LOOKS)
    source = None
    if "neighbours" in given:
        source = given["neighbours"] = text_for(paths, reading, given["neighbours"])
    changed: list[Model] = [
        with_neighbours(model, **given, heldout=heldout, progress=progress) if own else model
        for model, own in zip(models, are_networks, strict=True)
    ]
    if source is not None:
        note_repairs(source)
    return changed


MIX = Part(Flags[NeighbourOptions], _with_neighbours)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PassageFlags:
    """How many passages are shown."""

    passages: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="Show this many passages behind the prediction of a model with neighbours instead: what came next "
            "where the network's state was similar (mix --neural-cache, --neighbours)."
        ),
    ] = None


def _show_passages(
    flags: PassageFlags,
    *,
    model: Path,
    prompt: str,
    also: tuple[Path, ...],
    tokenizer: Any,
    markers: Any,
    show: ResultOptions,
) -> None:
    from chainrule.features.neighbours.passages import passages
    from chainrule.models.language_models import CausalModel

    if also:
        raise CycloptsError(msg="--passages are of one model; leave out --also.")
    if flags.passages is None or flags.passages < 1:
        raise CycloptsError(msg=f"--passages is {flags.passages}; expected 1 or more.")
    with progress_bar() as progress:
        opened = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        found = passages(opened, prompt, flags.passages)
    show.show(found)


NEXT = Part(PassageFlags, _show_passages, PassageFlags())
