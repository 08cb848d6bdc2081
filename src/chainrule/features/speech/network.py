"""A network that hears: from log-mel frames to log-probabilities of the blank and of labels, for CTC (Graves 2006).

Frames are normalised, perhaps convolved over time and pitch, a few of them stacked as one, and read in both directions.
What is computed of a sound does not depend on the padding beside it.
Legend: B batch, T frames, M mel bands, S steps (stacked frames), D width, C labels and the blank, which is column 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.features.classify.network.config import GRULabelling, LSTMLabelling, TransformerLabelling
from chainrule.features.classify.network.texts import RecurrentLayers, TransformerLayers
from chainrule.features.speech.listening.ctc_hearing import CtcTranscriber
from chainrule.features.speech.sounds.features import HOP_SECONDS, log_mel, normalised
from chainrule.neural.device import follow_load, use_threads
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int64
    from numpy import ndarray

    from chainrule.features.speech.network_config import SpeechConfig
    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.sounds.sound import Sound
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.text.tokenization.tokenizer import Tokenizer

BLANK = 0
_LONGEST_MASK = 30  # frames
_WINDOW_SECONDS = 300.0


class SoundBatch(NamedTuple):
    """Normalised frames, padded with 0, and how many frames each sound has."""

    frames: Float[Tensor, "B T M"]
    lengths: Int64[Tensor, " B"]


class SpeechNetwork(nn.Module):
    """P(label or blank | sound), at each step."""

    tokenizer: Tokenizer | None = None
    searches = False

    def __init__(self, config: SpeechConfig) -> None:
        super().__init__()
        if not config.labels:
            raise SettingError("the setting labels is missing; expected the characters that the network writes")
        self.config = config
        pitches = config.mels
        self.convolutions = nn.ModuleList()
        for layer in range(config.convolutions):
            before = config.channels if layer else 1
            self.convolutions.append(nn.Conv2d(before, config.channels, 3, stride=(1, 2), padding=1))
            pitches = -(-pitches // 2)
        inputs = config.stacked * pitches * (config.channels if config.convolutions else 1)
        self.layers = _layers(config, inputs)
        self.output = nn.Linear(self.layers.width, 1 + len(config.labels))

    def forward(self, batch: SoundBatch) -> tuple[Float[Tensor, "B S C"], Int64[Tensor, " B"]]:
        """Return the scores of labels before softmax, and how many steps each sound has."""
        if self.training and self.config.masks:
            batch = _masked(batch, self.config.masks)
        x, lengths = self._convolved(*batch)
        stacked = self.config.stacked
        x = F.pad(x, (0, 0, 0, -x.shape[1] % stacked))
        x = x.reshape(len(x), x.shape[1] // stacked, -1)  # (B, S, stacked x features)
        steps = (lengths + stacked - 1) // stacked
        hidden = self.layers(x, steps)
        return self.output(drop(hidden, self.config.dropout, self.training)), steps

    def _convolved(
        self, frames: Float[Tensor, "B T M"], lengths: Int64[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B T F"], Int64[Tensor, " B"]]:
        if not len(self.convolutions):
            return frames, lengths
        inside = (torch.arange(frames.shape[1], device=frames.device) < lengths[:, None])[:, None, :, None]
        x = frames[:, None]  # (B, 1, T, M)
        for layer in self.convolutions:
            x = F.relu(layer(x)) * inside
        return x.transpose(1, 2).flatten(2), lengths

    @property
    def rate(self) -> int:
        """Implement `Listener.rate`."""
        return self.config.rate

    @property
    def mels(self) -> int:
        """Implement `Listener.mels`."""
        return self.config.mels

    @property
    def step_samples(self) -> int:
        """Implement `CtcNetwork.step_samples`."""
        return self.config.stacked * round(HOP_SECONDS * self.config.rate)

    @property
    def step_seconds(self) -> float:
        """Implement `Listener.step_seconds`."""
        return self.config.stacked * HOP_SECONDS

    @property
    def window_seconds(self) -> float:
        """Implement `CtcNetwork.window_seconds`."""
        return _WINDOW_SECONDS

    @property
    def columns(self) -> tuple[str, ...]:
        """Implement `CtcNetwork.columns`."""
        return ("", *self.config.labels)

    def writes(self) -> tuple[str, int]:
        """Implement `Listener.writes`."""
        return f"none; it writes {''.join(self.config.labels)!r}", len(self.columns)

    def transcriber(self, options: TranscribeOptions) -> CtcTranscriber:
        """Implement `Listener.transcriber`."""
        return CtcTranscriber(self, options)

    def log_probs(self, sound: Sound) -> Float32[ndarray, "S C"]:
        """Implement `CtcNetwork.log_probs`."""
        return self.log_probs_of(normalised(log_mel(sound, self.config.mels)))

    def hear(self, transcript: Transcript, hearing: Any) -> None:
        """Implement `Listener.hear`."""
        hearing.take(self.log_probs_of(normalised(transcript.frames)))

    @torch.inference_mode()
    def log_probs_of(self, frames: Float32[ndarray, "T M"]) -> Float32[ndarray, "S C"]:
        """Return log-probabilities of a single sound, so that they do not depend on others."""
        use_threads()
        follow_load()
        self.eval()
        scores, _ = self(batch_of([frames]))
        return np.asarray(scores[0].float().log_softmax(-1).numpy())

    def steps(self, frames: int) -> int:
        """Return the steps of a sound of so many frames."""
        return -(-frames // self.config.stacked)

    def matrices(self) -> list[nn.Parameter]:
        """Return the hidden matrices, for Muon."""
        return [weight for weight in self.layers.parameters() if weight.ndim == 2]


def _masked(batch: SoundBatch, masks: int) -> SoundBatch:
    """Hide stretches of time and bands of pitch, as many as `masks` of each in every sound (SpecAugment, Park 2019).

    What is hidden becomes 0, the mean. Places and widths are uniform; a stretch is at most a fifth of a sound.
    """
    frames, lengths = batch
    shape, device = (len(frames), masks, 1), frames.device
    longest = (lengths[:, None, None] / 5).clamp(max=_LONGEST_MASK)
    hidden = []
    for most, size, places in (
        (longest, lengths[:, None, None], frames.shape[1]),
        (frames.shape[2] / 5, frames.shape[2], frames.shape[2]),
    ):
        widths = torch.rand(shape, device=device) * most
        starts = torch.rand(shape, device=device) * (size - widths)
        at = torch.arange(places, device=device)
        hidden.append(((at >= starts) & (at < starts + widths)).any(1))
    in_time, in_pitch = hidden
    return SoundBatch(frames.masked_fill(in_time[:, :, None] | in_pitch[:, None, :], 0), lengths)


def _layers(config: SpeechConfig, inputs: int) -> Any:
    """Return the layers that read the stacked frames: (B, S, inputs) to (B, S, width), both ways."""
    shared: dict[str, Any] = {
        "width": config.width,
        "layers": config.layers,
        "dropout": config.dropout,
        "embedding_width": inputs,
    }
    if config.encoder == "transformer":
        return TransformerLayers(TransformerLabelling(heads=config.heads, **shared))
    kind = LSTMLabelling if config.encoder == "lstm" else GRULabelling
    return RecurrentLayers(kind(directions="both", **shared))


def batch_of(sounds: Sequence[Float32[ndarray, "T M"]], device: torch.device | None = None) -> SoundBatch:
    """Return normalised frames as a batch, on a device."""
    lengths = [len(own) for own in sounds]
    padded = np.zeros((len(sounds), max(lengths), sounds[0].shape[1]), np.float32)
    for row, own in zip(padded, sounds, strict=True):
        row[: len(own)] = own
    return SoundBatch(torch.from_numpy(padded).to(device), torch.tensor(lengths, device=device))
