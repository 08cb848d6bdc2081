"""An LSTM that attends to its own past states before each step: LSTMN (Cheng, Dong and Lapata 2016, section 3).

Legend: B batch, T time, E width of the input, D width of the layer, S past states that are kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

    IntraAttentionState = tuple[Tensor, Tensor, Tensor, Tensor]


class IntraAttentionLSTM(nn.Module):
    """A layer in place of torch's LSTM, with the same names of weights.

    Before each step, the last `span` hidden states and cells are averaged by attention, and the step goes on from these
    averages where an LSTM goes on from the last state:

    a_i = v tanh(W_h h_i + W_x x_t + W_s s_t-1)         s_t-1: the hidden summary of the step before (equation 4)
    w = softmax(a)                                      (equation 5)
    s_t, m_t = sum_i w_i h_i, sum_i w_i c_i             (equation 6)
    i, f, o = sigmoid(W x_t + U s_t + b)                (equation 7)
    g = tanh(W_g x_t + U_g s_t + b_g)
    c_t = f * m_t + i * g                               (equation 8)
    h_t = o * tanh(c_t)                                 (equation 9)

    The paper keeps all states of a sentence; here `span` bounds them, so that a text may go on for ever.
    """

    def __init__(self, inputs: int, width: int, span: int) -> None:
        super().__init__()
        self.width, self.span = width, span
        self.weight_ih_l0 = nn.Parameter(torch.empty(4 * width, inputs))
        self.weight_hh_l0 = nn.Parameter(torch.empty(4 * width, width))
        self.bias_ih_l0 = nn.Parameter(torch.empty(4 * width))
        self.of_states, self.of_summary = (nn.Parameter(torch.empty(width, width)) for _ in range(2))
        self.of_inputs, self.score = nn.Parameter(torch.empty(width, inputs)), nn.Parameter(torch.empty(width))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(width), 1 / math.sqrt(width))

    def start(self, rows: int) -> IntraAttentionState:
        """The summary, the kept hidden states and cells, and how many of them there are: nothing, as zeros."""
        zeros = self.score.new_zeros
        kept = self.span * self.width
        return zeros(rows, self.width), zeros(rows, kept), zeros(rows, kept), zeros(rows, 1)

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        state: IntraAttentionState,
        weights_out: list[Tensor] | None = None,
        gates_out: list[dict[str, Tensor]] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], IntraAttentionState]:
        """The hidden states, and the state after them.

        weights_out: where to put the attention of each step, (B, S), the latest state last. gates_out: where to put
        what each step computes, by name as in `cells.lstm_gates`.
        """
        summary, hiddens, cells, count = state
        hiddens, cells = (kept.view(-1, self.span, self.width) for kept in (hiddens, cells))  # (B, S, D)
        keys = hiddens @ self.of_states.T
        queries, inputs = x @ self.of_inputs.T, x @ self.weight_ih_l0.T + self.bias_ih_l0
        from_right = torch.arange(self.span, 0, -1, device=x.device)
        outputs = []
        for query, given in zip(queries.unbind(1), inputs.unbind(1), strict=True):
            scores = torch.tanh(keys + (query + summary @ self.of_summary.T)[:, None]) @ self.score
            is_kept = from_right <= count
            weights = scores.float().masked_fill(~is_kept, -1e30).softmax(1) * is_kept  # all 0 before the first state
            weights = weights.to(hiddens.dtype)
            summary, memory = ((weights[..., None] * kept).sum(1) for kept in (hiddens, cells))
            i, f, g, o = (given + summary @ self.weight_hh_l0.T).chunk(4, 1)
            i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
            cell = f * memory + i * g
            hidden = o * torch.tanh(cell)
            hiddens, cells, keys = (
                torch.cat((kept[:, 1:], new[:, None]), 1)
                for kept, new in ((hiddens, hidden), (cells, cell), (keys, hidden @ self.of_states.T))
            )
            count = (count + 1).clamp(max=self.span)
            outputs.append(hidden)
            if weights_out is not None:
                weights_out.append(weights)
            if gates_out is not None:
                gates_out.append({"i": i, "f": f, "o": o, "g": g, "c": cell, "h": hidden})
        return torch.stack(outputs, 1), (summary, hiddens.flatten(1), cells.flatten(1), count)
