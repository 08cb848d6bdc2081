"""The options of training captioners: keywords in Python, flags on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from chainrule.base.options import changed, option
from chainrule.models.run_options import RunOptions, TokenOptions
from chainrule.verbs.training.options import TextRunOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from chainrule.features.seq2seq.network.config import CaptionConfig
    from chainrule.features.seq2seq.options import Regions
    from chainrule.features.vision.picture_encoder import EncoderLike, PictureEncoder
    from chainrule.features.vision.pictures.captions import CaptionedPicture
    from chainrule.training.config import TrainingConfig

    AnyPath = str | PathLike[str]


@dataclass(frozen=True)
class TrainCaptionsOptions(RunOptions, TokenOptions):
    """The captioner to train, and its pictures."""

    pictures: Sequence[CaptionedPicture]
    config: CaptionConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    encoder: EncoderLike | PictureEncoder = option(
        "resnet",
        "what encodes pictures: the folder of a picture classifier, which is not trained further; resnet, vit or "
        "another network of train classifier, trained with the rest; or a .npy file with the vectors of each line's "
        "picture",
    )
    tuned: bool | None = option(None, "train the classifier's network with the rest")
    features: AnyPath | None = option(
        None, "a file that caches the vectors of pictures (.safetensors), so that they are computed once"
    )
    regions: Regions = option(
        "grid",
        "what gets a vector. grid: the places of the encoder's last maps; given: the boxes in each line, "
        '"boxes": [{"box": [left, top, right, bottom], "phrase": "a brown dog"}]; proposed: boxes that the encoder '
        "finds, a classifier with --unit box",
    )
    phrases: bool = option(False, "learn a phrase for each region first, and attend to it, too")
    discriminator: float = option(
        0.0,
        "weight of the rewards, in a second phase of a quarter of the budget, for sentences that a discriminator "
        "takes for human ones, by themselves and after the sentences before them (Liang 2017); 0: no such phase",
    )
    training: TrainingConfig | None = changed(TextRunOptions, "training")
    validation: Sequence[CaptionedPicture] | None = option(
        None,
        "captioned pictures to choose the best weights by; by default the last training pictures",
        flag="valid",
        reads="file",
    )
