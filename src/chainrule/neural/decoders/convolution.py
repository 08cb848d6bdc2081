"""A convolutional decoder: each layer joins a few positions before its own, and looks at the source (Gehring 2017).

Legend: B rows, T time, D width, k positions that a layer joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.cross_attention import CrossAttention
from chainrule.neural.dropout import dropped
from chainrule.neural.positions import Sinusoidal

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.source import KeysAndValues, Source
    from chainrule.neural.states import State


class ConvolutionDecoder(nn.Module):
    """A Decoder. Its state: the next token's position, and the last k - 1 inputs of each layer, (B, k - 1, D)."""

    def __init__(self, config: ConditionalConfig) -> None:
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

    def keys_and_values(self, memory: Tensor) -> tuple[KeysAndValues, ...]:
        """As `Decoder.keys_and_values`."""
        return tuple(cast("CrossAttention", look).keys_and_values(memory) for look in self.looks)

    def start(self, source: Source) -> tuple[Tensor, ...]:
        """As `Decoder.start`."""
        nothing = source.memory.new_zeros(len(source.rows), self.kernel - 1, self.width)
        return (torch.zeros_like(source.rows), *[nothing] * len(self.layers))

    def forward(self, x: Tensor, state: State, starts: Tensor | None, source: Source) -> tuple[Tensor, State]:
        """As `Decoder`."""
        positions, *inputs = cast("tuple[Tensor, ...]", self.start(source) if state is None else state)
        length, before = x.shape[1], self.kernel - 1
        times = torch.arange(length, device=x.device)
        first = torch.full_like(times, -before)[None].expand(len(x), -1)  # the first time that each position may see
        here = positions[:, None] + times
        if starts is not None:
            begun = torch.where(starts, times, min(-before, -1)).cummax(1).values  # below 0: not in this call
            first, here = begun, torch.where(begun >= 0, times - begun, here)
        taps = times[:, None] + torch.arange(-before, 1, device=x.device)  # (T, k)
        seen = taps >= first[..., None]  # (B, T, k)
        kept = torch.arange(length - before, length, device=x.device) >= first[:, -1:]  # (B, k - 1)
        x = dropped(x + self.sinusoidal(here).to(x.dtype), self.dropout, self.training)
        after = []
        for number, (layer, look, last) in enumerate(zip(self.layers, self.looks, inputs, strict=True)):
            both = torch.cat((last, x), 1)
            after.append(both[:, length:] * kept[..., None])
            windows = both.unfold(1, self.kernel, 1) * seen.unsqueeze(2)  # (B, T, D, k)
            found = dropped(F.glu(layer(windows.flatten(2)), -1), self.dropout, self.training)
            found = (found + look(found, source, number)) * 0.5**0.5
            x = (x + found) * 0.5**0.5
        return x, (here[:, -1] + 1, *after)
