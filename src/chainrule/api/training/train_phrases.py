"""Trains what writes a phrase for a region of a picture, before a model of captions that attends to regions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.api.conditional.regions import RegionReader
from chainrule.errors import SettingError, TextError
from chainrule.neural.config.seq2seq import CaptionConfig
from chainrule.pictures.captions import digest_of_captions
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.conditional.picture_encoder import PictureEncoder
    from chainrule.api.conditional.regions import Regions
    from chainrule.pictures.captions import CaptionedPicture
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.training.config import TrainingConfig, TrainingRun

PHRASES = "phrases"  # of checkpoints, in the folder of the run
_SHARE = 0.25  # of the budget of the whole
_STEPS = 1000  # at most, of what writes phrases


def check_regions(encoder: PictureEncoder, regions: Regions, *, phrases: bool, tuned: bool, features: object) -> None:
    """Raises SettingError where an encoder cannot give such regions."""
    if regions not in ("grid", "given", "proposed"):
        raise SettingError(f"regions is {regions!r}; expected grid, given or proposed")
    if regions == "grid":
        if phrases:
            raise SettingError("a grid has no phrases; use regions='given', regions='proposed' or phrases=False")
        return
    if encoder.vectors is not None:
        raise SettingError(f"{encoder.name}: has the vectors of places, not of regions; use regions='grid'")
    if tuned:
        raise SettingError(
            "regions are of an encoder that is kept as it is; name a classifier of pictures or of boxes, and leave "
            "tuned out"
        )
    if features is not None:
        raise SettingError("features keeps the vectors of a grid; leave it out, or use regions='grid'")
    if regions == "proposed" and encoder.detector is None:
        raise SettingError(
            f"the encoder {encoder.name} proposes no boxes; train a classifier with unit='box', or use regions='given'"
        )


def check_phrases(pictures: Sequence[CaptionedPicture]) -> None:
    """Raises TextError where a phrase of each region is to be learned, but a picture has no boxes."""
    for item in pictures:
        if item.boxes is None:
            raise TextError(
                f"{item.place}: there are no boxes, whose phrases are to be learned; add boxes beside the captions, or "
                "use phrases=False"
            )
    if not any(len(item.boxes) for item in pictures if item.boxes is not None):
        raise TextError(
            f"{pictures[0].place}: neither here nor in what follows is there a box with a phrase; add boxes beside the "
            "captions, or use phrases=False"
        )


def open_regions(encoder: PictureEncoder, regions: Regions, tokenizer: Tokenizer) -> RegionReader:
    """What reads regions, as yet without phrases. `check_regions` has checked the encoder."""
    from chainrule.neural.seq2seq.captioner import without_pool

    assert encoder.config is not None
    assert encoder.body is not None
    return RegionReader(
        encoder.config, without_pool(encoder.body), encoder.detector if regions == "proposed" else None, tokenizer
    )


def train_phrases(
    reader: RegionReader,
    pictures: Sequence[CaptionedPicture],
    config: CaptionConfig,
    training: TrainingConfig,
    run: TrainingRun,
) -> RegionReader:
    """The reader with what writes phrases, trained on the boxes given with pictures. Raises as `train_captions`."""
    from chainrule.neural.seq2seq.model import ConditionalModel
    from chainrule.training.objectives.seq2seq import TokenPairs, pairs_job
    from chainrule.training.run import run_job

    sources = [cells for item in pictures for cells in reader.cells(item)]
    phrases = [phrase for item in pictures if item.boxes is not None for phrase in _kept(reader, item)]
    targets = documents_of(reader.tokenizer.encode_texts(phrases).ids)
    settled = CaptionConfig(
        width=config.width,
        dropout=config.dropout,
        source_grid=(),
        source_width=sources[0].shape[1],
        max_source=len(sources[0]),
    )
    origin = {"family": PHRASES, "pictures": digest_of_captions(pictures)}
    job = pairs_job(
        TokenPairs(sources, list(targets)),
        None,
        (0, reader.tokenizer.vocabulary_size),
        settled,
        replace(training, valid_share=0, **_budget(training)),
        origin,
    )
    folder = None if run.folder is None else run.folder / PHRASES
    network, _ = run_job(replace(job, whole=training), replace(run, folder=folder))
    return replace(reader, phrases=ConditionalModel(network))


def _kept(reader: RegionReader, item: CaptionedPicture) -> Sequence[str]:
    """The phrases of the boxes that the frame does not cut off."""
    from chainrule.pictures.boxes import boxes_framed

    assert item.picture is not None
    assert item.boxes is not None
    return boxes_framed(item.picture, item.boxes, reader.encoder.frame)


def quarter(training: TrainingConfig) -> dict[str, Any]:
    """A quarter of the budget of a run, for a phase of it."""
    from chainrule.training.config import BUDGETS, DEFAULT_MINUTES

    given = {name: getattr(training, name) for name in BUDGETS if getattr(training, name) is not None}
    [(name, whole)] = (given or {"minutes": DEFAULT_MINUTES}).items()
    share = whole * _SHARE
    return {**dict.fromkeys(BUDGETS), name: max(1, int(share)) if name in ("steps", "tokens") else share}


def _budget(training: TrainingConfig) -> dict[str, Any]:
    """Of phrases, which are learned in few passes over many boxes: few steps, unless minutes were given."""
    budget = quarter(training)
    if training.minutes is not None:
        return budget
    return {**dict.fromkeys(budget), "steps": min(_STEPS, budget["steps"] or _STEPS)}
