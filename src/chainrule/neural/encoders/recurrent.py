"""Recurrent encoders: stacked layers by torch's fast kernels, and LSTMs that attend to their own past states.

The stacked layers have the dropouts of AWD-LSTM (Merity et al. 2018); `chainrule.neural.layers.cells` spells out what
each cell computes. An LSTM that attends to its past states before each step is LSTMN (Cheng, Dong and Lapata 2016,
section 3).
Legend: B batch, T time, E width of the input, D width of the layer, S past states that are kept.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.func import functional_call

from chainrule.base.lanes import LANES
from chainrule.neural.device import runs_lstm_in_bfloat16
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Int64

    from chainrule.neural.config import RecurrentConfig
    from chainrule.neural.layers.state import State

    IntraAttentionState = tuple[Tensor, Tensor, Tensor, Tensor]
    LayerState = tuple[Tensor, ...]  # h, and c of an LSTM: (B, D) each; of one that attends to its past, (B, n) each

_NARROW = 128  # numbers in a layer, up to which torch's calls for each token take longer than the arithmetic


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
        """Return the initial state, zeros: the summary, the kept hidden states and cells, and how many of them there
        are.
        """
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
        """Return the hidden states, and the state after them.

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


class Recurrent(nn.Module):
    """RNN, GRU or LSTM. A state holds the state of each layer: (h,), or (h, c) for an LSTM, (B, D) each.

    With intra_attention, layers are `IntraAttentionLSTM`s, and have their states.
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills
    reach: int | None = None  # and depends on all tokens

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.attends_to_itself = bool(config.intra_attention)
        self.cell, self.width, self.residual = config.cell, config.output_width, config.residual
        self.layers = nn.ModuleList(_layer(config, *pair) for pair in pairwise(widths))
        self.widths = widths[1:]
        dropouts = [config.input_dropout, *[config.dropout] * (config.layers - 1)]
        self.dropouts, self.output_dropout = dropouts, config.output_dropout
        self.variational, self.weight_drop = config.variational, config.weight_drop
        self.regularisation = config.activation_regularisation, config.temporal_regularisation
        set_biases(self.layers, forget=config.forget_bias if self.cell == "lstm" else None)

    def start(self, rows: int) -> tuple[LayerState, ...]:
        """Return the state of rows that have read nothing."""
        if self.attends_to_itself:
            return tuple(cast("IntraAttentionLSTM", layer).start(rows) for layer in self.layers)
        vectors = 2 if self.cell == "lstm" else 1
        like = next(self.parameters())
        return tuple(tuple(like.new_zeros(rows, width) for _ in range(vectors)) for width in self.widths)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        before = self.start(len(x)) if state is None else cast("tuple[LayerState, ...]", state)
        if starts is not None and x.shape[1] == 1:
            before = tuple(tuple(part.masked_fill(starts, 0) for part in layer) for layer in before)
            starts = None
        runs = None if starts is None else _Runs(starts)
        after = []
        for layer, layer_state, dropout in zip(self.layers, before, self.dropouts, strict=True):
            x, last = self._read(layer, self._dropped(x, dropout), layer_state, runs)
            after.append(last)
        return self._dropped(x, self.output_dropout), tuple(after)

    def penalty(self, hidden: Float[Tensor, "B T width"]) -> Float[Tensor, ""]:
        """Return a mean(h_t^2) + b mean((h_t - h_t-1)^2), activation and temporal activation regularisation (Merity,
        McCann and Socher 2017), of the last layer's states after dropout.
        """
        a, b = self.regularisation
        changes = hidden.diff(dim=1)  # of rows of one token, there are none
        return a * hidden.square().mean() + b * changes.square().sum() / max(1, changes.numel())

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Implement `Encoder.hidden_layers`."""
        runs = None if starts is None else _Runs(starts)
        for layer, before, dropout in zip(self.layers, self.start(len(x)), self.dropouts, strict=True):
            x, _ = self._read(layer, self._dropped(x, dropout), before, runs)
            yield x if layer is not self.layers[-1] else self._dropped(x, self.output_dropout)

    def attention_maps(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "B 1 T T"]]:
        """Return, for each layer, the weights of the states before each token, where layers attend to their own
        past.
        """
        maps = []
        for layer, before in zip(self.layers, self.start(len(x)), strict=True):
            steps: list[Tensor] = []
            hidden, _ = layer(x, before, weights_out=steps)
            x = hidden + x if self.residual and hidden.shape == x.shape else hidden
            maps.append(torch.stack([_placed(weights, t, len(steps)) for t, weights in enumerate(steps)], 1)[:, None])
        return maps

    def _read(self, layer: nn.Module, x: Tensor, state: LayerState, runs: _Runs | None) -> tuple[Tensor, LayerState]:
        """Run a layer as `_run` does, with the residual connection, if there is one."""
        hidden, last = self._run(layer, x, state, runs)
        return hidden + x if self.residual and hidden.shape == x.shape else hidden, last

    def _run(self, layer: nn.Module, x: Tensor, state: LayerState, runs: _Runs | None) -> tuple[Tensor, LayerState]:
        """Return the hidden states of a layer, (B, T, D), and its state after the last token of each row."""
        weights: dict[str, Tensor] = {}
        if self.training and self.weight_drop:
            weights["weight_hh_l0"] = drop(cast("Tensor", layer.weight_hh_l0), self.weight_drop)
        if runs is None:
            return self._call(layer, weights, x, state)
        states = tuple(part[runs.rows].masked_fill(runs.restarts[:, None], 0) for part in state)
        outputs = []
        for inputs, piece in zip(runs.cut(x), runs.pieces, strict=True):
            hidden, after = self._call(layer, weights, inputs, tuple(part[piece.runs] for part in states))
            states = tuple(
                part.index_copy(0, piece.runs, new.to(part.dtype)) for part, new in zip(states, after, strict=True)
            )
            outputs.append(hidden)
        return runs.joined(outputs), tuple(part[runs.last] for part in states)

    def _call(
        self, layer: nn.Module, weights: dict[str, Tensor], x: Tensor, state: LayerState
    ) -> tuple[Tensor, LayerState]:
        device = x.device.type
        if self.cell == "lstm" and torch.is_autocast_enabled(device) and not runs_lstm_in_bfloat16(device):
            with torch.autocast(device, enabled=False):
                return self._call(layer, weights, x.float(), tuple(part.float() for part in state))
        if self.attends_to_itself:
            return cast("tuple[Tensor, LayerState]", functional_call(layer, weights, (x, state)))
        if not weights and self._suits_kernel(layer, x):
            return self._by_kernel(layer, x, state)
        before: Tensor | LayerState = tuple(part.unsqueeze(0) for part in state)
        if self.cell != "lstm":
            before = before[0]
        hidden, last = functional_call(layer, weights, (x, before)) if weights else layer(x, before)
        after = last if self.cell == "lstm" else (last,)
        return hidden, tuple(part.squeeze(0) for part in after)

    def _suits_kernel(self, layer: nn.Module, x: Tensor) -> bool:
        """Return whether a narrow layer reads several tokens on a processor, without gradients; torch is quick with
        LSTMs.
        """
        width = cast("Tensor", layer.weight_hh_l0).shape[1]
        if self.cell == "lstm" or torch.is_grad_enabled():
            return False
        if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
            return False
        is_narrow = width <= _NARROW and width % LANES == 0
        return is_narrow and x.shape[1] > 1 and x.numel() > 0 and x.device.type == "cpu" and x.dtype == torch.float32

    def _by_kernel(self, layer: nn.Module, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        from chainrule.neural.layers.cell_kernels import GRU, RELU, TANH, scan_cells

        kind = {"rnn_tanh": TANH, "rnn_relu": RELU, "gru": GRU}[self.cell]
        of_inputs, of_states, *biases = (cast("Tensor", weight).detach() for weight in layer.parameters())
        given = F.linear(x, of_inputs, biases[0])
        columns = torch.cat([of_states.t(), biases[1][None]])  # (D + 1, gates)
        after, out = state[0].detach().clone(), x.new_empty(*x.shape[:2], of_states.shape[1])
        scan_cells(kind, given.numpy(), columns.numpy(), after.numpy(), out.numpy())
        return out, (after,)

    def _dropped(self, x: Tensor, share: float) -> Tensor:
        if not (self.training and share):
            return x
        if self.variational:
            return x * drop(x.new_ones(x.shape[0], 1, x.shape[2]), share)
        return drop(x, share)


def set_biases(layers: nn.Module, *, forget: float | None) -> None:
    """Set the biases of torch's recurrent layers to 0, but those of forget gates to `forget` (Gers et al. 2000).

    forget: None where there are no such gates.
    """
    for name, weight in layers.named_parameters():
        if "bias" in name:
            nn.init.zeros_(weight)
        if forget is not None and "bias_ih" in name:  # gates are in the order input, forget, cell, output
            nn.init.constant_(weight.chunk(4)[1], forget)


class _Piece(NamedTuple):
    """The next `length` tokens of some runs."""

    runs: Int64[Tensor, " runs"]
    length: int


class _Runs:
    """The runs of tokens between the starts in a batch, cut into parts whose lengths are powers of two.

    A run of 22 is read as 16, 4 and 2, each continuing from the state after the previous one. So parts of equal length
    are read as one batch, without padding. torch's packed sequences take seven times as long on processors, since they
    copy the whole batch at every time step.

    rows: the row of each run. restarts: whether a run forgets what the row has read. last: the last run of each row.
    pieces: the longest first.
    """

    def __init__(self, starts: Bool[Tensor, "B T"]) -> None:
        rows, times = starts.shape
        heads = starts.clone()
        heads[:, 0] = True
        begins = heads.flatten().nonzero()[:, 0]  # row by row, from left to right
        lengths = torch.diff(begins, append=begins.new_tensor([rows * times]))
        self.shape, self.rows = starts.shape, begins // times
        self.restarts = starts.flatten()[begins]  # False for the first run of a row that continues
        self.last = heads.sum(1).cumsum(0) - 1
        self.pieces, positions = [], []
        for bit in reversed(range(times.bit_length())):
            runs = (lengths >> bit & 1).nonzero()[:, 0]
            if len(runs):
                length = 1 << bit
                read_before = lengths[runs] - lengths[runs] % (2 << bit)
                first = begins[runs] + read_before
                positions.append((first[:, None] + torch.arange(length, device=starts.device)).flatten())
                self.pieces.append(_Piece(runs, length))
        self.positions = torch.cat(positions)  # of the tokens in the flat batch, in the order of pieces

    def cut(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "runs length D"]]:
        """Return the inputs of each piece."""
        parts = torch.split(x.flatten(0, 1)[self.positions], [len(piece.runs) * piece.length for piece in self.pieces])
        return [part.view(-1, piece.length, x.shape[2]) for part, piece in zip(parts, self.pieces, strict=True)]

    def joined(self, parts: list[Float[Tensor, "runs length D"]]) -> Float[Tensor, "B T D"]:
        """Return the inverse of `cut`."""
        back = torch.empty_like(self.positions)
        back[self.positions] = torch.arange(len(back), device=back.device)
        return torch.cat([part.flatten(0, 1) for part in parts])[back].view(*self.shape, parts[0].shape[2])


def _placed(weights: Float[Tensor, "B S"], t: int, length: int) -> Float[Tensor, "B length"]:
    """Return the weights of kept states (the latest last), put at the positions of their tokens, before position t."""
    number = min(t, weights.shape[1])
    own = weights[:, weights.shape[1] - number :]
    return torch.nn.functional.pad(own, (t - number, length - t))


def _layer(config: RecurrentConfig, inputs: int, width: int) -> nn.Module:
    cell = config.cell
    if config.intra_attention:
        return IntraAttentionLSTM(inputs, width, config.intra_attention)
    if cell == "lstm":
        return nn.LSTM(inputs, width, batch_first=True)
    if cell == "gru":
        return nn.GRU(inputs, width, batch_first=True)
    return nn.RNN(inputs, width, batch_first=True, nonlinearity="tanh" if cell == "rnn_tanh" else "relu")
