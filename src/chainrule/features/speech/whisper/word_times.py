"""When each word is said: dynamic time warping along the heads of the decoder that attend to what is said.

As in OpenAI's code: the weights of these heads are normalised over tokens, smoothed by a median over time, and
averaged; the path through them that is monotone in both gives each token its first step.
Legend: T tokens, S steps of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.features.seq2seq.network.cross_attention import WeightLists
from chainrule.features.speech.whisper.word_times_kernels import warp
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float64, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.features.seq2seq.network.model import SourceConditionedModel
    from chainrule.features.speech.whisper.config import WhisperConfig

_MEDIAN = 7  # steps


@torch.inference_mode()
def token_steps(
    given: SourceConditionedModel, asked: Sequence[int], text: Sequence[int], steps: int, config: WhisperConfig
) -> Int64[ndarray, " T+1"]:
    """Return the first step of each token of a text in a window, and of its end.

    asked: the tokens of the language and of the task. text: tokens without times. steps: how many are of the recording.
    """
    bound = given.bound
    tokens = [BEGIN, *asked, config.no_timestamps, *text]
    x = bound.embed(torch.tensor([tokens], device=bound.device))
    lists = WeightLists([], None)
    rows = torch.zeros(1, dtype=torch.int64, device=bound.device)
    bound.network.decode(x, None, None, bound.source.at(rows, lists))
    heads = torch.cat(lists.source, 1)[0].float().cpu()  # (layers x H, T, S)
    return path_of(heads[list(config.alignment_heads), 2 + len(asked) - 1 :, : max(1, steps)])


def path_of(weights: Float[Tensor, "heads T+1 S"]) -> Int64[ndarray, " T+1"]:
    """Return the first step of each token on the best path. weights: of attention."""
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    smooth = smoothed((weights - mean) / deviation)
    return first_steps(-smooth.mean(0).double().numpy())


def smoothed(weights: Float[Tensor, "heads T S"]) -> Float[Tensor, "heads T S"]:
    """Return the median of the steps around each; the row is mirrored at its ends."""
    around = _MEDIAN // 2
    if weights.shape[-1] <= around:
        return weights
    padded = F.pad(weights, (around, around), mode="reflect")
    return padded.unfold(-1, _MEDIAN, 1).sort()[0][..., around]


def first_steps(costs: Float64[ndarray, "T S"]) -> Int64[ndarray, " T"]:
    """Return the first step of each token on the cheapest monotone path."""
    first = np.zeros(len(costs), np.int64)
    warp(np.ascontiguousarray(np.nan_to_num(costs)), first)
    return first
