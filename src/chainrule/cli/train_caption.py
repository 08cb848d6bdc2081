"""chainrule train caption: trains a model that captions pictures."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from chainrule.cli.arguments import DEFAULT_TOKENIZER, FILE, Json, MarkerRule, Output, Overwrite, TokenizerOptions
from chainrule.cli.finished_run import continues_run, data_differences, report_finished_run
from chainrule.cli.flags import flags_of, flags_of_any, given_settings
from chainrule.cli.models import check_model_target, is_model, save_or_keep
from chainrule.cli.screen import count_of, print_json, progress_bar
from chainrule.cli.train_neural import DEFAULT_TRAINING, Resume, TrainingFlags
from chainrule.cli.training_screen import TrainingScreen, note_untrained, validated_on
from chainrule.errors import SettingError
from chainrule.neural.config import settings_of
from chainrule.neural.config.caption import CaptionConfig
from chainrule.neural.config.labelling import LABELLING
from chainrule.neural.config.pictures import PictureLabelling, ResNetLabelling, ViTLabelling
from chainrule.training.config import TrainingConfig
from chainrule.training.resume_check import differences

if TYPE_CHECKING:
    from chainrule.api.caption_model import CaptionModel
    from chainrule.api.picture_encoder import EncoderLike

    class CaptionFlags:
        """All fields are optional."""

    class ParagraphFlags:
        """All fields are optional."""

    class EncoderFlags:
        """All fields are optional."""
else:
    CaptionFlags = flags_of(CaptionConfig)
    ParagraphFlags = flags_of_any([CaptionConfig], without=("decoder",))
    EncoderFlags = flags_of_any([ResNetLabelling, ViTLabelling], "encoder-", without=("flip", "shift"))

DEFAULT_NETWORK, DEFAULT_PARAGRAPH, DEFAULT_ENCODER = CaptionFlags(), ParagraphFlags(), EncoderFlags()
_GRID = {"regions": "grid", "phrases": False}  # what of a picture is read by default


Pictures = Annotated[
    str,
    FILE,
    Parameter(help='JSON lines: {"image": "1.jpg", "captions": ["a dog runs"]}; paths count from their folder.'),
]
Valid = Annotated[
    str | None,
    FILE,
    Parameter(help="Captioned pictures to choose the best weights by; by default the last training pictures."),
]
RegionChoice = Annotated[
    Literal["grid", "given", "proposed"],
    Parameter(
        help="What gets a vector. grid: the places of the encoder's last maps; given: the boxes in each line, "
        '"boxes": [{"box": [left, top, right, bottom], "phrase": "a brown dog"}]; proposed: boxes that the encoder '
        "finds, a classifier with --unit box."
    ),
]


def caption(
    *,
    pictures: Pictures,
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
    phrases: Annotated[
        bool, Parameter(help="Learn a phrase for each region first, and attend to its words, too.")
    ] = False,
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
    _train(
        _Request(
            pictures,
            encoder,
            valid,
            output,
            given_settings(new_encoder),
            {"tuned": tuned, "features": features, "regions": regions, "phrases": phrases},
        ),
        CaptionConfig(**given_settings(network)),
        given_settings(training),
        {"tokenizer": tokenizer.config(), "markers": markers, "resume": resume, "overwrite": overwrite},
        json=json,
    )


def paragraph(
    *,
    pictures: Annotated[
        str,
        FILE,
        Parameter(
            help='JSON lines: {"image": "1.jpg", "captions": ["a dog runs . it is brown ."], "boxes": [{"box": [10, '
            '20, 60, 90], "phrase": "a brown dog"}]}; paths count from their folder.'
        ),
    ],
    encoder: Annotated[
        str,
        Parameter(help="What finds regions and gives their vectors: the folder of a classifier, see --regions."),
    ],
    regions: RegionChoice = "proposed",
    phrases: Annotated[
        bool | None,
        Parameter(
            help="Learn a phrase for each region first, and attend to its words, too; by default where there are "
            "regions.",
            show_default=False,
        ),
    ] = None,
    valid: Valid = None,
    output: Output,
    resume: Resume = False,
    training: TrainingFlags = DEFAULT_TRAINING,
    network: ParagraphFlags = DEFAULT_PARAGRAPH,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A model that writes paragraphs about pictures, from regions and a phrase for each.

        $ chainrule train paragraph --pictures scenes.jsonl --encoder detector/ -o teller/ --minutes 5

    First, what writes a phrase for a region is learned. Then an LSTM gives each
    sentence a topic, and another writes its words, with attention to regions and
    to the words of their phrases (Krause 2017). After each sentence it goes on,
    or ends.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    _train(
        _Request(
            pictures,
            encoder,
            valid,
            output,
            {},
            {"regions": regions, "phrases": regions != "grid" if phrases is None else phrases},
        ),
        CaptionConfig(**given_settings(network), decoder="hierarchical"),
        given_settings(training),
        {"tokenizer": tokenizer.config(), "markers": markers, "resume": resume, "overwrite": overwrite},
        json=json,
    )


class _Request(NamedTuple):
    """What is trained on what.

    new_encoder: the settings of an encoder that is new. source: what of a picture is read, as `train_captions` takes
    it.
    """

    pictures: str
    encoder: str
    valid: str | None
    output: Path
    new_encoder: dict[str, Any]
    source: dict[str, Any]


def _train(
    request: _Request, config: CaptionConfig, settings: dict[str, Any], options: dict[str, Any], *, json: bool
) -> None:
    """Trains and saves a model. settings: of the training, as given. options: of tokens and of the run."""
    from chainrule.api.caption_model import FAMILY
    from chainrule.api.picture_encoder import open_encoder
    from chainrule.api.train_captions import settled_config, train_captions
    from chainrule.api.train_phrases import PHRASES
    from chainrule.base.memory import peak_memory
    from chainrule.pictures.read_captions import digest_of_captions, read_captions
    from chainrule.storage.config_json import read_config
    from chainrule.training.run_folder import is_first_process, remove_checkpoints

    output, resume, overwrite = request.output, options["resume"], options["overwrite"]
    continues = continues_run(output, resume=resume, overwrite=overwrite)
    replaces = overwrite or continues
    is_finished = resume and not continues and is_model(output)
    if not is_finished:
        check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress_bar() as progress:
        given = request.new_encoder
        opened = open_encoder(_encoder(request.encoder, given), progress, size=given.get("size"))
        train_set, held = (
            None
            if name is None
            else read_captions(
                name,
                opened.frame,
                progress=progress,
                with_pictures=opened.vectors is None,
                with_boxes=request.source["regions"] != "grid",
            )
            for name in (request.pictures, request.valid)
        )
        assert train_set is not None
        if is_finished:

            def other_changes(before: dict[str, Any]) -> list[str]:
                is_same = before.get("encoder", {}).get("digest") == opened.digest()
                data = data_differences(before, {"data": {"captioned pictures": digest_of_captions(train_set)}})
                changed = differences(
                    {name: before.get(name, default) for name, default in _GRID.items()},
                    {name: request.source[name] for name in _GRID},
                )
                return [*([] if is_same else ["the encoder differs"]), *changed, *data]

            known = settings_of(settled_config(config, opened))
            if request.source["regions"] != "grid":  # their vectors follow from the encoder, whose digest is compared
                saved = read_config(output).settings.get("network", {})
                known |= {name: saved.get(name) for name in ("source_grid", "source_width", "word_width", "max_source")}
            report_finished_run(output, FAMILY, known, settings, other_changes, json=json)
            return
        screen = TrainingScreen(progress.close)
        model = train_captions(
            train_set,
            config,
            encoder=opened,
            training=TrainingConfig(**settings),
            validation=held,
            folder=output,
            on_report=screen,
            progress=progress,
            **request.source,
            **options,
        )
        screen.close()
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=replaces, progress=progress)
    for folder in (output / PHRASES, output):
        remove_checkpoints(folder)
    summary = {"model": str(output), "total_seconds": time.perf_counter() - began, "peak_memory_bytes": peak_memory()}
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, str(output), model)


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


def _print_summary(record: dict[str, Any], output: str, model: CaptionModel) -> None:
    places = f"{model.grid[0]} x {model.grid[1]} places"
    if model.regions is not None:
        places = f"{record['regions']} regions" + (" and their phrases" if record["phrases"] else "")
    print(f"{output}: captioner with {record['parameters']:,} trained parameters, {places}")
    speed = record["tokens_seen"] / max(record["training_seconds"], 1e-9)
    print(
        f"{count_of(record['steps'], 'step')}, {record['tokens_seen']:,} tokens of {record['tokens']:,} in "
        f"{record['documents']:,} captions of {record['pictures']:,} pictures, in {record['training_seconds']:.1f} s "
        f"of training: {speed:,.0f} tokens/s"
    )
    if "validation" in record:
        validation = record["validation"]
        print(
            f"validation: {validation['loss']:.4f} nats a token on {validated_on(validation)} of "
            f"{validation['pairs']:,} captions, best after step {validation['step']:,}"
        )
        note_untrained(validation)
