"""The verbs ctc and transcribe: texts of what a network heard, or of sounds; how evaluate measures a speech model."""

from __future__ import annotations

import json as json_module
import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import printable
from chainrule.cli.shared.measures import ShellMeasure
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelTokenizerName,
    Needs,
    Number,
    Overwrite,
    WholeNumber,
    flag,
    given_settings,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, bad_records
from chainrule.errors import ChainruleError, SettingError, TextError
from chainrule.features.speech.options import CtcOptions, TranscribeOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chainrule.cli.shared.measures import Given
    from chainrule.features.speech.ctc import DecodedUtterance
    from chainrule.features.speech.sounds.sound import Sound


NBestOut = Annotated[
    Path | None, Parameter(help="Write the best texts of each utterance with their scores, for rescore: .jsonl.")
]
Times = Annotated[
    Path | None, Parameter(help="Write when each word was said, as NIST's CTM: id, channel, start, length, word.")
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
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Decode speech: from a network's CTC outputs to texts, with a language model.

        $ chainrule ctc logits.npz lm/ --labels vocab.json --nbest-out heard.jsonl

    Prints a text for each matrix, the best of a prefix beam search, ranked by
    log P of the labels + alpha x ln P of the words + beta x their number. Logits,
    log-probabilities and probabilities are told apart; a note says where they
    were not logits. JSON lines are matrices, or {"id": "1", "logits": [[...]]}
    with, optionally, "labels" and "reference". A matrix that is wrong is named,
    and the others go on.
    """
    from chainrule.features.speech.ctc import decode_ctc

    if frame <= 0:
        raise CycloptsError(msg=f"--frame is {frame:g}; expected seconds, more than 0.")
    _check_outputs(nbest_out, times, [logits], overwrite=overwrite)
    with _warnings_as_notes(), progress_bar() as progress:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        kinds: set[str] = set()

        def show(utterance: DecodedUtterance) -> None:
            if utterance.kind == "probabilities" and utterance.kind not in kinds:
                note(f"{utterance.id}: holds probabilities, of which the logarithms were taken; said once")
            kinds.add(utterance.kind)
            if json:
                _print_json(utterance, 1)
            else:
                print(utterance.text, flush=True)

        with _Outputs(nbest_out, nbest, times, frame, "matrices could not be decoded") as outputs:
            decoded = decode_ctc(logits, loaded, **given_settings(options), on_error=outputs.report, progress=progress)
            outputs.write(decoded, show, f"{logits}: has no matrix; expected one or more")
    outputs.check()


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Shows as notes what is logged about labels, as pyctcdecode logs it."""
    handler, logger = logging.Handler(), logging.getLogger("chainrule.features.speech")
    handler.emit = lambda record: note(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Outputs:
    """What both verbs write: lists for rescore and times of words; and how many of the sounds or matrices failed."""

    def __init__(self, nbest_out: Path | None, nbest: int, times: Path | None, frame: float, failure: str) -> None:
        """nbest: how many texts of each a list has. frame: the seconds from one frame to the next. failure: the end of
        the message where some failed.
        """
        self._paths, self._nbest, self.frame = (nbest_out, times), nbest, frame
        self._stack = ExitStack()
        self._failure = failure
        self._failed = self._count = 0

    def __enter__(self) -> _Outputs:
        from chainrule.base.files import replace_file

        self._write_nbest, self._write_times = (
            None if path is None else self._stack.enter_context(replace_file(path)).write for path in self._paths
        )
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def report(self, error: ChainruleError) -> None:
        self._failed += 1
        note(str(error))

    def write(
        self, decoded: Iterable[DecodedUtterance], show: Callable[[DecodedUtterance], None], nothing: str
    ) -> None:
        """Writes and shows each. nothing: the message if there is none. Raises ChainruleError where all have failed."""
        for utterance in decoded:
            self._count += 1
            show(utterance)
            if self._write_nbest is not None:
                line = json_module.dumps(utterance.to_dict(self._nbest), ensure_ascii=False)
                self._write_nbest(line.encode("utf-8", "surrogatepass") + b"\n")
            if self._write_times is not None:
                _write_times(self._write_times, utterance, self.frame)
        if not self._count:
            self.check()
            raise SettingError(nothing)

    def check(self) -> None:
        """Raises SettingError where some have failed."""
        if self._failed:
            raise SettingError(f"{self._failed:,} of {self._count + self._failed:,} {self._failure}; see above")


def _check_outputs(nbest_out: Path | None, times: Path | None, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Checks, before the work, that the files may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    for path in (nbest_out, times):
        if path is not None:
            check_new_file(path, overwrite=overwrite, inputs=inputs)
    if nbest_out is not None and nbest_out == times:
        raise CycloptsError(msg="--nbest-out and --times name the same file; give them different names.")


def _print_json(utterance: DecodedUtterance, frame: float, nbest: int = 1) -> None:
    """frame: seconds of a frame; 1: words have the numbers of frames. nbest: more than 1 adds other texts."""
    best = utterance.nbest[0]
    words = [
        {"word": word, "start": round(start * frame, 3), "end": round(stop * frame, 3)}
        for word, start, stop in best.words
    ]
    more = {}
    if nbest > 1:
        more["nbest"] = [{"text": own.text, "ctc": own.ctc, "lm": own.lm} for own in utterance.nbest[:nbest]]
    print_json({"id": utterance.id, "text": best.text, "ctc": best.ctc, "lm": best.lm, "words": words, **more})


def _write_times(write: Callable[[bytes], int], utterance: DecodedUtterance, frame: float) -> None:
    for word, start, stop in utterance.nbest[0].words:
        write(f"{utterance.id} 1 {start * frame:.3f} {(stop - start) * frame:.3f} {word}\n".encode("utf-8", "replace"))


LanguageModel = Annotated[
    Path | None,
    Parameter(name="--lm", help="A language model: any folder or file of one. Without it, the network alone decides."),
]


def transcribe(
    model: Annotated[Path, Parameter(help="A model folder that train speech wrote.")],
    /,
    *sounds: Annotated[
        str,
        FILE,
        Parameter(help="Sounds, .wav or, with soundfile installed, .flac and others; folders of them.", required=True),
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
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Transcribe speech: from sounds to texts, with a language model.

        $ chainrule transcribe speech/ hello.wav --lm lm/

    Prints a line for each sound: its text, a tab, and its path. Texts are found
    as chainrule ctc finds them, or with --greedy from the likeliest label of each
    step. With --json, also scores, and each word with its seconds.

    Sounds of other rates, or of several channels, are converted, with a note. One
    that cannot be read is named, and the others go on.
    """
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.sound import sound_files
    from chainrule.models.files.opening import load

    if not sounds:
        raise CycloptsError(msg="SOUNDS are missing.")
    given = given_settings(options)
    if given.get("greedy"):
        if lm is not None:
            raise CycloptsError(msg="--greedy takes no language model; leave out --greedy, or --lm.")
        if nbest > 1:
            raise CycloptsError(msg="--greedy finds one text of each sound; leave out --greedy, or --nbest.")
    _check_outputs(nbest_out, times, sounds, overwrite=overwrite)
    files = sound_files(sounds)
    with _warnings_as_notes(), progress_bar() as progress:
        speech = load(model, SpeechModel, progress=progress)
        loaded = None if lm is None else open_model(lm, None, None, progress)
        converted: set[str] = set()

        def read() -> Iterator[Sound | str]:
            for file in files:
                try:
                    sound = speech.sound(file)
                except TextError:
                    yield file  # whose error is then reported in its turn
                    continue
                for text in set(sound.notes) - converted:
                    note(f"{file}: {text}; said once")
                converted.update(sound.notes)
                yield sound

        number = 0

        def show(utterance: DecodedUtterance) -> None:
            nonlocal number
            if json:
                _print_json(utterance, speech.step_seconds, nbest)
            elif nbest > 1:
                for own in utterance.nbest[:nbest]:
                    scores = f"ctc= {own.ctc:.4f} lm= {own.lm:.4f}"
                    print(f"{number} ||| {printable(own.text)} ||| {scores} ||| {own.score:.4f}")
            else:
                print(f"{printable(utterance.text)}\t{printable(utterance.id)}", flush=True)
            number += 1

        failure = "sounds could not be transcribed"
        with _Outputs(nbest_out, max(nbest, 100), times, speech.step_seconds, failure) as outputs:
            decoded = speech.transcribe(read(), loaded, **given, on_error=outputs.report, progress=progress)
            outputs.write(decoded, show, "there is no sound to transcribe")
    outputs.check()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SpeechMeasuring:
    """With what a model that hears is measured, beside its transcripts."""

    lm: Annotated[
        Path | None,
        Parameter(
            name="--lm",
            help="For a speech model: a language model, whose gain is measured, too.",
        ),
    ] = None
    alpha: Annotated[float | None, flag(TranscribeOptions, "alpha"), Needs("lm"), Parameter(show_default=False)] = None
    beta: Annotated[float | None, flag(TranscribeOptions, "beta"), Needs("lm"), Parameter(show_default=False)] = None


NO_MEASURING = SpeechMeasuring()


def measure_speech(model: Path, measuring: SpeechMeasuring, given: Given) -> None:
    """Measures a model that hears and prints the result. Raises as `ShellMeasure`."""
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.transcripts import read_transcripts
    from chainrule.models.files.opening import load

    if given.reading != DEFAULT_READING:
        raise CycloptsError(msg=f"{model} is measured on sounds; leave out the options that say how to read texts.")
    if not given.texts:
        raise CycloptsError(msg="TEXTS is missing.")
    if len(given.texts) != 1:
        raise CycloptsError(msg="A speech model is measured on one file or folder of sounds with transcripts.")
    with _warnings_as_notes(), progress_bar() as progress:
        speech = load(model, SpeechModel, progress=progress)
        config = speech.network.config
        with bad_records(strict=given.strict) as on_bad:
            spoken = read_transcripts(
                given.texts[0], on_bad, progress, rate=config.rate, mels=config.mels, on_note=note
            )
        loaded = None if measuring.lm is None else open_model(measuring.lm, None, None, progress)
        weights = {name: getattr(measuring, name) for name in ("alpha", "beta")}
        chosen = {name: value for name, value in weights.items() if value is not None}
        measurement = speech.evaluate(spoken, loaded, progress=progress, **chosen)
    if unknown := sorted(set("".join(item.text for item in spoken)) - set(speech.labels)):
        shown = ", ".join(map(repr, unknown))
        note(f"the transcripts have {shown}, which the model never writes; each counts as an error")
    if given.json:
        print_json(measurement.as_json())
    else:
        print(measurement)


EVALUATE = ShellMeasure(SpeechMeasuring, NO_MEASURING, measure_speech)
