"""chainrule train caption: trains a model that captions pictures."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.cli.shared.arguments import (
    DEFAULT_TOKENIZER,
    FILE,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TokenizerOptions,
)
from chainrule.cli.train.captioner_run import CaptionerRun, ReaderChoice, RegionChoice, Valid, train_captioner
from chainrule.cli.train.flags import flags_of, flags_of_any, given_settings
from chainrule.cli.train.neural import DEFAULT_TRAINING, Resume, TrainingFlags
from chainrule.errors import SettingError
from chainrule.neural.config.classifiers import LABELLING
from chainrule.neural.config.seq2seq import CaptionConfig
from chainrule.neural.config.vision import PictureLabelling, ResNetLabelling, ViTLabelling

if TYPE_CHECKING:
    from chainrule.api.seq2seq.picture_encoder import EncoderLike

    class CaptionFlags:
        """All fields are optional."""

    class EncoderFlags:
        """All fields are optional."""
else:
    CaptionFlags = flags_of(CaptionConfig)
    EncoderFlags = flags_of_any([ResNetLabelling, ViTLabelling], "encoder-", without=("flip", "shift"))

DEFAULT_NETWORK, DEFAULT_ENCODER = CaptionFlags(), EncoderFlags()


def caption(
    *,
    pictures: Annotated[
        str,
        FILE,
        Parameter(help='JSON lines: {"image": "1.jpg", "captions": ["a dog runs"]}; paths count from their folder.'),
    ],
    encoder: Annotated[
        str,
        Parameter(
            help="What gives the vectors of a picture's places: the folder of a classifier of pictures, kept as it is; "
            "resnet, vit or another network of train classifier, trained with the rest; or a file .npy with the "
            "vectors of each line's picture."
        ),
    ] = "resnet",
    tuned: Annotated[
        bool | None, Parameter(help="Train the classifier's network with the rest.", show_default=False)
    ] = None,
    features: Annotated[
        str | None,
        Parameter(help="Keep the vectors of pictures in this file (.safetensors), so that they are computed once."),
    ] = None,
    regions: RegionChoice = "grid",
    phrases: Annotated[bool, Parameter(help="Learn a phrase for each region first, and attend to it, too.")] = False,
    reader: ReaderChoice = None,
    valid: Valid = None,
    output: Output,
    resume: Resume = False,
    training: TrainingFlags = DEFAULT_TRAINING,
    network: CaptionFlags = DEFAULT_NETWORK,
    new_encoder: EncoderFlags = DEFAULT_ENCODER,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A model that captions pictures, by attention to their places.

        $ chainrule train caption --pictures captions.jsonl --encoder network/ -o captioner/ --minutes 5

    An encoder gives a vector for each place of a picture; a decoder attends to
    them as it writes (Xu 2015). Attention is soft, hard, or none. The encoder is
    a part of the model's folder.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    settings = given_settings(new_encoder)
    train_captioner(
        CaptionerRun(
            pictures=pictures,
            valid=valid,
            encoder=_encoder(encoder, settings),
            size=settings.get("size"),
            tuned=tuned,
            features=features,
            regions=regions,
            phrases=phrases,
            output=output,
            config=CaptionConfig(**given_settings(network), encoder=reader or "none"),
            training=given_settings(training),
            tokenizer=tokenizer.config(),
            markers=markers,
            resume=resume,
            overwrite=overwrite,
            json=json,
        )
    )


def _encoder(name: str, given: dict[str, Any]) -> EncoderLike:
    """The path, or the configuration of a new network. Raises SettingError."""
    kind = LABELLING.get(name)
    if kind is None or not issubclass(kind, PictureLabelling):
        if unsuited := [setting for setting in given if setting != "size"]:
            flag = "--encoder-" + unsuited[0].replace("_", "-")
            raise SettingError(f"{flag} is a setting of a new encoder, such as --encoder resnet; leave it out")
        return name
    known = {field.name for field in fields(kind)}
    if unknown := [setting for setting in given if setting not in known]:
        flag = "--encoder-" + unknown[0].replace("_", "-")
        raise SettingError(f"{flag} is not a setting of --encoder {name}; leave it out")
    return kind(**given)
