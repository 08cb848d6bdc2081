"""What a recurrent network reads in training: the text, or its own guesses (Williams and Zipser 1989; Bengio 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.neural.encoder_states import detach

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from chainrule.neural.output import Output

    Reads = Callable[[Tensor, Any], tuple[Tensor, Any]]  # tokens (B, T), a state -> hidden states, and the state after


@torch.no_grad()
def own_guesses(network: Reads, output: Output, inputs: Tensor, state: Any, share: float) -> Tensor:
    """What is read, (B, T): the first token as it is, and then by chance, in this share of places, a guess instead.

    A guess is drawn from what the network predicts after all that it has read so far, guesses among it. No gradient
    flows through it, so the loss on what comes out here has the gradient of stepping with guesses.
    """
    read = inputs.clone()
    for place in range(inputs.size(1) - 1):
        here = slice(place, place + 1)
        hidden, state = network(read[:, here], state)
        state = detach(state)
        guesses = torch.multinomial(output.log_probs(hidden[:, 0]).float().exp(), 1)[:, 0]
        is_guessed = torch.rand(len(read), device=read.device) < share
        read[:, place + 1] = torch.where(is_guessed, guesses, read[:, place + 1])
    return read


@torch.no_grad()
def own_guesses_at_once(log_probs: Tensor, inputs: Tensor, share: float) -> Tensor:
    """As `own_guesses`, for networks that read all places at once: the guesses are drawn from what is predicted after
    the text, not after other guesses (Mihaylova and Martins 2019).

    log_probs: (B, T, V), after each input.
    """
    guesses = torch.multinomial(log_probs[:, :-1].flatten(0, 1).float().exp(), 1).view(inputs[:, 1:].shape)
    is_guessed = torch.rand(guesses.shape, device=inputs.device) < share
    return torch.cat((inputs[:, :1], torch.where(is_guessed, guesses, inputs[:, 1:])), 1)
