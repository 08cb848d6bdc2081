"""What each layer of a network would predict: its hidden state, read by the network's own output.

The logit lens (nostalgebraist 2020): a Transformer's layers each add to one residual stream, so that the final norm and
output can read it after any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.neural.encoders.transformer import Transformer

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.neural.network import Network


@torch.inference_mode()
def layer_log_probs(network: Network, inputs: Int32[ndarray, " read"]) -> dict[int, Float32[ndarray, " V"]]:
    """The next-token distribution after what is read, in nats, by the number of the layer, from 1.

    Those of the last layer are the network's. Layers narrower or wider than the output's input are left out.
    inputs: as the network reads them, </s> before the text.
    """
    encoder, output = network.encoder, network.output
    final_norm = encoder.norm if isinstance(encoder, Transformer) else None
    x = network.embed(torch.from_numpy(inputs.astype(np.int64))[None].to(network.device))
    hidden = [states[0, -1] for states in encoder.hidden_layers(x)]
    guesses = {}
    for layer, state in enumerate(hidden, 1):
        if state.shape[-1] != encoder.width:
            continue
        if final_norm is not None and layer < len(hidden):  # the last one is normalised already
            state = final_norm(state)
        guesses[layer] = output.log_probs(state).cpu().numpy()
    return guesses
