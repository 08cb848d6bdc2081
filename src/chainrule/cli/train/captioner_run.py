"""What train caption and train paragraph share: their options, and a run from reading pictures to the summary."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chainrule.cli.shared.arguments import FILE
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.screen import count_of, print_json, progress_bar
from chainrule.cli.train.finished_run import continues_run, data_differences, report_finished_run
from chainrule.cli.train.training_screen import TrainingScreen, note_untrained, validated_on
from chainrule.neural.config import settings_of
from chainrule.neural.config.seq2seq import Reads  # a flag
from chainrule.training.config import TrainingConfig, differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.seq2seq.caption_model import CaptionModel
    from chainrule.api.seq2seq.picture_encoder import EncoderLike, PictureEncoder
    from chainrule.cli.shared.screen import Bar
    from chainrule.neural.config.seq2seq import CaptionConfig
    from chainrule.pictures.captions import CaptionedPicture
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers

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
ReaderChoice = Annotated[
    Reads | None,
    Parameter(
        help="What reads the vectors before the decoder attends to them, those of regions from left to right; none: it "
        "attends to each as it is. By default transformer for paragraphs from regions, else none.",
        show_default=False,
    ),
]
_UNSAID = {"regions": "grid", "phrases": False, "discriminator": 0.0}  # what a record means that leaves them out


@dataclass(frozen=True, kw_only=True)
class CaptionerRun:
    """What is trained on what, and where it goes.

    size: of the pictures that the encoder reads; None: its own. training: the settings that were given. tuned,
    features, regions, phrases, discriminator: as `train_captions` takes them.
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
    regions: Literal["grid", "given", "proposed"]
    phrases: bool
    size: tuple[int, ...] | None = None
    tuned: bool | None = None
    features: str | None = None
    discriminator: float = 0.0
    began: float = field(default_factory=time.perf_counter)


def train_captioner(run: CaptionerRun) -> None:
    """Trains a captioner, saves it and prints a summary; of a run that has ended, only checks that it is the same."""
    from chainrule.api.seq2seq.picture_encoder import open_encoder
    from chainrule.training.checkpoint import is_first_process

    continues = continues_run(run.output, resume=run.resume, overwrite=run.overwrite)
    replaces = run.overwrite or continues
    is_finished = run.resume and not continues and is_model(run.output)
    if not is_finished:
        check_model_target(run.output, overwrite=replaces)
    with progress_bar() as progress:
        encoder = open_encoder(run.encoder, progress, size=run.size)
        pictures = _read(run, run.pictures, encoder, progress)
        validation = None if run.valid is None else _read(run, run.valid, encoder, progress)
        if is_finished:
            _report_finished(run, encoder, pictures)
            return
        model = _train(run, encoder, pictures, validation, progress)
        if not is_first_process():
            return
        save_or_keep(model, run.output, overwrite=replaces, progress=progress)
    _finish(run, model)


def _read(run: CaptionerRun, path: str, encoder: PictureEncoder, progress: Bar) -> Sequence[CaptionedPicture]:
    from chainrule.pictures.captions import read_captions

    return read_captions(
        path,
        encoder.frame,
        progress=progress,
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
    from chainrule.api.training.captions import train_captions

    screen = TrainingScreen(progress.close)
    model = train_captions(
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
        folder=run.output,
        resume=run.resume,
        overwrite=run.overwrite,
        on_report=screen,
        progress=progress,
    )
    screen.close()
    return model


def _report_finished(run: CaptionerRun, encoder: PictureEncoder, pictures: Sequence[CaptionedPicture]) -> None:
    """Raises SettingError where the run that has ended was another one."""
    from chainrule.api.seq2seq.caption_model import FAMILY
    from chainrule.api.training.captions import settled_config
    from chainrule.pictures.captions import digest_of_captions
    from chainrule.storage.config_json import read_config

    def other_changes(before: dict[str, Any]) -> list[str]:
        is_same = before.get("encoder", {}).get("digest") == encoder.digest()
        reads = {name: getattr(run, name) for name in _UNSAID}
        changes = differences({name: before.get(name, default) for name, default in _UNSAID.items()}, reads)
        data = data_differences(before, {"data": {"captioned pictures": digest_of_captions(pictures)}})
        return [*([] if is_same else ["the encoder differs"]), *changes, *data]

    network = settings_of(settled_config(run.config, encoder))
    if run.regions != "grid":  # their vectors follow from the encoder, whose digest is compared
        saved = read_config(run.output).settings.get("network", {})
        network |= {name: saved.get(name) for name in ("source_grid", "source_width", "phrase_width", "max_source")}
    report_finished_run(run.output, FAMILY, network, run.training, other_changes, json=run.json)


def _finish(run: CaptionerRun, model: CaptionModel) -> None:
    """Removes the checkpoints of a model that is saved, and prints a summary."""
    from chainrule.api.training.captions import DISCRIMINATOR, PHRASES
    from chainrule.base.memory import peak_memory
    from chainrule.training.checkpoint import remove_checkpoints

    for folder in (run.output / PHRASES, run.output / DISCRIMINATOR, run.output):
        remove_checkpoints(folder)
    if run.json:
        seconds = time.perf_counter() - run.began
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
        note_untrained(validation)
