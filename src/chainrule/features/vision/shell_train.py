"""The verbs train caption and train paragraph, and their common run, from reading pictures to the summary."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    Resume,
    TokenizerFlags,
    flag,
    flags_of_any,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.cli.train.run_output import (
    continues_run,
    data_differences,
    note_untrained,
    report_finished_run,
    shown_run,
    validated_on,
)
from chainrule.errors import SettingError
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.seq2seq.network.config import CaptionConfig, Reads
from chainrule.features.seq2seq.options import Regions  # a flag
from chainrule.features.vision.network.config import PictureLabelling, ResNetLabelling, ViTLabelling
from chainrule.features.vision.options import TrainCaptionsOptions
from chainrule.neural.config import settings_of
from chainrule.training.config import TrainingConfig, differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.cli.shared.screen import Bar
    from chainrule.features.vision.model import CaptionModel
    from chainrule.features.vision.picture_encoder import EncoderLike, PictureEncoder
    from chainrule.features.vision.pictures.captions import CaptionedPicture
    from chainrule.text.corpus.bad_records import BadRecords
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers

Valid = Annotated[str | None, flag(TrainCaptionsOptions, "validation")]
RegionChoice = Annotated[Regions, flag(TrainCaptionsOptions, "regions")]
ReaderChoice = Annotated[
    Reads | None,
    Parameter(
        help="What reads the vectors before the decoder attends to them, those of regions from left to right; none: "
        "the decoder attends to the vectors themselves. By default transformer for paragraphs from regions, else "
        "none.",
        show_default=False,
    ),
]
_UNSAID = {"regions": "grid", "phrases": False, "discriminator": 0.0}  # the values of records that leave them out


@dataclass(frozen=True, kw_only=True)
class CaptionerRun:
    """What is trained, on what data, and where the model goes.

    size: height and width of the pictures that the encoder reads; None for its own. training: the settings that were
    given. tuned, features, regions, phrases, discriminator: as for `train_captions`.
    """

    pictures: str
    valid: str | None
    encoder: EncoderLike
    output: Path
    config: CaptionConfig
    training: dict[str, Any]
    tokenizer: TokenizerConfig
    markers: Markers
    resume: bool
    overwrite: bool
    json: bool
    regions: Regions
    phrases: bool
    size: tuple[int, ...] | None = None
    tuned: bool | None = None
    features: str | None = None
    discriminator: float = 0.0
    records: RecordFlags = NO_FLAGS
    began: float = field(default_factory=time.perf_counter)


def train_captioner(run: CaptionerRun) -> None:
    """Train a captioner, save it and print a summary; of a run that has ended, only check that it is the same."""
    from chainrule.features.vision.picture_encoder import open_encoder
    from chainrule.training.checkpoint import is_first_process

    continues = continues_run(run.output, resume=run.resume, overwrite=run.overwrite)
    replaces = run.overwrite or continues
    is_finished = run.resume and not continues and is_model(run.output)
    if not is_finished:
        check_model_target(run.output, overwrite=replaces)
    files = [run.pictures, *filter(None, [run.valid])]
    with progress_bar() as progress, bad_records(run.records, "stop", *files) as bad:
        encoder = open_encoder(run.encoder, progress, size=run.size)
        pictures = _read(run, run.pictures, encoder, progress, bad)
        validation = None if run.valid is None else _read(run, run.valid, encoder, progress, bad)
        if is_finished:
            _report_finished(run, encoder, pictures)
            return
        model = _train(run, encoder, pictures, validation, progress)
        if not is_first_process():
            return
        save_or_keep(model, run.output, overwrite=replaces, progress=progress)
    _finish(run, model)


def _read(
    run: CaptionerRun, path: str, encoder: PictureEncoder, progress: Bar, bad: BadRecords
) -> Sequence[CaptionedPicture]:
    from chainrule.features.vision.pictures.captions import read_captions

    return read_captions(
        path,
        encoder.frame,
        bad,
        progress,
        with_pictures=encoder.vectors is None,
        with_boxes=run.regions != "grid",
    )


def _train(
    run: CaptionerRun,
    encoder: PictureEncoder,
    pictures: Sequence[CaptionedPicture],
    validation: Sequence[CaptionedPicture] | None,
    progress: Bar,
) -> CaptionModel:
    from chainrule.features.vision.training import train_captions

    with shown_run(progress, run.output, resume=run.resume, overwrite=run.overwrite) as options:
        return train_captions(
            pictures,
            run.config,
            encoder=encoder,
            tuned=run.tuned,
            features=run.features,
            regions=run.regions,
            phrases=run.phrases,
            discriminator=run.discriminator,
            tokenizer=run.tokenizer,
            markers=run.markers,
            training=TrainingConfig(**run.training),
            validation=validation,
            **options,
        )


def _report_finished(run: CaptionerRun, encoder: PictureEncoder, pictures: Sequence[CaptionedPicture]) -> None:
    """Report that the run has ended. Raises SettingError where the run that has ended was another one."""
    from chainrule.features.vision.model import FAMILY
    from chainrule.features.vision.pictures.captions import digest_of_captions
    from chainrule.features.vision.training import resolve_config
    from chainrule.storage.config_json import read_config

    def other_changes(before: dict[str, Any]) -> list[str]:
        is_same = before.get("encoder", {}).get("digest") == encoder.digest()
        reads = {name: getattr(run, name) for name in _UNSAID}
        changes = differences({name: before.get(name, default) for name, default in _UNSAID.items()}, reads)
        data = data_differences(before, {"data": {"captioned pictures": digest_of_captions(pictures)}})
        return [*([] if is_same else ["the encoder differs"]), *changes, *data]

    network = settings_of(resolve_config(run.config, encoder))
    if run.regions != "grid":  # their vectors follow from the encoder, whose digest is compared
        saved = read_config(run.output).settings.get("network", {})
        network |= {name: saved.get(name) for name in ("source_grid", "source_width", "phrase_width", "max_source")}
    report_finished_run(run.output, FAMILY, network, run.training, other_changes, json=run.json)


def _finish(run: CaptionerRun, model: CaptionModel) -> None:
    """Remove the checkpoints of a model that is saved, and print a summary."""
    from chainrule.base.memory import peak_memory
    from chainrule.features.vision.training import DISCRIMINATOR, PHRASES
    from chainrule.models.run import seconds_since
    from chainrule.training.checkpoint import remove_checkpoints

    for folder in (run.output / PHRASES, run.output / DISCRIMINATOR, run.output):
        remove_checkpoints(folder)
    if run.json:
        seconds = seconds_since(run.began, model.record)
        summary = {"model": str(run.output), "total_seconds": seconds, "peak_memory_bytes": peak_memory()}
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, str(run.output), model)


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
        note_untrained(record)


if TYPE_CHECKING:
    EncoderFlags: TypeAlias = Any
    ParagraphFlags: TypeAlias = Any
else:
    EncoderFlags = flags_of_any([ResNetLabelling, ViTLabelling], "encoder-", without=("flip", "shift"))
    ParagraphFlags = flags_of_any([CaptionConfig], without=("decoder",))


def caption(
    *,
    pictures: Annotated[
        str,
        FILE,
        Parameter(help='JSON lines: {"image": "1.jpg", "captions": ["a dog runs"]}; paths count from their folder.'),
    ],
    encoder: Annotated[str, flag(TrainCaptionsOptions, "encoder")] = "resnet",
    tuned: Annotated[bool | None, flag(TrainCaptionsOptions, "tuned"), Parameter(show_default=False)] = None,
    features: Annotated[str | None, flag(TrainCaptionsOptions, "features")] = None,
    regions: RegionChoice = "grid",
    phrases: Annotated[bool, flag(TrainCaptionsOptions, "phrases")] = False,
    reader: ReaderChoice = None,
    valid: Valid = None,
    records: RecordFlags = NO_FLAGS,
    output: Output,
    resume: Resume = False,
    training: Flags[TrainingConfig] = NO_FLAGS,
    network: Flags[CaptionConfig] = NO_FLAGS,
    new_encoder: EncoderFlags = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A captioner: describes pictures, with attention to their parts.

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
            tokenizer=tokenizer_of(tokenizer),
            markers=markers,
            resume=resume,
            overwrite=overwrite,
            json=json,
            records=records,
        )
    )


def _encoder(name: str, given: dict[str, Any]) -> EncoderLike:
    """Return the path, or the configuration of a new network. Raises SettingError."""
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
            help="Learn a phrase for each region first, and attend to it, too; by default where there are regions.",
            show_default=False,
        ),
    ] = None,
    reader: ReaderChoice = None,
    discriminator: Annotated[float, flag(TrainCaptionsOptions, "discriminator")] = 0.0,
    valid: Valid = None,
    records: RecordFlags = NO_FLAGS,
    output: Output,
    resume: Resume = False,
    training: Flags[TrainingConfig] = NO_FLAGS,
    network: ParagraphFlags = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A model that writes paragraphs about pictures, from regions and a phrase for each.

        $ chainrule train paragraph --pictures scenes.jsonl --encoder detector/ -o teller/ --minutes 5

    First, a decoder of phrases for regions is trained. Then a Transformer reads
    regions and their phrases; an LSTM gives each sentence a topic, and another
    writes its words, with attention to the regions (Krause 2017). After each
    sentence, the model writes another one or ends the paragraph.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    train_captioner(
        CaptionerRun(
            pictures=pictures,
            valid=valid,
            encoder=encoder,
            regions=regions,
            phrases=regions != "grid" if phrases is None else phrases,
            discriminator=discriminator,
            output=output,
            config=CaptionConfig(
                **given_settings(network),
                decoder="hierarchical",
                encoder=reader or ("none" if regions == "grid" else "transformer"),
            ),
            training=given_settings(training),
            tokenizer=tokenizer_of(tokenizer),
            markers=markers,
            resume=resume,
            overwrite=overwrite,
            json=json,
            records=records,
        )
    )
