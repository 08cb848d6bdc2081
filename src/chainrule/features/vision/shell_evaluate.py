"""What `chainrule evaluate` does with captioners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.measures import ShellMeasure
from chainrule.cli.shared.options import FILE, Needs, given_settings
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import bad_records

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.cli.shared.measures import Given


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CaptionsOptions:
    """What a captioner is measured on."""

    pictures: Annotated[
        str | None, FILE, Parameter(help="Captioned pictures (.jsonl: image, captions), for a captioner.")
    ] = None
    vectors: Annotated[
        str | None,
        FILE,
        Parameter(help="With --pictures: their vectors (.npy), for a captioner trained on vectors."),
        Needs("pictures"),
    ] = None


NO_CAPTIONS = CaptionsOptions()


def measure_captioner(model: Path, options: CaptionsOptions, given: Given) -> None:
    """Measure a captioner and show the result. Raises as `ShellMeasure`."""
    if options.pictures is None:
        raise CycloptsError(msg=f"{model} captions pictures; measure it with --pictures.")
    given.refuse_texts("--pictures", "captioners")
    pairs = given.flags["conditional"]
    if (pairs.source, pairs.target, pairs.pairs) != (None, None, None):
        raise CycloptsError(msg="--pictures is for captioners; leave out --source, --target and --pairs.")
    from chainrule.features.vision.model import CaptionModel
    from chainrule.features.vision.picture_encoder import read_vectors
    from chainrule.features.vision.pictures.captions import read_captions
    from chainrule.models.files.opening import load

    with progress_bar() as progress, bad_records(given.reading, "stop", options.pictures) as bad:
        captioner = load(model, CaptionModel, progress=progress)
        frame = None if captioner.encoder is None else captioner.encoder.frame
        captioned = read_captions(
            options.pictures,
            frame,
            bad,
            progress,
            with_pictures=options.vectors is None,
            with_boxes=captioner.needs_boxes,
        )
        measurement = captioner.evaluate(
            captioned,
            vectors=None if options.vectors is None else read_vectors(options.vectors),
            progress=progress,
            **given_settings(pairs.writing),
        )
    given.show.show(measurement)


EVALUATE = ShellMeasure(CaptionsOptions, NO_CAPTIONS, measure_captioner, also=("conditional",))
