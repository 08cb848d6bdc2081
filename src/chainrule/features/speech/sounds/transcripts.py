"""Sounds with their transcripts, as a file names them or a folder has them.

.tsv, .csv    a line for each: the path of a sound, and its text. A first line may name the columns, in any order
.jsonl        {"audio": "1.wav", "text": "the dog runs"}; NeMo's manifests, too, with audio_filepath
.parquet      the same fields
a folder      sounds, each with a .txt beside it; or LibriSpeech's folders, whose .trans.txt has lines of a name and a
              text

A path counts from the folder of the file. Sounds become log-mel frames at once, since these are smaller.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.speech.sounds.features import HOP_SECONDS, log_mel
from chainrule.features.speech.sounds.sound import SUFFIXES, open_sound, read_sound
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, suggest_fields, text_suffix
from chainrule.text.corpus.records import Record, bad_record, items_of, raise_error, read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Int16
    from numpy import ndarray

    from chainrule.features.speech.sounds.sound import Recording, Sound
    from chainrule.text.corpus.records import OnBad

RATE, MELS = 16_000, 40  # samples a second, bands
_PATHS = ("audio", "path", "audio_filepath", "file_name", "file", "wav", "sound")
_TEXTS = ("text", "sentence", "transcript", "transcription")
_EXPECTED = (
    "expected .tsv, .csv, .jsonl or .parquet with the path of a sound and its text, or a folder of sounds with .txt"
)


class Transcript(NamedTuple):
    """A sound as log-mel frames, in steps of 1/512 of a nat, and what is said in it.

    path: of the sound. place: the line of its file, for messages.
    """

    frames: Int16[ndarray, "T M"]
    text: str
    path: str = "a sound"
    place: str = "a transcript"


class _Line(NamedTuple):
    path: str
    text: str
    place: str
    record: Record | None = None  # of the file that names it


def read_transcripts(
    source: str | os.PathLike[str],
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
    *,
    rate: int = RATE,
    mels: int | None = MELS,
    on_note: Callable[[str], object] | None = None,
) -> list[Transcript]:
    """Return the sounds and transcripts of a file or folder.

    on_bad: a callback that gets a TextError for each that cannot be read, which is left out. rate, mels: of the frames,
    those of the network. on_note: a callback for what was converted, a line for each kind. Texts are normalised to NFC,
    with single spaces. Raises TextError where there is none.

    good:  chainrule.read_transcripts("train.tsv")
    """
    name = os.fspath(source)
    lines = list(_lines_of(name, on_bad))
    transcripts, notes, examples, first = [], Counter[str](), dict[str, str](), ""
    for number, line in enumerate(lines):
        progress("reading sounds", number, len(lines))
        try:
            sound: Sound | Recording
            if mels is None:
                sound, frames = open_sound(line.path, rate), np.empty((0, 0), np.int16)
            else:
                sound = read_sound(line.path, rate)
                frames = log_mel(sound, mels)
        except TextError as error:
            bad = bad_record(line.record or Record({}, line.place), str(error).removeprefix(f"{line.place}: "))
            on_bad(bad)
            first = first or f"; the first: {bad}"
            continue
        for note in sound.notes:
            notes[note] += 1
            examples.setdefault(note, line.path)
        transcripts.append(Transcript(frames, line.text, line.path, line.place))
    if not transcripts:
        raise TextError(f"{name}: no sound with a transcript is in it; {_EXPECTED}{first}")
    if on_note is not None:
        for note, count in notes.items():
            others = f" and {count - 1:,} other{'s' * (count > 2)}" if count > 1 else ""
            on_note(f"{examples[note]}{others}: {note}")
    return transcripts


def check_transcripts(transcripts: Sequence[object], mels: int | None) -> list[Transcript]:
    """Check transcripts given from Python. mels: those of the network, if it reads frames.

    Raises TypeError, TextError.
    """
    checked = []
    for item in transcripts:
        if not isinstance(item, Transcript):
            raise TypeError(f"this takes transcripts, as read_transcripts gives them, not {type(item).__name__}")
        if mels is not None and (item.frames.ndim != 2 or item.frames.shape[1] != mels):
            raise TextError(f"{item.place}: its frames are {list(item.frames.shape)}; expected T x {mels} bands")
        checked.append(item)
    if not checked:
        raise TextError("there are no transcripts; at least one is needed")
    return checked


def digest_of_transcripts(transcripts: Sequence[Transcript]) -> str:
    """Return the SHA-256 of sounds and their texts, whatever file they are from."""
    digest = hashlib.sha256()
    for item in transcripts:
        digest.update(f"{item.frames.shape} {item.text}\n".encode("utf-8", "surrogatepass"))
        digest.update(item.frames.astype("<i2").tobytes())
    return digest.hexdigest()


def hours_of(transcripts: Sequence[Transcript]) -> float:
    """Return how long the sounds are, in hours."""
    return sum(len(item.frames) for item in transcripts) * HOP_SECONDS / 3600


def clean_text(text: str) -> str:
    """Return a text in NFC, with single spaces between words and none around it."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _lines_of(name: str, on_bad: OnBad) -> Iterator[_Line]:
    if os.path.isdir(name):
        found = _in_folder(Path(name), on_bad)
    elif not os.path.exists(name):
        raise TextError(f"{name}: there is no such file or folder; {_EXPECTED}")
    elif text_suffix(name) in (*FORMATS, ".tsv"):
        found = _in_records(name, on_bad)
    else:
        raise TextError(f"{name}: {_EXPECTED}")
    for line in found:
        text = clean_text(line.text)
        if text:
            yield line._replace(text=text)
        else:
            record, why = line.record or Record({}, line.place), "is empty; expected what is said in it"
            on_bad(bad_record(record, f"the transcript of {line.path} {why}"))


def _in_records(name: str, on_bad: OnBad) -> Iterator[_Line]:
    """A path and a text in each record. A table of two columns needs no names."""

    def header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        names = [cell.lower() for cell in cells]
        if all(set(keys) & set(names) for keys in (_PATHS, _TEXTS)):
            return names, True
        if len(cells) == 2:
            return (_PATHS[0], _TEXTS[0]), False
        expected = f"a path ({', '.join(_PATHS)}) and a text ({', '.join(_TEXTS)})"
        raise TextError(f"{place}: expected columns with the names of {expected}; {suggest_fields(cells, '')}")

    def read(record: Record) -> _Line:
        fields = record.fields
        path, text = (next((fields[key] for key in keys if key in fields), None) for keys in (_PATHS, _TEXTS))
        if not isinstance(path, str) or not isinstance(text, str):
            shown = ", ".join(fields) or "none"
            raise TextError(f'the fields are {shown}; expected {{"audio": "1.wav", "text": "what is said"}}')
        return _Line(os.path.join(os.path.dirname(name), path.strip()), text, record.location, record)

    yield from items_of(read_records(name, on_bad, header), read, on_bad)


def _in_folder(folder: Path, on_bad: OnBad) -> Iterator[_Line]:
    lists = sorted(folder.rglob("*.trans.txt"))
    for path in lists:
        for number, line in enumerate(lines_of(os.fspath(path)), 1):
            if not line.strip():
                continue
            name, _, text = line.strip().partition(" ")
            sound = _with_suffix(path.parent / name)
            place = f"{path}, line {number}"
            if sound is None:
                on_bad(TextError(f"{place}: there is no {name}.flac or {name}.wav beside it"))
            else:
                yield _Line(sound, text, place)
    for path in [] if lists else sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES:
            transcript = path.with_suffix(".txt")
            if transcript.exists():
                yield _Line(os.fspath(path), " ".join(lines_of(os.fspath(transcript))), os.fspath(path))
            else:
                on_bad(TextError(f"{path}: there is no {transcript.name} beside it, with what is said"))


def _with_suffix(path: Path) -> str | None:
    """Return a sound of this name, whatever its kind."""
    paths = (path.with_name(path.name + suffix) for suffix in SUFFIXES)
    return next((os.fspath(own) for own in paths if own.exists()), None)
