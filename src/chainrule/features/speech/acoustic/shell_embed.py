"""chainrule embed MODEL SOUND: vectors of sounds, or of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target
from chainrule.features.classify.classification import UnitVectors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from chainrule.text.tokenization.vocabulary import Markers

_TAKEN = ("layer", "tokens")


def embed_sounds(
    model: Path,
    name: str,
    output: Path | None,
    given: Mapping[str, Any],
    markers: Markers | None,
    reading: TextOptions,
    *,
    overwrite: bool,
) -> tuple[list[UnitVectors], bool]:
    """Return the vectors of a sound, or of the sounds in a folder, and whether they are of whole sounds, not of steps.

    Raises CycloptsError, TextError, ModelFormatError.
    """
    from chainrule.features.speech.model import SpeechModel
    from chainrule.features.speech.sounds.sound import sound_files
    from chainrule.models.files.opening import load

    if markers is not None or reading != DEFAULT_READING or not given.keys() <= set(_TAKEN):
        raise CycloptsError(msg=f"{model} embeds sounds; of the options, it takes --layer, --tokens and --output.")
    if name == "-":
        raise CycloptsError(msg="TEXT is missing: name a sound, or a folder of sounds.")
    if output is not None:
        check_text_target(output, None, overwrite=overwrite)
    is_whole = "tokens" not in given
    files = sound_files([name])
    with progress_bar() as progress:
        speech = load(model, SpeechModel, progress=progress)
        found = []
        for number, file in enumerate(files):
            progress("embedding", number, len(files))
            recording = speech.recording(file)
            for text in recording.notes:
                note(f"{file}: {text}")
            steps = speech.features(recording, given.get("layer"))
            if is_whole:
                found.append(UnitVectors([file], steps.mean(0, keepdims=True)))
            else:
                times = [f"{file} {step * speech.step_seconds:.3f}" for step in range(len(steps))]
                found.append(UnitVectors(times, steps))
    return found, is_whole
