"""The verbs ctc and transcribe: texts of what a network heard, or of sounds; how evaluate measures a speech model."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.measures import ShellMeasure
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    ModelTokenizerName,
    Needs,
    Number,
    WholeNumber,
    flag,
    given_settings,
    refuse,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import RECORD_FLAGS, bad_records
from chainrule.errors import TextError, prefix_errors
from chainrule.features.speech.options import CtcOptions, MeasureSpeechOptions, TranscribeOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.cli.shared.measures import Given
    from chainrule.errors import ChainruleError
    from chainrule.features.speech.ctc import DecodedUtterance
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.sound import Recording


DEFAULT_RATE = 16_000  # samples a second, of standard input

NBestOut = Annotated[
    Path | None, Parameter(help="Write the best texts of each utterance with their scores, for rescore: .jsonl.")
]
Times = Annotated[
    Path | None,
    Parameter(
        help="Write when each word was said, as NIST's CTM: id, channel, start, length, word; of Whisper, also the "
        "segments of a recording as subtitles: .srt, .vtt."
    ),
]


def ctc(
    logits: Annotated[
        str, FILE, Parameter(help="The network's outputs, frames x labels: .npy, .npz, JSON lines, or - for those.")
    ],
    model: Annotated[
        Path | None, Parameter(help="A language model: any folder or file of one. Without it, labels alone decide.")
    ] = None,
    /,
    *,
    options: Flags[CtcOptions] = NO_FLAGS,
    nbest_out: NBestOut = None,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="How many texts --nbest-out has of each utterance."), Needs("nbest_out")
    ] = 100,
    times: Times = None,
    frame: Annotated[
        float,
        Number,
        Parameter(help="Seconds from one frame to the next, for --times; wav2vec 2.0 has 0.02."),
        Needs("times"),
    ] = 0.02,
    tokenizer: ModelTokenizerName = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Decode speech: from a network's CTC outputs to texts, with a language model.

        $ chainrule ctc logits.npz lm/ --labels vocab.json --nbest-out heard.jsonl

    Prints a text for each matrix, the best of a prefix beam search, ranked by
    log P of the labels + alpha x ln P of the words + beta x their number. Logits,
    log-probabilities and probabilities are recognised; a note says where they
    were not logits. JSON lines are matrices, or {"id": "1", "logits": [[...]]}
    with, optionally, "labels" and "reference". A matrix with an
    error is reported and left out.
    """
    from chainrule.features.speech.ctc import decode_ctc
    from chainrule.features.speech.utterance_files import SUBTITLES, UtteranceFiles

    if frame <= 0:
        raise CycloptsError(msg=f"--frame is {frame:g}; expected seconds, more than 0.")
    if times is not None and times.suffix in SUBTITLES:
        raise CycloptsError(msg=f"--times is {times}, but matrices have no segments; name a file of CTM.")
    show.check(logits)
    _check_outputs(nbest_out, times, [logits], overwrite=show.overwrite)
    with _warnings_as_notes(), progress_bar() as progress:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        failure = "matrices could not be decoded"
        with UtteranceFiles(nbest_out, nbest, times, frame, failure, _note_error) as files:
            decoded = decode_ctc(logits, loaded, **given_settings(options), on_error=files.report, progress=progress)
            passing = files.passing(decoded, f"{logits}: has no matrix; expected one or more")
            show.show_all(own.shown() for own in _noting_kinds(passing))
    files.check()


def _noting_kinds(utterances: Iterable[DecodedUtterance]) -> Iterator[DecodedUtterance]:
    """Yield the utterances; a note says, once, where numbers were probabilities."""
    is_said = False
    for utterance in utterances:
        if utterance.kind == "probabilities" and not is_said:
            note(f"{utterance.id}: holds probabilities, of which the logarithms were taken; said once")
            is_said = True
        yield utterance


def _noting_languages(utterances: Iterable[DecodedUtterance]) -> Iterator[DecodedUtterance]:
    """Yield the utterances; a note says which language each was found to be in, and, once, how much a language model
    counts.
    """
    for number, utterance in enumerate(utterances):
        if number == 0 and utterance.weights is not None:
            said = ", ".join(f"{name} {weight:g}" for name, weight in utterance.weights.items())
            note(f"the language model counts where words end, with {said}")
        if utterance.language is not None and utterance.language.prob is not None:
            note(f"{utterance.id}: the language is {utterance.language.code}, P = {utterance.language.prob:.2f}")
        yield utterance


def _note_error(error: ChainruleError) -> None:
    note(str(error))


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show as notes what is logged about labels, as pyctcdecode logs it."""
    handler, logger = logging.Handler(), logging.getLogger("chainrule.features.speech")
    handler.emit = lambda record: note(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _check_outputs(nbest_out: Path | None, times: Path | None, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Check, before the work, that the files may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    for path in (nbest_out, times):
        if path is not None:
            check_new_file(path, overwrite=overwrite, inputs=inputs)
    if nbest_out is not None and nbest_out == times:
        raise CycloptsError(msg="--nbest-out and --times name the same file; give them different names.")


LanguageModel = Annotated[
    Path | None,
    Parameter(name="--lm", help="A language model: any folder or file of one. Without it, the network alone decides."),
]


def transcribe(
    model: Annotated[
        Path,
        Parameter(
            help="A folder that train speech wrote, or of transformers: Whisper, or wav2vec 2.0, HuBERT or WavLM with "
            "CTC."
        ),
    ],
    /,
    *sounds: Annotated[
        str,
        FILE,
        Parameter(
            help="Sounds, .wav or, with soundfile installed, .flac and others; folders of them; or - for raw samples "
            "from standard input.",
            required=True,
        ),
    ],
    lm: LanguageModel = None,
    options: Flags[TranscribeOptions] = NO_FLAGS,
    nbest: Annotated[
        int,
        WholeNumber,
        Parameter(help="Print this many texts of each sound: number ||| text ||| ctc= lm= ||| score."),
    ] = 1,
    nbest_out: NBestOut = None,
    times: Times = None,
    rate: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Of standard input: samples a second, 16000 by default. They have 16 bits, little-endian."),
    ] = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Transcribe speech: from sounds to texts, with a language model.

        $ chainrule transcribe speech/ hello.wav --lm lm/

    Prints a line for each sound: its text, a tab, and its path. Texts are found
    by the search of chainrule ctc, or with --greedy from the likeliest label of
    each step. With --json, also scores, and each word with its seconds and its
    confidence: the probability of its labels in its steps, by the network alone.

    To hear a microphone, pipe arecord -f S16_LE -r 16000 -c 1 -t raw into
    transcribe with - as the sound. Words are printed as soon as no later sound
    can change them. By default, windows of 12 seconds begin every 4 seconds; a shorter
    --window, a smaller --beam or --greedy prints sooner. The first Ctrl-C ends
    the recording.

    Whisper writes texts by beam search, in windows of 30 seconds, each of which
    begins at the last time written in the one before. With --json, also these
    segments, the language and its probability.

    Sounds of other rates, or of several channels, are converted, with a note.
    Sounds that cannot be read are reported and left out.
    """
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.sound import sound_files
    from chainrule.features.speech.utterance_files import SUBTITLES, UtteranceFiles
    from chainrule.models.files.opening import load

    if not sounds:
        raise CycloptsError(msg="SOUNDS are missing.")
    given = given_settings(options)
    if given.get("greedy"):
        if lm is not None:
            raise CycloptsError(msg="--greedy takes no language model; leave out --greedy, or --lm.")
        if nbest > 1:
            raise CycloptsError(msg="--greedy finds one text of each sound; leave out --greedy, or --nbest.")
    if lm is None:
        refuse(
            [name for name in ("alpha", "beta", "unk_score_offset") if name in given],
            "is for a language model; give --lm",
        )
    is_live = "-" in sounds
    if is_live and len(sounds) > 1:
        raise CycloptsError(msg="- is standard input, which is transcribed alone; leave out the other sounds.")
    if is_live and sys.stdin.isatty():
        raise CycloptsError(
            msg="Standard input is a terminal; pipe raw samples: arecord -f S16_LE -r 16000 -c 1 -t raw | chainrule "
            f"transcribe {model} -"
        )
    if rate is not None and not is_live:
        raise CycloptsError(msg="--rate is of raw samples from standard input (-); files have their own.")
    show.check(*sounds)
    _check_outputs(nbest_out, times, sounds, overwrite=show.overwrite)
    files = [] if is_live else sound_files(sounds)
    with _warnings_as_notes(), progress_bar() as progress:
        speech = load(model, SpeechModel, progress=progress)
        for warning in () if lm is not None else speech.record.get("warnings", ()):
            note(warning)
        given["language_model"] = None if lm is None else open_model(lm, None, None, progress)
        step, failure = speech.step_seconds, "sounds could not be transcribed"
        with UtteranceFiles(nbest_out, max(nbest, 100), times, step, failure, _note_error) as written:
            given |= {"texts": None if nbest_out is not None else nbest}
            if times is not None and not speech.is_of_ctc:
                given["word_timestamps"] = times.suffix not in SUBTITLES
            elif times is not None and times.suffix in SUBTITLES:
                raise CycloptsError(msg=f"{times}: subtitles need the segments of Whisper; name a file of CTM.")
            with prefix_errors(str(model)):
                if is_live:
                    prints_words = not show.in_rows and nbest == 1
                    heard = _heard_live(
                        speech, DEFAULT_RATE if rate is None else rate, given, prints_words=prints_words
                    )
                else:
                    prints_words = False
                    given |= {"on_error": written.report, "progress": progress}
                    heard = speech.transcribe(_recordings(speech, files), **given)
            passing = enumerate(written.passing(_noting_languages(heard), "there is no sound to transcribe"))
            results = (own.shown(number, step, nbest) for number, own in passing)
            if prints_words:
                for _ in results:
                    print()
            else:
                show.show_all(results)
    written.check()


def _recordings(speech: SpeechModel, files: Iterable[str]) -> Iterator[Recording | str]:
    """Yield files of sound as recordings; a note says, once for each kind, what is converted."""
    converted: set[str] = set()
    for file in files:
        try:
            sound = speech.recording(file)
        except TextError:
            yield file  # whose error is then reported in its turn
            continue
        for text in set(sound.notes) - converted:
            note(f"{file}: {text}; said once")
        converted.update(sound.notes)
        yield sound


def _heard_live(
    speech: SpeechModel, rate: int, given: dict[str, Any], *, prints_words: bool
) -> Iterator[DecodedUtterance]:
    """Yield what is said in raw samples from standard input; its words are printed as they become certain.

    The first Ctrl-C ends the recording, and the second one the program.
    """
    from chainrule.features.speech.sounds.sound import raw_recording
    from chainrule.training.reports import interruptions

    with interruptions() as interruption:
        recording = raw_recording(sys.stdin.buffer, rate, speech.network.rate, lambda: bool(interruption.signal))
        for text in recording.notes:
            note(f"{recording.name}: {text}")
        is_first = True
        for words, utterance in speech.listen(recording, **given, progress=False):
            if prints_words and words:
                print(" " * (not is_first) + " ".join(words), end="", flush=True)
                is_first = False
            if utterance is not None:
                yield utterance


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SpeechMeasuring:
    """With what a model that hears is measured, beside its transcripts."""

    lm: Annotated[
        Path | None,
        Parameter(
            name="--lm", help="For a speech model: a language model; error rates are measured with and without it."
        ),
    ] = None
    alpha: Annotated[float | None, flag(TranscribeOptions, "alpha"), Needs("lm"), Parameter(show_default=False)] = None
    beta: Annotated[float | None, flag(TranscribeOptions, "beta"), Needs("lm"), Parameter(show_default=False)] = None
    lower_case: Annotated[bool, flag(TranscribeOptions, "lower_case"), Parameter(show_default=False)] = False
    plain_words: Annotated[bool, flag(MeasureSpeechOptions, "plain_words"), Parameter(show_default=False)] = False
    language: Annotated[str | None, flag(TranscribeOptions, "language")] = None
    task: Annotated[str | None, flag(TranscribeOptions, "task"), Parameter(show_default=False)] = None


NO_MEASURING = SpeechMeasuring()
_MEASURED_BY = ("alpha", "beta", "lower_case", "plain_words", "language", "task")


def measure_speech(model: Path, measuring: SpeechMeasuring, given: Given) -> None:
    """Measure a model that hears and show the result. Raises as `ShellMeasure`."""
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.transcripts import read_transcripts
    from chainrule.models.files.opening import load

    if not given.reading.has_only(*RECORD_FLAGS):
        raise CycloptsError(msg=f"{model} is measured on sounds; leave out the options that say how to read texts.")
    if not given.texts:
        raise CycloptsError(msg="TEXTS is missing.")
    if len(given.texts) != 1:
        raise CycloptsError(msg="A speech model is measured on one file or folder of sounds with transcripts.")
    with _warnings_as_notes(), progress_bar() as progress:
        speech = load(model, SpeechModel, progress=progress)
        with bad_records(given.reading, "skip", given.texts[0]) as on_bad:
            spoken = read_transcripts(
                given.texts[0], on_bad, progress, rate=speech.network.rate, mels=speech.network.mels, on_note=note
            )
        loaded = None if measuring.lm is None else open_model(measuring.lm, None, None, progress)
        weights = {name: getattr(measuring, name) for name in _MEASURED_BY}
        chosen = {name: value for name, value in weights.items() if value is not None}
        with prefix_errors(str(model)):
            measurement = speech.evaluate(spoken, loaded, progress=progress, **chosen)
    labels = set(speech.labels) if speech.is_of_ctc else set()
    labels = {label.lower() for label in labels} if measuring.lower_case else labels
    if labels and (unknown := sorted(set("".join(item.text for item in spoken)) - labels)):
        shown = ", ".join(map(repr, unknown))
        advice = "; --lower-case writes small letters" if all(own.upper() in labels for own in unknown) else ""
        note(f"the transcripts have {shown}, which the model never writes; each counts as an error{advice}")
    given.show.show(measurement)


EVALUATE = ShellMeasure(SpeechMeasuring, NO_MEASURING, measure_speech)
