"""What a recurrent network reads in training: the text, or its own guesses (Williams and Zipser 1989; Bengio 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.neural.states import detach

if TYPE_CHECKING:
    from torch import Tensor

    from chainrule.neural.network import Network


@torch.no_grad()
def own_guesses(network: Network, inputs: Tensor, state: Any, share: float) -> Tensor:
    """What is read, (B, T): the first token as it is, and then by chance, in this share of places, a guess instead.

    A guess is drawn from what the network predicts after all that it has read so far, guesses among it. No gradient
    flows through it, so the loss on what comes out here has the gradient of stepping with guesses.
    """
    read = inputs.clone()
    for place in range(inputs.size(1) - 1):
        here = slice(place, place + 1)
        hidden, state = network(read[:, here], state)
        state = detach(state)
        guesses = torch.multinomial(network.output.log_probs(hidden[:, 0]).float().exp(), 1)[:, 0]
        is_guessed = torch.rand(len(read), device=read.device) < share
        read[:, place + 1] = torch.where(is_guessed, guesses, read[:, place + 1])
    return read
