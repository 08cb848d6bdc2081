"""Layers that take the place of attention in some blocks, and carry a state from token to token.

short convolution   y = W (C * conv(B * x)),  (B, C, x) = V u                              LFM2, Liquid AI 2025
selective state     h = exp(dt A) h + dt B x;  y = C h + D x                               Mamba, Gu and Dao 2023
                    Mamba-2: the same decay for all numbers of a head               Dao and Gu 2024
RWKV's time mixing  a weighted mean of all values, whose weights exp(k) decay with time; its channel mixing
                    y = sigmoid(R x') V relu(K x')^2, x' between x and the token before it       Peng et al. 2023
gated delta rule    S = exp(g) S;  S = S + k (b (v - k S))';  y = q S                      Yang et al. 2024

Each reads a text token by token; its memory holds what the last tokens left. Without gradients, on a processor, the
loop over tokens is that of `recurrence_kernels`. Legend: B rows, T time, D width, I inner width, N width of the state,
G groups, k kernel, H heads, d width of their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.layers.matrix_products import elementwise, linear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float
    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Memory = tuple[Tensor, ...]


class Recurrence(Protocol):
    """A recurrence, as an nn.Module."""

    def __call__(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None, memory: Memory | None
    ) -> tuple[Float[Tensor, "B T D"], Memory]:
        """Return what the block adds, and the memory after the last token.

        starts: True where a row begins anew. memory: of the tokens before these; None for none.
        """


class CausalConvolution(nn.Module):
    """Each number of a vector is a weighted sum of its last k values (Fukushima 1980), never across a start."""

    def __init__(self, width: int, kernel: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 1, kernel))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        nn.init.uniform_(self.weight, -(kernel**-0.5), kernel**-0.5)

    def forward(
        self, x: Float[Tensor, "B T I"], starts: Bool[Tensor, "B T"] | None, memory: Float[Tensor, "B k-1 I"] | None
    ) -> tuple[Float[Tensor, "B T I"], Float[Tensor, "B k-1 I"]]:
        """Return the sums, and the last k - 1 vectors, without those before the last start."""
        length, lags = x.shape[1], self.weight.shape[2] - 1
        before = x.new_zeros(len(x), lags, x.shape[2]) if memory is None else memory
        padded = torch.cat((before, x), 1)
        kernel = self.weight[:, 0].to(x.dtype)  # (I, k)
        ages = None if starts is None else _ages(starts)
        out = torch.zeros_like(x)
        for lag in range(lags + 1):
            past = padded[:, lags - lag : lags - lag + length]
            if ages is not None and lag:
                past = past * (ages >= lag)[..., None]
            out = out + past * kernel[:, lags - lag]
        out = out if self.bias is None else out + self.bias
        kept = padded[:, length:]
        if ages is not None:
            kept = kept * (ages[:, -1:] >= torch.arange(lags - 1, -1, -1, device=x.device))[..., None]
        return out, kept


def _ages(starts: Bool[Tensor, "B T"]) -> Tensor:
    """Return how many tokens each is after the last start; a large number where there is none."""
    columns = torch.arange(starts.shape[1], device=starts.device)
    return columns - torch.where(starts, columns, -(1 << 30)).cummax(1).values


class ShortConvolution(nn.Module):
    """LFM2's: a convolution between two gates."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        width, bias = config.width, config.recurrence_biases
        self.into = nn.Linear(width, 3 * width, bias=bias)
        self.convolution = CausalConvolution(width, config.recurrence_kernel, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        before, after, x = linear(x, self.into).chunk(3, -1)
        mixed, kept = self.convolution(before * x, starts, None if memory is None else memory[0])
        return linear(after * mixed, self.out), (kept,)


class SelectiveState(nn.Module):
    """Mamba's: a state whose decay, input and output depend on the token (section 3.2)."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        inner, self.states, self.rank = config.recurrence_width, config.state_width, config.step_rank
        self.into = nn.Linear(config.width, 2 * inner, bias=config.recurrence_biases)
        self.convolution = CausalConvolution(inner, config.recurrence_kernel, bias=config.kernel_bias)
        self.selection = nn.Linear(inner, self.rank + 2 * self.states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        decays = torch.arange(1.0, self.states + 1).log().expand(1, inner, -1)
        self.log_decay = nn.Parameter(decays.clone())  # three dimensions, as no matrix
        self.skip = nn.Parameter(torch.ones(inner))
        self.epsilon = config.selection_epsilon
        self.out = nn.Linear(inner, config.width, bias=config.recurrence_biases)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        x, gate = linear(x, self.into).chunk(2, -1)  # (B, T, I)
        x, kept = self.convolution(x, starts, None if memory is None else memory[0])
        x = F.silu(x.float())
        selected = linear(x, self.selection).float().split_with_sizes((self.rank, self.states, self.states), -1)
        if self.epsilon is not None:
            selected = tuple(F.rms_norm(part, part.shape[2:], eps=self.epsilon) for part in selected)
        step, read, write = selected
        step = F.softplus(linear(step, self.step).float())  # (B, T, I)
        state = x.new_zeros(len(x), self.states, x.shape[2]) if memory is None else memory[1]
        rates = self.log_decay.exp().mT  # (1, N, I)
        outputs = []
        for some in _pieces(x.shape[1], rates.numel()):
            decay = torch.exp(-rates * step[:, some, None])  # (B, t, N, I)
            inputs = (step * x)[:, some], read[:, some, None], write[:, some, None]
            part, state = _scan_states(decay, *inputs, None if starts is None else starts[:, some], state)
            outputs.append(part)
        y = torch.cat(outputs, 1) + x * self.skip
        return linear(y * F.silu(gate), self.out), (kept, state)


class SelectiveHeads(nn.Module):
    """Mamba-2's: as Mamba's, with one decay for each head, whose inputs and outputs groups share (Dao and Gu 2024)."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        self.inner, self.states = config.recurrence_width, config.state_width
        self.heads, self.groups = config.recurrence_heads, config.recurrence_key_heads
        mixed = self.inner + 2 * self.groups * self.states
        self.into = nn.Linear(config.width, self.inner + mixed + self.heads, bias=config.recurrence_biases)
        self.convolution = CausalConvolution(mixed, config.recurrence_kernel, bias=config.kernel_bias)
        self.step_bias, self.skip = nn.Parameter(torch.ones(self.heads)), nn.Parameter(torch.ones(self.heads))
        self.log_decay = nn.Parameter(torch.arange(1.0, self.heads + 1).log())
        self.gain = nn.Parameter(torch.ones(self.inner)) if config.recurrence_norm != "none" else None
        self.gates_first, self.epsilon = config.recurrence_norm != "before", config.norm_epsilon
        self.scales, self.least = config.recurrence_scales, config.least_step
        self.out = nn.Linear(self.inner, config.width, bias=config.recurrence_biases)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        rows, length = x.shape[:2]
        wide = self.groups * self.states
        sizes = self.inner, self.inner, wide, wide, self.heads  # gates, values, what is written and read, steps
        parts = linear(x, self.into).split_with_sizes(sizes, -1)
        if self.scales:
            parts = tuple(part * scale for part, scale in zip(parts, self.scales, strict=True))
        gate, mixed, step = parts[0], torch.cat(parts[1:4], -1), parts[4]
        mixed, kept = self.convolution(mixed, starts, None if memory is None else memory[0])
        value, read, write = F.silu(mixed.float()).split_with_sizes((self.inner, wide, wide), -1)
        value = value.reshape(rows, length, self.heads, -1)  # (B, T, H, d)
        read, write = (part.reshape(rows, length, self.groups, -1) for part in (read, write))
        step = F.softplus(step.float() + self.step_bias).clamp(min=self.least)  # (B, T, H)
        decay = torch.exp(-self.log_decay.exp() * step).repeat_interleave(value.shape[3], 2)  # (B, T, I)
        added = (value * step[..., None]).flatten(2)
        state = added.new_zeros(rows, self.states, self.inner) if memory is None else memory[1]
        y, state = _scan_states(decay[:, :, None], added, read, write, starts, state)
        y = y + (value * self.skip[:, None]).flatten(2)
        gate = F.silu(gate.float())
        y = y * gate if self.gates_first else y
        if self.gain is not None:
            y = y.reshape(rows, length, self.groups, -1)
            y = F.rms_norm(y, y.shape[3:], eps=self.epsilon).flatten(2) * self.gain
        return linear(y if self.gates_first else y * gate, self.out), (kept, state)


class GatedDelta(nn.Module):
    """Qwen 3.5's: a matrix from keys to values for each head, which forgets, and is corrected by each token."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        self.heads, self.key_heads = config.recurrence_heads, config.recurrence_key_heads
        self.key_width = config.state_width
        self.keys, self.values = self.key_heads * self.key_width, config.recurrence_width
        self.into = nn.Linear(config.width, 2 * self.keys + self.values, bias=False)
        self.gate = nn.Linear(config.width, self.values, bias=False)
        self.strength = nn.Linear(config.width, self.heads, bias=False)
        self.decay = nn.Linear(config.width, self.heads, bias=False)
        self.convolution = CausalConvolution(2 * self.keys + self.values, config.recurrence_kernel, bias=False)
        self.decay_bias, self.log_decay = nn.Parameter(torch.ones(self.heads)), nn.Parameter(torch.zeros(self.heads))
        self.gain, self.epsilon = nn.Parameter(torch.ones(self.values // self.heads)), config.norm_epsilon
        self.out = nn.Linear(self.values, config.width, bias=False)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        rows, length = x.shape[:2]
        mixed, kept = self.convolution(linear(x, self.into), starts, None if memory is None else memory[0])
        query, key, value = F.silu(mixed.float()).split_with_sizes((self.keys, self.keys, self.values), -1)
        query, key = (_unit(part.reshape(rows, length, -1, self.key_width)) for part in (query, key))
        repeats = self.heads // self.key_heads
        query, key = (part.repeat_interleave(repeats, 2) for part in (query * self.key_width**-0.5, key))
        value = value.reshape(rows, length, self.heads, -1)  # (B, T, H, d)
        strength = linear(x, self.strength).float().sigmoid()
        decay = torch.exp(
            -self.log_decay.exp() * F.softplus(linear(x, self.decay).float() + self.decay_bias)
        )  # (B, T, H)
        state = value.new_zeros(rows, self.heads, self.key_width, value.shape[3]) if memory is None else memory[1]
        heads, state = _scan_delta(decay, strength, query, key, value, starts, state)
        heads = F.rms_norm(heads, self.gain.shape, self.gain, self.epsilon)
        gate = linear(x, self.gate).reshape(heads.shape)
        return linear((heads * F.silu(gate)).flatten(2), self.out), (kept, state)


class _Shift(nn.Module):
    """Vectors between each token's and that before it, number by number: m x + (1 - m) x'; x' is 0 at a start."""

    def __init__(self, width: int, count: int) -> None:
        """Build the shares m. count: of such vectors for each token."""
        super().__init__()
        self.shares = nn.Parameter(torch.full((count, 1, width), 0.5))  # three dimensions, as no matrix

    def forward(self, x: Tensor, starts: Tensor | None, memory: Tensor | None) -> tuple[list[Tensor], Tensor]:
        """Return the vectors, count times (B, T, D), and the last x, (B, 1, D)."""
        before = x.new_zeros(len(x), 1, x.shape[2]) if memory is None else memory
        before = torch.cat((before, x[:, :-1]), 1)
        before = before if starts is None else before * ~starts[..., None]
        return [x * share + before * (1 - share) for share in self.shares], x[:, -1:]


class TimeMixing(nn.Module):
    """RWKV 4's: sum_i exp(k_i - (t - 1 - i) w) v_i over the same sum without v, and exp(k_t + u) for the token itself.

    The state is both sums, less a factor exp(m), so that none is infinite, and m.
    """

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        width, inner = config.width, config.recurrence_width
        self.shift = _Shift(width, 3)
        self.key, self.value, self.gate = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.log_decay, self.first = nn.Parameter(torch.linspace(-5, 3, inner)), nn.Parameter(torch.zeros(inner))
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        (for_key, for_value, for_gate), last = self.shift(x, starts, None if memory is None else memory[0])
        key, value = linear(for_key, self.key).float(), linear(for_value, self.value).float()
        gate = elementwise(torch.sigmoid, linear(for_gate, self.gate))
        sums, weights, most = key.new_zeros(3, len(x), key.shape[2]) if memory is None else memory[1].unbind(1)
        decay, means = self.log_decay.exp(), []
        for place in range(x.shape[1]):
            own, given = key[:, place], value[:, place]
            if starts is not None:
                sums, weights = (part * ~starts[:, place, None] for part in (sums, weights))
            most = torch.where(weights == 0, -1e38, most)  # of a state that has read nothing
            greatest = torch.maximum(most, own + self.first)
            before, now = _exp(most - greatest), _exp(own + self.first - greatest)
            means.append((before * sums + now * given) / (before * weights + now))
            greatest = torch.maximum(most - decay, own)
            before, now = _exp(most - decay - greatest), _exp(own - greatest)
            sums, weights, most = before * sums + now * given, before * weights + now, greatest
        mixed = linear(gate * torch.stack(means, 1).to(gate.dtype), self.out)
        return mixed, (last, torch.stack((sums, weights, most), 1))


def _exp(x: Float[Tensor, "B I"]) -> Float[Tensor, "B I"]:
    return elementwise(torch.exp, x)


class ChannelMixing(nn.Module):
    """RWKV 4's feed-forward layer, which reads the token before, too."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden_width
        self.shift = _Shift(width, 2)
        self.key, self.value = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, starts: Tensor | None, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Return what the block adds, and the memory, as `Recurrence` does."""
        (for_key, for_gate), last = self.shift(x, starts, None if memory is None else memory[0])
        hidden = F.relu(linear(for_key, self.key)).square()
        return elementwise(torch.sigmoid, linear(for_gate, self.gate)) * linear(hidden, self.value), (last,)


_AT_ONCE = 1 << 21  # numbers of decay, which are computed before they are used


def _pieces(length: int, numbers: int) -> Iterator[slice]:
    """Return slices of tokens, one after the other. numbers: that are computed for each."""
    step = max(1, _AT_ONCE // numbers)
    return (slice(begin, begin + step) for begin in range(0, length, step))


def _suits_kernel(*tensors: Tensor) -> bool:
    return (
        not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    )


def _array(tensor: Tensor) -> ndarray:
    return tensor.detach().contiguous().numpy()


def _starts_of(starts: Tensor | None, rows: int, length: int) -> ndarray:
    return np.zeros((rows, length), np.bool_) if starts is None else _array(starts)


def _scan_states(
    decay: Float[Tensor, "B T M I"],
    added: Float[Tensor, "B T I"],
    read: Float[Tensor, "B T G N"],
    write: Float[Tensor, "B T G N"],
    starts: Bool[Tensor, "B T"] | None,
    state: Float[Tensor, "B N I"],
) -> tuple[Float[Tensor, "B T I"], Float[Tensor, "B N I"]]:
    """Return y, where h = decay h + added read and y = h write, for each token; and the state after the last.

    decay: M is N or 1.
    """
    rows, length, inner = added.shape
    if _suits_kernel(decay, added, read, write, state):
        from chainrule.features.open.network.recurrence_kernels import scan_states

        out, state = torch.zeros_like(added), state.clone()
        inputs = _array(decay), _array(added), _array(read), _array(write)
        scan_states(*inputs, _starts_of(starts, rows, length), state.numpy(), out.numpy())
        return out, state
    repeats = inner // read.shape[2]
    read, write = (part.repeat_interleave(repeats, 2).mT for part in (read, write))  # (B, T, N, I)
    outputs = []
    for place in range(length):
        if starts is not None:
            state = state * ~starts[:, place, None, None]
        state = decay[:, place] * state + added[:, place, None] * read[:, place]
        outputs.append((state * write[:, place]).sum(1))
    return torch.stack(outputs, 1), state


def _scan_delta(
    decay: Float[Tensor, "B T H"],
    strength: Float[Tensor, "B T H"],
    query: Float[Tensor, "B T H N"],
    key: Float[Tensor, "B T H N"],
    value: Float[Tensor, "B T H d"],
    starts: Bool[Tensor, "B T"] | None,
    state: Float[Tensor, "B H N d"],
) -> tuple[Float[Tensor, "B T H d"], Float[Tensor, "B H N d"]]:
    """Return y, where S = decay S; S = S + k (strength (v - S'k))'; y = S'q, for each token; and the state after the
    last.
    """
    rows, length = decay.shape[:2]
    if _suits_kernel(decay, strength, query, key, value, state):
        from chainrule.features.open.network.recurrence_kernels import scan_delta

        out, state, room = torch.zeros_like(value), state.clone(), np.empty(value.shape[3], np.float32)
        inputs = _array(decay), _array(strength), _array(query), _array(key), _array(value)
        scan_delta(*inputs, _starts_of(starts, rows, length), state.numpy(), room, out.numpy())
        return out, state
    outputs = []
    for place in range(length):
        if starts is not None:
            state = state * ~starts[:, place, None, None, None]
        state = state * decay[:, place, :, None, None]
        own = key[:, place, :, :, None]  # (B, H, N, 1)
        correction = (value[:, place] - (state * own).sum(2)) * strength[:, place, :, None]
        state = state + own * correction[:, :, None]
        outputs.append((state * query[:, place, :, :, None]).sum(2))
    return torch.stack(outputs, 1), state


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


_KINDS = {
    "convolution": ShortConvolution,
    "mamba": SelectiveState,
    "mamba2": SelectiveHeads,
    "delta": GatedDelta,
    "rwkv": TimeMixing,
    "rwkv_channels": ChannelMixing,
}


def recurrence(config: OpenSettings, kind: str) -> nn.Module:
    """Return the recurrence of a block. kind: as in the setting `mixers`."""
    return _KINDS[kind](config)
