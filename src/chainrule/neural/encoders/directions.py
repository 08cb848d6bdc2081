"""Recurrent layers that read both ways: woven, each layer seeing both directions, or apart through all layers.

Legend: B batch, T time, D width of a direction.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.encoders.recurrent import Recurrent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.states import State


class Woven(nn.Module):
    """Each layer is given what both directions of the one below have found (Graves and Schmidhuber 2005)."""

    is_bidirectional = True
    context: int | None = None
    reach: int | None = None

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.width, self.residual = config.output_width, config.residual
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.pairs = nn.ModuleList()
        plain = RecurrentConfig(**{field.name: getattr(config, field.name) for field in fields(RecurrentConfig)})
        for number, (given, width) in enumerate(pairwise(widths), 1):
            dropped = config.input_dropout if number == 1 else config.dropout
            at_end = config.output_dropout if number == config.layers else 0.0
            one = replace(plain, layers=1, embedding_width=given, input_dropout=dropped, output_dropout=at_end)
            self.pairs.append(_Pair(replace(one, tied=False, width=width // 2)))

    def start(self, rows: int) -> State:
        """There is no state to go on from."""
        return None

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, E) -> (B, T, 2D). starts: (B, T), True where a document begins, which sees no other."""
        *_, found = self.hidden_layers(x, starts)
        return found, None

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`."""
        for pair in self.pairs:
            found = torch.cat(pair(x, starts), -1)
            x = found + x if self.residual and found.shape == x.shape else found
            yield x


class Apart(nn.Module):
    """The two directions never meet (ELMo, Peters 2018): at each position, what is before it and what is behind it.

    So nothing that is given there has seen the position itself.
    """

    is_bidirectional = True
    context: int | None = None
    reach: int | None = None

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.width = config.output_width
        self.pair = _Pair(config)

    def start(self, rows: int) -> State:
        """There is no state to go on from."""
        return None

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, E) -> (B, T, D), the sum of both `sides`."""
        before, behind = self.sides(x, starts)
        return before + behind, None

    def sides(self, x: Tensor, starts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What has read all before each position, and all behind it: (B, T, D) each, zeros where there is nothing."""
        ahead, back = self.pair(x, starts)
        before, behind = F.pad(ahead[:, :-1], (0, 0, 1, 0)), F.pad(back[:, 1:], (0, 0, 0, 1))
        if starts is None:
            return before, behind
        return before.masked_fill(starts[..., None], 0), behind.masked_fill(_ends(starts)[..., None], 0)

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`, but that each position has been seen by both directions: (B, T, 2D)."""
        ahead, back = self.pair.ahead, self.pair.back
        behind = back.hidden_layers(x.flip(1), None if starts is None else _ends(starts).flip(1))
        for one, other in zip(ahead.hidden_layers(x, starts), behind, strict=True):
            yield torch.cat((one, other.flip(1)), -1)


class _Pair(nn.Module):
    """Two recurrent encoders over the same rows, one from the left and one from the right."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.ahead, self.back = Recurrent(config), Recurrent(config)

    def forward(self, x: Tensor, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        ahead, _ = self.ahead(x, None, starts)
        back, _ = self.back(x.flip(1), None, None if starts is None else _ends(starts).flip(1))
        return cast("Tensor", ahead), cast("Tensor", back).flip(1)


def _ends(starts: Tensor) -> Tensor:
    """Where the documents end that begin at `starts`: (B, T)."""
    return F.pad(starts[:, 1:], (0, 1), value=True)
