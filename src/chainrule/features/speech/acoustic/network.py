"""wav2vec 2.0, HuBERT and WavLM: convolutions over samples, and a Transformer over their steps, with an output for CTC.

Legend: B batch, N samples, S steps, C maps of a convolution, D width, H heads, V labels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError, TextError, WrongModelError
from chainrule.features.speech.listening.ctc_hearing import CtcTranscriber
from chainrule.features.speech.listening.listener import hear_file
from chainrule.neural.device import follow_load, use_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Bool, Float, Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.features.speech.acoustic.config import AcousticConfig
    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.sounds.sound import Sound
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.text.tokenization.tokenizer import Tokenizer

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_exact": F.gelu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}
_NORM_EPSILON = 1e-5  # of the convolutions
_SAMPLES_EPSILON = 1e-7  # what is added to the variance of samples
_WINDOW_SECONDS = 30.0


class AcousticNetwork(nn.Module):
    """P(label or blank | samples), at each step; or, without labels, a vector for each step."""

    tokenizer: Tokenizer | None = None
    searches = False

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.config = config
        before = (1, *config.convolution_widths[:-1])
        sizes = zip(
            before, config.convolution_widths, config.convolution_kernels, config.convolution_strides, strict=True
        )
        self.convolutions = nn.ModuleList(_Convolution(config, i, *own) for i, own in enumerate(sizes))
        last, width = config.convolution_widths[-1], config.width
        self.input_norm = nn.LayerNorm(last, config.norm_epsilon) if config.input_norm else None
        self.project = nn.Linear(last, width)
        self.positions = _Positions(config)
        self.norm = nn.LayerNorm(width, config.norm_epsilon)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        self.distances = nn.Parameter(torch.zeros(config.buckets, config.heads)) if config.buckets else None
        self.output = nn.Linear(width, len(config.labels)) if config.labels else None

    def forward(
        self, samples: Float[Tensor, "B N"], lengths: Int64[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B S V"]:
        """Return the scores of labels before softmax. lengths: of the sounds; None: the padding is heard, too."""
        assert self.output is not None
        *_, last = self.layers(samples, lengths)
        return self.output(last)

    def layers(
        self, samples: Float[Tensor, "B N"], lengths: Int64[Tensor, " B"] | None = None
    ) -> Iterator[Float[Tensor, "B S D"]]:
        """Yield the vectors that each layer reads, those after the last one, and these as the output reads them.

        With norms after the parts of layers, the last two are the same.
        """
        config = self.config
        x = samples[:, None]  # (B, 1, N)
        for convolution in self.convolutions:
            x = convolution(x)
        x = x.mT  # (B, S, C)
        x = self.project(x if self.input_norm is None else self.input_norm(x))
        inside: Bool[Tensor, "B S"] | None = None
        if lengths is not None:
            steps = torch.tensor([config.steps(length) for length in lengths.tolist()], device=x.device)
            inside = torch.arange(x.shape[1], device=x.device) < steps[:, None]
            x = x * inside[..., None]
        x = x + self.positions(x)
        is_post = config.norm_place == "post"
        if is_post:
            x = self.norm(x)
        biases = None if self.distances is None else self._biases(x.shape[1])
        for block in self.blocks:
            yield x
            x = block(x, inside, biases)
        yield x
        yield x if is_post else self.norm(x)

    def _biases(self, steps: int) -> Float[Tensor, "H S S"]:
        """Return the biases for the distance of each key from each query (Raffel 2020): near ones have their own."""
        assert self.distances is not None
        config = self.config
        distances = torch.arange(1 - steps, steps, device=self.distances.device)
        half = config.buckets // 2
        exact = half // 2
        far = torch.log(distances.abs().float() / exact) / math.log(config.longest / exact) * (half - exact)
        buckets = torch.where(
            distances.abs() < exact, distances.abs(), (exact + far).clamp(0, half - 1).nan_to_num(0).long()
        )
        values = self.distances[buckets + half * (distances > 0)].T  # (H, 2 S - 1)
        return values.unfold(1, steps, 1).flip(1)  # row i begins with the distance -i

    @property
    def rate(self) -> int:
        """Implement `Listener.rate`."""
        return self.config.rate

    @property
    def mels(self) -> None:
        """Implement `Listener.mels`."""
        return

    @property
    def step_samples(self) -> int:
        """Implement `CtcNetwork.step_samples`."""
        return self.config.step_samples

    @property
    def step_seconds(self) -> float:
        """Implement `Listener.step_seconds`."""
        return self.config.step_samples / self.config.rate

    @property
    def window_seconds(self) -> float:
        """Implement `CtcNetwork.window_seconds`."""
        return _WINDOW_SECONDS

    @property
    def columns(self) -> tuple[str, ...]:
        """Implement `CtcNetwork.columns`."""
        return self.config.labels

    def writes(self) -> tuple[str, int]:
        """Implement `Listener.writes`."""
        config = self.config
        if not config.labels:
            return f"none; a {config.encoder} without a CTC head, which gives {config.width} features for each step", 0
        return f"none; a {config.encoder} that writes {''.join(config.labels)!r}", len(config.labels)

    def transcriber(self, options: TranscribeOptions) -> CtcTranscriber:
        """Implement `Listener.transcriber`."""
        if not self.config.labels:
            raise WrongModelError(
                f"this {self.config.encoder} has no CTC head, so it writes no texts; it gives features of sounds "
                "(chainrule embed, or model.features)"
            )
        return CtcTranscriber(self, options)

    def hear(self, transcript: Transcript, hearing: Any) -> None:
        """Implement `Listener.hear`."""
        hear_file(transcript, hearing, self.rate)

    @torch.inference_mode()
    def log_probs(self, sound: Sound) -> Float32[ndarray, "S V"]:
        """Implement `CtcNetwork.log_probs`."""
        return np.asarray(self(self._prepared(sound))[0].log_softmax(-1).numpy())

    @torch.inference_mode()
    def features(self, sound: Sound, layer: int | None) -> Float32[ndarray, "S D"]:
        """Return the vectors that a layer gives, from 1 on, or that the first one reads, 0; None for what the output
        reads. Raises TextError, SettingError.
        """
        most = self.config.layers
        if layer is not None and not -most - 1 <= layer <= most:
            raise SettingError(f"layer is {layer}; expected 0 to {most}, or from the end, -1 to {-most - 1}")
        wanted = most + 1 if layer is None else layer % (most + 1)
        x = next(x for i, x in enumerate(self.layers(self._prepared(sound))) if i == wanted)
        return np.asarray(x[0].numpy())

    def _prepared(self, sound: Sound) -> Float[Tensor, "1 N"]:
        least = self.config.least_samples
        if len(sound.samples) < least:
            raise TextError(
                f"{sound.name}: is {1000 * sound.seconds:.3g} ms long; expected {1000 * least / sound.rate:g} ms"
            )
        use_threads()
        follow_load()
        self.eval()
        return torch.from_numpy(
            normalised_samples(sound.samples) if self.config.normalised else sound.samples.astype(np.float32)
        )[None]


def normalised_samples(samples: Float64[ndarray, " N"]) -> Float32[ndarray, " N"]:
    """Return samples with a mean of 0 and a deviation of 1, in float32."""
    x = samples.astype(np.float32)
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + _SAMPLES_EPSILON), np.float32)


class _Convolution(nn.Module):
    """A convolution over samples or steps, perhaps a norm, and an activation: (B, C, T) to (B, C', T')."""

    def __init__(self, config: AcousticConfig, place: int, before: int, width: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(before, width, kernel, stride, bias=config.convolution_bias)
        self.by_step = config.convolution_norm == "layer"
        self.norm: nn.Module | None = None
        if self.by_step:
            self.norm = nn.LayerNorm(width, _NORM_EPSILON)
        elif place == 0:
            self.norm = nn.GroupNorm(width, width, _NORM_EPSILON)
        self.activation = _ACTIVATIONS[config.convolution_activation]

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        x = self.convolution(x)
        if self.norm is not None:
            x = self.norm(x.mT).mT if self.by_step else self.norm(x)
        return self.activation(x)


class _Positions(nn.Module):
    """What is added for positions: a convolution over many steps, (B, S, D) to (B, S, D)."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        kernel, width = config.position_kernel, config.width
        self.convolution = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=config.position_groups)
        self.scale, self.shift = (
            nn.Parameter(torch.ones(width)) if config.position_shift else None for _ in ("scale", "shift")
        )
        self.activation = _ACTIVATIONS[config.convolution_activation]

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        if self.scale is not None and self.shift is not None:
            x = x * self.scale + self.shift
        return self.activation(self.convolution(x.mT)[..., : x.shape[1]]).mT


class _Block(nn.Module):
    """A layer of the Transformer."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.is_post = config.norm_place == "post"
        width = config.width
        self.attention = _Attention(config)
        self.norms = nn.ModuleList(nn.LayerNorm(width, config.norm_epsilon) for _ in range(2))
        self.up, self.down = nn.Linear(width, config.feed_forward_width), nn.Linear(config.feed_forward_width, width)
        self.activation = _ACTIVATIONS[config.activation]

    def forward(
        self, x: Float[Tensor, "B S D"], inside: Bool[Tensor, "B S"] | None, biases: Float[Tensor, "H S S"] | None
    ) -> Float[Tensor, "B S D"]:
        first, second = self.norms
        if self.is_post:
            x = first(x + self.attention(x, inside, biases))
            return second(x + self.down(self.activation(self.up(x))))
        x = x + self.attention(first(x), inside, biases)
        return x + self.down(self.activation(self.up(second(x))))


class _Attention(nn.Module):
    """Attention of each step to all, where WavLM adds biases for distances, by gates that depend on the query."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gates = nn.Linear(width // self.heads, 8) if config.buckets else None
        self.gate_scale = nn.Parameter(torch.ones(self.heads)) if config.buckets else None

    def forward(
        self, x: Float[Tensor, "B S D"], inside: Bool[Tensor, "B S"] | None, biases: Float[Tensor, "H S S"] | None
    ) -> Float[Tensor, "B S D"]:
        parts = self.query_key_value(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, B, H, S, d)
        query, key, value = parts
        mask = None if inside is None else inside[:, None, None]  # (B, 1, 1, S)
        if biases is not None:
            mask = self._gated(x, biases, mask)
        heard = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(heard.transpose(1, 2).flatten(2))

    def _gated(
        self, x: Float[Tensor, "B S D"], biases: Float[Tensor, "H S S"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B H S S"]:
        """Return the biases of each query, and -infinity for what is padding (Chen 2022, equations 5 to 8)."""
        assert self.gates is not None
        assert self.gate_scale is not None
        own = x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, S, d)
        sums = self.gates(own).unflatten(-1, (2, 4)).sum(-1)  # (B, H, S, 2)
        update, reset = sums.sigmoid().unbind(-1)
        gate = update * (reset * self.gate_scale[:, None] - 1) + 2
        gated = gate[..., None] * biases
        return gated if mask is None else gated.masked_fill(~mask, -math.inf)
