"""A tiny speech task: a few words of chords, and a network that has learned to hear them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from chainrule import Sound, SpeechConfig, SpeechModel, Transcript, train_speech
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.datasets.tones import RATE, sing
from chainrule.features.speech.sounds.features import log_mel
from chainrule.features.speech.sounds.sound import encode_wav
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ("ab", "ba", "a b", "b a", "aa b", "ab ba", "b aa", "ba ab", "a a b", "bb a")
CONFIG = SpeechConfig(width=32, layers=1, dropout=0.0, masks=0)
TRAINING = TrainingConfig(
    steps=80, batch=8, learning_rate=0.02, warm_up=10, valid_share=0, precision="float32", compile="no"
)


def sung(text: str, number: int) -> Sound:
    return Sound(sing(text, Random(number, "sung"), 50, 3) / 32768, RATE, f"{text}.wav")


def transcript(text: str, number: int) -> Transcript:
    return Transcript(log_mel(sung(text, number), CONFIG.mels), text, f"{text}.wav", f"line {number}")


@cache
def transcripts(first: int = 0) -> tuple[Transcript, ...]:
    """Each text twice, sung differently."""
    return tuple(transcript(text, first + i) for i, text in enumerate(2 * TEXTS))


@cache
def hearing() -> SpeechModel:
    """A model that hears most of them."""
    return train_speech(transcripts(), CONFIG, training=TRAINING, progress=False)


def write_wav(path: Path, text: str, number: int, rate: int = RATE) -> Path:
    samples = sing(text, Random(number, "sung"), 50, 3)
    path.write_bytes(encode_wav(samples, rate))
    return path


def weights(model: SpeechModel) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in model.network.state_dict().values())
