"""Scheduled sampling: networks that read their own guesses (Williams and Zipser 1989; Bengio 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.neural.layers.state import detach

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from chainrule.neural.layers.output import Output

    Forward = Callable[[Tensor, Any], tuple[Tensor, Any]]  # tokens (B, T), state -> hidden states, next state


@torch.no_grad()
def own_guesses(network: Forward, output: Output, inputs: Tensor, state: Any, share: float) -> Tensor:
    """The inputs, (B, T), with guesses in place of a random share of the tokens; the first token stays.

    A guess is sampled from what the network predicts after all that it has read, earlier guesses included. No gradient
    flows through guesses, so one pass over the result has the gradient of sampling step by step.
    """
    read = inputs.clone()
    for i in range(inputs.size(1) - 1):
        hidden, state = network(read[:, i : i + 1], state)
        state = detach(state)
        guesses = torch.multinomial(output.log_probs(hidden[:, 0]).float().exp(), 1)[:, 0]
        is_guessed = torch.rand(len(read), device=read.device) < share
        read[:, i + 1] = torch.where(is_guessed, guesses, read[:, i + 1])
    return read


@torch.no_grad()
def own_guesses_at_once(log_probs: Tensor, inputs: Tensor, share: float) -> Tensor:
    """As `own_guesses`, for networks that read all positions at once: a guess depends on the text before it, not on
    other guesses (Mihaylova and Martins 2019).

    log_probs: (B, T, V), after each input.
    """
    guesses = torch.multinomial(log_probs[:, :-1].flatten(0, 1).float().exp(), 1).view(inputs[:, 1:].shape)
    is_guessed = torch.rand(guesses.shape, device=inputs.device) < share
    return torch.cat((inputs[:, :1], torch.where(is_guessed, guesses, inputs[:, 1:])), 1)
