"""Trains networks that hear, by CTC on sounds with their transcripts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.options import takes
from chainrule.errors import TextError
from chainrule.features.metrics.error_rates import CharacterErrors
from chainrule.features.speech.model import FAMILY, SpeechModel
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.features.speech.sounds.transcripts import check_transcripts, digest_of_transcripts, hours_of
from chainrule.features.speech.train_options import TrainSpeechOptions
from chainrule.models.progress_line import showing
from chainrule.models.run import record_header, seconds_since, training_run
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.speech.objective import SpokenExample
    from chainrule.features.speech.sounds.transcripts import Transcript


@takes(TrainSpeechOptions)
def train_speech(options: TrainSpeechOptions) -> SpeechModel:
    """Train a network that hears: it writes the characters of the transcripts.

    transcripts: sounds with what is said in them, as `read_transcripts` gives them. validation: others, to choose the
    best weights by; by default, the last ones. on_error: a callback that gets a TextError for each transcript that is
    too long for its sound or, in validation, has a character that training has not, which is left out; without it, the
    error is raised. The other arguments, and the errors, are those of `train`. Ctrl-C ends training with the best
    weights so far, once some were validated.

    good:  chainrule.train_speech(chainrule.read_transcripts("train.tsv"), folder="speech/").save("speech/")
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainSpeechOptions, progress: Progress) -> SpeechModel:
    from chainrule.features.speech.objective import ctc_job
    from chainrule.training.run import run_job

    run = training_run(options, progress)
    began = time.perf_counter()
    config, training = options.config or SpeechConfig(), options.training or TrainingConfig()
    given = check_transcripts(options.transcripts, config.mels)
    validation = None if options.validation is None else check_transcripts(options.validation, config.mels)
    transcripts, held_out = divided(given, validation, training)
    config = resolve_config(config, transcripts)
    on_error = options.on_error or _raise
    learned, kept = (_encoded(part, config, on_error) for part in (transcripts, held_out))
    if not learned:
        raise TextError("no transcript is short enough for its sound; expected at most a label for each step")
    frames, kept_frames = (sum(len(own.frames) for own in part) for part in (learned, kept))
    digest, kept_digest = (digest_of_transcripts(part) for part in (transcripts, held_out))
    origin = {"family": FAMILY, "tokens": frames, "ids": digest}
    origin |= {"validation_tokens": kept_frames, "validation": kept_digest}
    job = ctc_job(learned, kept, config, training, origin, count_errors)
    network, run_record = run_job(job, run)
    record = {
        **record_header(FAMILY, config),
        "seconds": seconds_since(began, run_record),
        "data": data_of(transcripts, held_out),
        "sounds": len(learned),
        "hours": hours_of(transcripts),
        "tokens": frames,
        **run_record,
    }
    return SpeechModel(network, record)


def divided(
    transcripts: Sequence[Transcript], validation: Sequence[Transcript] | None, training: TrainingConfig
) -> tuple[Sequence[Transcript], Sequence[Transcript]]:
    """Return transcripts to learn from, and those to validate on: the given ones, or the last share of all.

    Raises TextError if none, or all, would be.
    """
    if validation is not None or not training.valid_share:
        return transcripts, validation or []
    count = int(training.valid_share * len(transcripts))
    if not 0 < count < len(transcripts):
        raise TextError(
            f"the last {training.valid_share:g} of {len(transcripts):,} transcripts leaves nothing to train or to "
            "validate on; give transcripts for it (validation=...), more of them, or valid_share=0"
        )
    return transcripts[:-count], transcripts[-count:]


def data_of(transcripts: Sequence[Transcript], held_out: Sequence[Transcript]) -> dict[str, str]:
    """Return the digests of what a model has learned from, and was validated on, by name."""
    parts = {"spoken transcripts": transcripts, "of validation": held_out}
    return {name: digest_of_transcripts(part) for name, part in parts.items() if part}


def resolve_config(config: SpeechConfig, transcripts: Sequence[Transcript]) -> SpeechConfig:
    """Return the settings with the characters of transcripts as labels, unless some are given."""
    return replace(config, labels=config.labels or tuple(sorted(set("".join(item.text for item in transcripts)))))


def count_errors(texts: Sequence[str], references: Sequence[str]) -> int:
    """Return the wrong characters of the texts."""
    return int(CharacterErrors().statistics(texts, references)[:, 0].sum())


def _encoded(
    transcripts: Sequence[Transcript], config: SpeechConfig, on_error: Callable[[TextError], object]
) -> list[SpokenExample]:
    """Return the columns of each transcript's characters; those that cannot be learned are left out."""
    from chainrule.features.speech.objective import SpokenExample, least_steps

    column = {label: number for number, label in enumerate(config.labels, 1)}
    examples = []
    for item in transcripts:
        if unknown := sorted(set(item.text) - set(column)):
            on_error(
                TextError(
                    f"{item.place}: the transcript has {', '.join(map(repr, unknown))}, which no transcript to train "
                    "on has; it is left out"
                )
            )
            continue
        labels = np.array([column[character] for character in item.text], np.int64)
        steps, needed = -(-len(item.frames) // config.stacked), least_steps(labels)
        if needed > steps:
            on_error(
                TextError(
                    f"{item.place}: the transcript of {item.path} has {len(labels):,} characters, which need "
                    f"{needed:,} steps, and the sound has {steps:,} of {10 * config.stacked} ms; correct it, or lower "
                    f"stacked (now {config.stacked})"
                )
            )
            continue
        examples.append(SpokenExample(item.frames, labels))
    return examples


def _raise(error: TextError) -> None:
    raise error
