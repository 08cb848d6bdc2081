"""What `chainrule evaluate` does with models that caption pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import FILE
from chainrule.cli.shared.screen import print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.cli.evaluate_pairs import PairsOptions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CaptionsOptions:
    """What a model that captions pictures is measured on."""

    pictures: Annotated[
        str | None, FILE, Parameter(help="Captioned pictures (.jsonl: image, captions), for a model that captions.")
    ] = None
    vectors: Annotated[
        str | None, FILE, Parameter(help="With --pictures: their vectors (.npy), for a captioner trained on vectors.")
    ] = None


NO_CAPTIONS = CaptionsOptions()


def evaluate_captions(model: Path, options: CaptionsOptions, pairs: PairsOptions, *, json: bool) -> None:
    """Measures a model that captions pictures and prints the result. pairs: the settings of the search.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    if options.pictures is None:
        raise CycloptsError(msg="--vectors needs --pictures, the captions of the pictures.")
    if (pairs.source, pairs.target, pairs.pairs) != (None, None, None):
        raise CycloptsError(msg="--pictures is for models that caption; leave out --source, --target and --pairs.")
    from chainrule.api.seq2seq.caption_model import MAX_TOKENS, load_captioner
    from chainrule.api.seq2seq.picture_encoder import read_vectors
    from chainrule.decoding.config import BeamConfig
    from chainrule.pictures.captions import read_captions

    config = BeamConfig(size=5 if pairs.beam is None else pairs.beam, rank_by="mean", stop="likely")
    with progress_bar() as progress:
        captioner = load_captioner(model, progress=progress)
        frame = None if captioner.encoder is None else captioner.encoder.frame
        captioned = read_captions(
            options.pictures,
            frame,
            progress=progress,
            with_pictures=options.vectors is None,
            with_boxes=captioner.needs_boxes,
        )
        measurement = captioner.evaluate(
            captioned,
            config,
            vectors=None if options.vectors is None else read_vectors(options.vectors),
            max_tokens=pairs.max_tokens or MAX_TOKENS,
            progress=progress,
        )
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)
