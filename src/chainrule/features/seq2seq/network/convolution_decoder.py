"""The convolutional decoder of Gehring et al. 2017: causal gated convolutions, each layer with attention to the source.

Legend: B rows, T time, D width, k kernel width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.features.seq2seq.network.cross_attention import CrossAttention
from chainrule.neural.layers.basic import drop
from chainrule.neural.layers.positions import Sinusoidal

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.cross_attention import KeysAndValues, Source
    from chainrule.neural.layers.state import State


class ConvolutionDecoder(nn.Module):
    """A Decoder. Its state: the next token's position, and the last k - 1 inputs of each layer, (B, k - 1, D)."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.width, self.kernel, self.dropout = config.width, config.kernel, config.dropout
        self.sinusoidal = Sinusoidal(config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.kernel * config.width, 2 * config.width) for _ in range(config.decoder_layers)
        )
        self.looks = nn.ModuleList(
            CrossAttention(
                config.width,
                1,
                config.score,
                longest=config.max_source,
                biases=True,
                dropout=config.attention_dropout,
            )
            for _ in range(config.decoder_layers)
        )

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """Implement `Decoder.keys_and_values`."""
        return tuple(cast("CrossAttention", look).keys_and_values(memory) for look in self.looks)

    def start(self, source: Source) -> tuple[Tensor, ...]:
        """Implement `Decoder.start`."""
        zeros = source.memory.new_zeros(len(source.rows), self.kernel - 1, self.width)
        return (torch.zeros_like(source.rows), *[zeros] * len(self.layers))

    def forward(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return the hidden states and the new state, as `Decoder` does."""
        positions, *inputs = cast("tuple[Tensor, ...]", self.start(source) if state is None else state)
        length, before = x.shape[1], self.kernel - 1
        times = torch.arange(length, device=x.device)
        first = torch.full_like(times, -before)[None].expand(len(x), -1)  # the first input that each output depends on
        here = positions[:, None] + times
        if starts is not None:
            begins = torch.where(starts, times, min(-before, -1)).cummax(1).values  # below 0: in an earlier call
            first, here = begins, torch.where(begins >= 0, times - begins, here)
        taps = times[:, None] + torch.arange(-before, 1, device=x.device)  # (T, k)
        inside = taps >= first[..., None]  # (B, T, k)
        kept = torch.arange(length - before, length, device=x.device) >= first[:, -1:]  # (B, k - 1)
        x = drop(x + self.sinusoidal(here).to(x.dtype), self.dropout, self.training)
        after = []
        for i, (layer, look, past) in enumerate(zip(self.layers, self.looks, inputs, strict=True)):
            whole = torch.cat((past, x), 1)
            after.append(whole[:, length:] * kept[..., None])
            windows = whole.unfold(1, self.kernel, 1) * inside.unsqueeze(2)  # (B, T, D, k)
            hidden = drop(F.glu(layer(windows.flatten(2)), -1), self.dropout, self.training)
            hidden = (hidden + look(hidden, source, i)) * 0.5**0.5
            x = (x + hidden) * 0.5**0.5
        return x, (here[:, -1] + 1, *after)
