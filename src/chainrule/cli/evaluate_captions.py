"""What `chainrule evaluate` does with models that caption pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.cli.screen import print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path


def evaluate_captions(
    model: Path, pictures: str, vectors: str | None, beam: int | None, max_tokens: int | None, *, json: bool
) -> None:
    """Measures a model that captions pictures and prints the result. vectors: a file .npy, for a model of vectors.

    Raises SettingError, TextError, ModelFormatError.
    """
    from chainrule.api.caption_model import MAX_TOKENS, load_captioner
    from chainrule.api.picture_encoder import read_vectors
    from chainrule.decoding.beam import BeamConfig
    from chainrule.pictures.read_captions import read_captions

    config = BeamConfig(size=5 if beam is None else beam, rank_by="mean", stop="likely")
    with progress_bar() as progress:
        captioner = load_captioner(model, progress=progress)
        frame = None if captioner.encoder is None else captioner.encoder.frame
        captioned = read_captions(pictures, frame, progress=progress, with_pictures=vectors is None)
        measurement = captioner.evaluate(
            captioned,
            config,
            vectors=None if vectors is None else read_vectors(vectors),
            max_tokens=max_tokens or MAX_TOKENS,
            progress=progress,
        )
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)
