"""chainrule train speech: trains a network that hears, on sounds with their transcripts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    Output,
    Overwrite,
    Resume,
    flag,
    given_settings,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.cli.train.run_output import (
    continues_run,
    cost_line,
    data_differences,
    note_untrained,
    report_finished_run,
    shown_run,
    summary_of,
)
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.features.speech.train_options import TrainSpeechOptions
from chainrule.neural.config import settings_of
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from chainrule.cli.shared.screen import Bar
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.text.corpus.bad_records import BadRecords


def speech(
    transcripts: Annotated[
        str,
        FILE,
        Parameter(
            help="Sounds with what is said in them: .tsv or .csv of a path and a text; .jsonl: audio, text; a folder "
            "of .wav or .flac with .txt beside them, or of LibriSpeech's."
        ),
    ],
    /,
    *,
    valid: Annotated[str | None, flag(TrainSpeechOptions, "validation")] = None,
    output: Output,
    resume: Resume = False,
    training: Flags[TrainingConfig] = NO_FLAGS,
    network: Flags[SpeechConfig] = NO_FLAGS,
    records: RecordFlags = NO_FLAGS,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A speech recogniser, trained by CTC: from sounds to texts.

        $ chainrule train speech spoken/train.tsv -o speech/ --minutes 5

    Sounds become log-mel frames; an LSTM, a GRU or a Transformer reads them both
    ways, perhaps after convolutions. It learns by CTC, over all alignments of the
    transcripts' characters (Graves 2006, 2013), so that transcripts need no times.

    Transcripts that cannot be read, or have more characters than their sound has
    steps, are reported and left out.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    from chainrule.features.speech.model import FAMILY
    from chainrule.features.speech.training import data_of, divided, resolve_config, train_speech
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints

    began = time.perf_counter()
    continues = continues_run(output, resume=resume, overwrite=overwrite)
    config, settings = SpeechConfig(**given_settings(network)), given_settings(training)
    options = TrainingConfig(**settings)
    is_finished = resume and not continues and is_model(output)
    if not is_finished:
        check_model_target(output, overwrite=overwrite or continues)
    inputs = [transcripts, *filter(None, [valid])]
    with progress_bar() as progress, bad_records(records, "skip", *inputs) as bad:
        spoken = _read(transcripts, config, progress, bad)
        validation = None if valid is None else _read(valid, config, progress, bad)
        if is_finished:
            learned, held_out = divided(spoken, validation, options)

            def other_changes(before: dict[str, Any]) -> list[str]:
                return data_differences(before, {"data": data_of(learned, held_out)})

            own = settings_of(resolve_config(config, learned))
            report_finished_run(output, FAMILY, own, settings, other_changes, json=json)
            return
        with shown_run(progress, output, resume=resume, overwrite=overwrite) as run:
            model = train_speech(spoken, config, training=options, validation=validation, on_error=bad, **run)
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=overwrite or continues, progress=progress)
    remove_checkpoints(output)
    summary = summary_of(output, began, model.record)
    if json:
        print_json({**model.record, **summary})
        return
    record = model.record
    print(
        f"{output}: speech model with {record['parameters']:,} parameters, {len(model.labels)} labels and the blank\n"
        f"{count_of(record['steps'], 'step')} over {record['hours']:.2f} h of {record['sounds']:,} sounds, in "
        f"{record['training_seconds']:.1f} s of training"
    )
    if "validation" in record:
        own = record["validation"]
        print(
            f"validation: {own['loss']:.4f} nats a character, {own['accuracy']:.1%} right without a search, best after "
            f"step {own['step']:,}"
        )
        note_untrained(record)
    print(cost_line(summary, record))


def _read(path: str, config: SpeechConfig, progress: Bar, bad: BadRecords) -> list[Transcript]:
    """Raises TextError where there is none."""
    from chainrule.features.speech.sounds.transcripts import read_transcripts

    return read_transcripts(path, bad, progress, rate=config.rate, mels=config.mels, on_note=note)
