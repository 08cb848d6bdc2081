"""Recurrent layers in both directions: joined after each layer, or separate through all layers.

Legend: B batch, T time, E width of the input, D width of a direction.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.config.language_models import RecurrentConfig
from chainrule.neural.encoders.recurrent import Recurrent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.layers.state import State


class BidirectionalRecurrent(nn.Module):
    """Each layer reads the hidden states of both directions of the layer below (Graves and Schmidhuber 2005)."""

    is_bidirectional = True
    context: int | None = None
    reach: int | None = None

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.width, self.residual = config.output_width, config.residual
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.pairs = nn.ModuleList()
        plain = RecurrentConfig(**{field.name: getattr(config, field.name) for field in fields(RecurrentConfig)})
        for layer, (input_width, width) in enumerate(pairwise(widths), 1):
            before = config.input_dropout if layer == 1 else config.dropout
            after = config.output_dropout if layer == config.layers else 0.0
            single = replace(plain, layers=1, embedding_width=input_width, input_dropout=before, output_dropout=after)
            self.pairs.append(_Pair(replace(single, tied=False, width=width // 2)))

    def start(self, rows: int) -> State:
        """Return None, since there is no state to continue from."""
        return None

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states, as `Encoder` does, without a state."""
        *_, hidden = self.hidden_layers(x, starts)
        return hidden, None

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Implement `Encoder.hidden_layers`."""
        for pair in self.pairs:
            hidden = torch.cat(pair(x, starts), -1)
            x = hidden + x if self.residual and hidden.shape == x.shape else hidden
            yield x


class SeparateDirections(nn.Module):
    """Two encoders that never meet (ELMo, Peters et al. 2018): one reads what precedes a token, one what follows it.

    So no hidden state depends on the token at its own position.
    """

    is_bidirectional = True
    context: int | None = None
    reach: int | None = None

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.width = config.output_width
        self.pair = _Pair(config)

    def start(self, rows: int) -> State:
        """Return None, since there is no state to continue from."""
        return None

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the sum of both `sides`, as `Encoder` does, without a state."""
        before, after = self.sides(x, starts)
        return before + after, None

    def sides(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        """Return, at each position, the hidden states of all that precedes it and of all that follows it; 0 for
        nothing.
        """
        ahead, back = self.pair(x, starts)
        before, after = F.pad(ahead[:, :-1], (0, 0, 1, 0)), F.pad(back[:, 1:], (0, 0, 0, 1))
        if starts is None:
            return before, after
        return before.masked_fill(starts[..., None], 0), after.masked_fill(_ends(starts)[..., None], 0)

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Yield the layers of `Encoder.hidden_layers`, but of both directions, (B, T, 2D), each including the position
        itself.
        """
        ahead, back = self.pair.ahead, self.pair.back
        backwards = back.hidden_layers(x.flip(1), None if starts is None else _ends(starts).flip(1))
        for forwards, reverse in zip(ahead.hidden_layers(x, starts), backwards, strict=True):
            yield torch.cat((forwards, reverse.flip(1)), -1)


class _Pair(nn.Module):
    """Two recurrent encoders of the same rows, one from the left and one from the right."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.ahead, self.back = Recurrent(config), Recurrent(config)

    def forward(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        """Return the hidden states of each direction, each of which includes the position itself."""
        ahead, _ = self.ahead(x, None, starts)
        back, _ = self.back(x.flip(1), None, None if starts is None else _ends(starts).flip(1))
        return cast("Tensor", ahead), cast("Tensor", back).flip(1)


def _ends(starts: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Return where the documents that begin at `starts` end."""
    return F.pad(starts[:, 1:], (0, 1), value=True)
