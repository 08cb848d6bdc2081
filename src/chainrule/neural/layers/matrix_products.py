"""Products of weights and vectors, with weights in 32, 16 or 8 bits, or fewer; packs weights in 8 bits.

A matrix library multiplies one vector at the speed of one processor's memory, and a few at a fraction of what it does
with many. So, on processors, up to FEW vectors, as decoding has, are multiplied by our own `product_kernels`: not in
training, not where a matrix is so small that starting threads would take longer, and not where the length of rows is no
multiple of LANES.

In eight bits, 32 numbers of a row share a scale, so that a product reads little more than a quarter. A matrix (N, K) is
one int8 tensor, (N, K + K / 8): the integers of a row, then the bytes of its float32 scales. So code that moves, joins,
shares or saves tensors needs to know nothing of it. Each weight is its integer times its scale, rounded once; vectors
stay in float32. The integers and scales of GGUF's Q8_0 are these.

A pass over several tokens may have to give the bits of a pass over each (`one_by_one`), as checks of drafts do. Our
kernel does so anyhow; all else whose last bits depend on how many tokens there are goes through `by_position`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from chainrule.base.lanes import LANES, SCALED
from chainrule.neural.packed import layouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float, Float32, Int8, Int64
    from numpy import ndarray
    from torch import nn

ALIGNMENT = _SCALE_BYTES = 4
_LARGEST = 127
_TOGETHER = 1 << 20  # weights that are packed at a time, so that no second copy is held in float32


def is_packed(weight: Tensor) -> bool:
    """Return whether a matrix has its weights in eight bits, or fewer."""
    return weight.dtype == torch.int8 or is_in_blocks(weight)


def is_in_blocks(weight: Tensor) -> bool:
    """Return whether a matrix is as `packed.layouts` has it: blocks of files, multiplied with vectors in eight bits."""
    return weight.dtype == torch.uint8


def can_pack(weight: Tensor) -> bool:
    """Return whether a tensor is a matrix whose rows consist of whole blocks."""
    return weight.ndim == 2 and weight.shape[1] % SCALED == 0 and weight.is_floating_point()


def packed_shape(weight: Float[Tensor, "N K"]) -> tuple[int, int] | None:
    """Return the shape that a matrix has when it is packed; None where it cannot be packed."""
    rows, width = weight.shape
    return (rows, packed_width(width)) if can_pack(weight) else None


def packed_width(width: int) -> int:
    """Return the bytes of a row of so many numbers in eight bits, with its scales."""
    return width + width // SCALED * _SCALE_BYTES


def scales_of(packed: Int8[ndarray, "*shape bytes"], width: int) -> Float32[ndarray, "*shape blocks"]:
    """Return the scales of rows in eight bits, a view. width: numbers of a row."""
    return packed[..., width:].view(np.float32)


def unpacked_shape(weight: Int8[Tensor, "N bytes"]) -> torch.Size:
    """Return the shape of a matrix in eight bits when it is unpacked."""
    return torch.Size((len(weight), weight.shape[1] * SCALED // (SCALED + _SCALE_BYTES)))


def pack(weight: Float[Tensor, "N K"]) -> Int8[Tensor, "N bytes"]:
    """Return the nearest integers; the largest weight of a block becomes 127 or -127.

    Blocks with NaN or infinity become NaN. K must be a multiple of SCALED.
    """
    rows, width = weight.shape
    packed = torch.empty(rows, packed_width(width), dtype=torch.int8, device=weight.device)
    step = max(1, _TOGETHER // max(width, 1))
    for begin in range(0, rows, step):
        blocks = weight[begin : begin + step].detach().float().view(-1, width // SCALED, SCALED)  # (n, K/32, 32)
        scales = blocks.abs().amax(2) / _LARGEST
        scales = torch.where(scales.isfinite(), scales, torch.nan)
        numbers = (blocks / scales[:, :, None]).nan_to_num(0).clamp(-_LARGEST, _LARGEST).round().to(torch.int8)
        packed[begin : begin + step, :width] = numbers.flatten(1)
        packed[begin : begin + step, width:] = scales.view(torch.int8)
    return packed


def unpack(packed: Int8[Tensor, "*shape bytes"]) -> Float32[Tensor, "*shape K"]:
    """Return the weights of some rows; of a matrix in blocks, all of it."""
    if is_in_blocks(packed):
        return layouts.unpacked(packed)
    width = packed.shape[-1] * SCALED // (SCALED + _SCALE_BYTES)
    numbers = packed[..., :width].float().view(*packed.shape[:-1], -1, SCALED)
    scales = packed[..., width:].contiguous().view(torch.float32)
    return (numbers * scales[..., None]).flatten(-2)


FEW = 512  # vectors
_LEAST = 1 << 16  # weights
_SMALL = 1 << 22  # multiplications that several threads would be slower to begin than one is to do
_FEW_LOGITS = 1 << 18  # likewise
_NARROW_VECTORS = 64  # numbers, up to which logits are not held
_WIDENED = 1 << 18  # weights that are widened together: a megabyte
_WIDENED_IN_TRAINING = 1 << 22  # for products of many vectors
_NARROW = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}  # and what their bits are to a kernel
_ALL = torch.empty((0, 0), dtype=torch.int64)  # the places of a log-softmax of all tokens
_NO_SCALES = np.empty((1, 1), np.float32)

_kernel = threading.Lock()  # Numba's simplest threads may not be asked twice at once
_pass = threading.local()  # is_one_by_one: set within `one_by_one`
_VECTORS = 32  # numbers that these loops compute at a time, and the rest of them one by one
_EVEN, _ON_ONE_THREAD = 64, 1 << 15  # numbers of a row that torch's loops divide evenly; of all that it never divides


@contextmanager
def one_by_one() -> Iterator[None]:
    """Compute each token of a row, inside, with the bits that it has when it is read alone."""
    before = is_one_by_one()
    _pass.is_one_by_one = True
    try:
        yield
    finally:
        _pass.is_one_by_one = before


def is_one_by_one() -> bool:
    """Return whether this thread is within `one_by_one`."""
    return not torch.compiler.is_compiling() and getattr(_pass, "is_one_by_one", False)


def by_position(function: Callable[[Tensor], Tensor], x: Float[Tensor, "*shape T D"]) -> Float[Tensor, "*shape T E"]:
    """Return function(x); within `one_by_one`, of each position alone."""
    if x.shape[-2] == 1 or not is_one_by_one():
        return function(x)
    return torch.cat([function(x[..., i : i + 1, :].clone()) for i in range(x.shape[-2])], -2)


def elementwise(function: Callable[[Tensor], Tensor], x: Float[Tensor, "*shape T D"]) -> Float[Tensor, "*shape T D"]:
    """Apply a function of each number, as `by_position` does.

    torch computes the last numbers, those that fill no vector register, in another way than the others: where each row
    ends evenly, all may be computed at once.
    """
    if not is_one_by_one() or (x.shape[-1] % _EVEN == 0 and x.numel() < _ON_ONE_THREAD):
        return function(x)
    return by_position(function, x)


def rows(weight: Tensor, numbers: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape K"]:
    """Return rows of a matrix, which may be packed or in 16 bits, in 32."""
    if is_in_blocks(weight):
        return layouts.rows_of(weight, numbers)
    x = F.embedding(numbers, weight)
    if is_packed(x):
        return unpack(x)
    return x.float() if x.dtype in _NARROW else x


def linear(x: Tensor, layer: nn.Linear, before: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return W x + b: (..., inputs) -> (..., outputs), in the type of x; with an adapter (`neural/adapters.py`), and
    what it adds.

    See `product`. before: a function without weights, such as an activation, that x goes through first. Where an
    adapter is trained, it is computed again for gradients: less is kept.
    """
    weight, adapter = layer.weight, layer._modules.get("adapter")
    is_learned = torch.is_grad_enabled() and not (weight.requires_grad or torch.compiler.is_compiling())
    if adapter is not None and adapter.is_on and is_learned:
        low_rank = adapter.a, adapter.b, adapter.parts, adapter.scale
        adapted: Tensor = _Frozen.apply(x, before, weight, layer.bias, *low_rank)  # type: ignore[no-untyped-call]
        return adapted
    x = x if before is None else before(x)
    y = product(x, weight, layer.bias)
    if adapter is None or not adapter.is_on:
        return y
    return y + adapter(x.float() if x.dtype == torch.float64 else x).to(y.dtype)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return W x + b, in the type of x, by weights that may be stored in 16 bits, or packed in 8."""
    if is_in_blocks(weight) and not torch.is_grad_enabled() and _suits_blocks(x):
        return layouts.product(x, weight, bias)
    if not torch.is_grad_enabled() and _suits_kernel(x, weight):
        return _by_kernel(x, weight, bias)
    if is_one_by_one() and x.shape[-2] > 1:
        return by_position(lambda part: product(part, weight, bias), x)
    if weight.dtype == x.dtype or (torch.is_autocast_enabled(x.device.type) and not is_packed(weight)):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and x.requires_grad and not weight.requires_grad:
        frozen: Tensor = _Frozen.apply(x, None, weight, bias, None, None, (), 1.0)  # type: ignore[no-untyped-call]
        return frozen
    return _widening(x, weight, bias)


def is_by_vector(weight: Tensor) -> bool:
    """Return whether products of a matrix with up to FEW vectors give each the bits that it has alone: those of a
    kernel.
    """
    if torch.is_grad_enabled():
        return False
    width = (unpacked_shape(weight) if weight.dtype == torch.int8 else weight.shape)[-1]
    if is_in_blocks(weight):
        return _suits_blocks(torch.empty(0))
    return _suits_kernel(torch.empty(1, width, device=weight.device), weight)


def widens(weight: Tensor) -> bool:
    """Return whether our kernel multiplies vectors in float64 by a matrix, whose numbers it widens in registers."""
    return weight.dtype in (torch.float32, torch.bfloat16)


def divides_evenly(width: int) -> bool:
    """Return whether torch's loops over the numbers of rows, shared among threads, compute all of them in one way."""
    return width % (_VECTORS * torch.get_num_threads()) == 0


def _widening(x: Tensor, weight: Tensor, bias: Tensor | None, most: int = _WIDENED) -> Tensor:
    """Return a product with weights that are widened some rows at a time, so that the wide ones stay in the processor's
    cache: reading fewer bytes saves the time that widening costs.

    most: as for `_wide_tiles`.
    """
    found = None
    for rows, tile in _wide_tiles(weight, x.dtype, most):
        part = F.linear(x, tile, None if bias is None else bias[rows])
        if is_in_blocks(weight) or len(tile) == len(weight):
            return part
        found = part.new_empty(*x.shape[:-1], len(weight)) if found is None else found
        found[..., rows] = part
    return x.new_empty(*x.shape[:-1], 0) if found is None else found


def _wide_tiles(weight: Tensor, dtype: torch.dtype, most: int = _WIDENED) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows of a matrix at a time, in another type; of one in blocks, or in that type, all. most: weights."""
    if is_in_blocks(weight):
        yield slice(None), layouts.unpacked(weight).to(dtype)
        return
    if weight.dtype == dtype:
        yield slice(None), weight
        return
    step = max(1, most // weight.shape[1])
    for begin in range(0, len(weight), step):
        rows = slice(begin, begin + step)
        yield rows, (unpack(weight[rows]) if is_packed(weight) else weight[rows]).to(dtype)


def wide(weight: Tensor) -> Tensor:
    """Return a frozen matrix in 32 bits; one that is trained, or has 32 bits, unchanged."""
    if weight.requires_grad or weight.dtype == torch.float32:
        return weight
    return unpack(weight) if is_packed(weight) else weight.float()


class _Frozen(torch.autograd.Function):
    """A product by a matrix that is not trained, and the adapter beside it: W x + b + scale B A x.

    What is kept for gradients is x, in the type of the product or, with a function that comes before it, as it was
    given, and scale A x. The matrix is widened, or made narrow, again. a, b, parts, scale: as `neural/adapters.LowRank`
    has them; a and b are None where there is no adapter.
    """

    @staticmethod
    def forward(
        ctx: Any,
        given: Tensor,
        before: Callable[[Tensor], Tensor] | None,
        weight: Tensor,
        bias: Tensor | None,
        a: Tensor | None,
        b: Tensor | None,
        parts: Sequence[int],
        scale: float,
    ) -> Tensor:
        device = given.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else given.dtype
        with torch.autocast(device, enabled=False):
            x = (given if before is None else before(given)).to(dtype).flatten(0, -2)  # (R, K)
            y = _widening(x, weight, None if bias is None else bias.to(dtype), _WIDENED_IN_TRAINING)
            low = None
            if a is not None and b is not None:
                low = (x @ a.to(dtype).t()).mul_(scale)  # (R, parts r)
                for own, narrow, rows in _by_part(y, low, b.to(dtype), parts):
                    own.addmm_(narrow, rows.t())
        ctx.save_for_backward(None if a is None else x if before is None else given, weight, a, b, low)
        ctx.given, ctx.before, ctx.dtype, ctx.parts, ctx.scale = given.shape, before, given.dtype, parts, scale
        return y.view(*given.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        kept, weight, a, b, low = ctx.saved_tensors
        by_y = gradients[0].flatten(0, -2)
        x, of_before = kept, None
        if ctx.before is not None:
            with torch.enable_grad():
                of_before = kept.detach().requires_grad_()
                x = ctx.before(of_before).flatten(0, -2)
        by_x = by_a = by_b = None
        if ctx.needs_input_grad[0]:
            for some, tile in _wide_tiles(weight, by_y.dtype, _WIDENED_IN_TRAINING):
                part = by_y[:, some] @ tile
                by_x = part if by_x is None else by_x.add_(part)
        if a is not None:
            by_low, by_b = torch.empty_like(low), torch.empty_like(b)
            given = _by_part(by_y, low, b.to(low.dtype), ctx.parts)
            wanted = _by_part(by_y, by_low, by_b, ctx.parts)
            for (own, narrow, rows), (_, by_narrow, by_rows) in zip(given, wanted, strict=True):
                by_narrow[:] = (own @ rows).mul_(ctx.scale)
                by_rows[:] = own.t() @ narrow
            by_a = (by_low.t() @ x.detach().to(low.dtype)).to(a.dtype)
            if by_x is not None:
                by_x.addmm_(by_low, a.to(low.dtype))
        if by_x is not None and of_before is not None:
            [by_x] = torch.autograd.grad(x, of_before, by_x.to(x.dtype))
        by_given = None if by_x is None else by_x.to(ctx.dtype).view(ctx.given)
        return by_given, None, None, None, by_a, by_b, None, None


def _by_part(
    y: Float[Tensor, "R N"], low: Float[Tensor, "R low"], b: Float[Tensor, "N r"], parts: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield, of each part of a matrix that has an adapter, its columns of y and of A x, and its rows of B."""
    columns, rows = torch.split_with_sizes(y, list(parts), 1), torch.split_with_sizes(b, list(parts))
    yield from zip(columns, low.chunk(len(parts), 1), rows, strict=True)


def _suits_blocks(x: Tensor) -> bool:
    is_plain = not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")
    return is_plain and x.device.type == "cpu" and x.dtype == torch.float32


def _suits_kernel(x: Tensor, weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and 0 < x.numel() <= FEW * x.shape[-1]
        and x.shape[-1] % LANES == 0
        and weight.numel() >= _LEAST
        and x.device.type == "cpu"
        and (x.dtype == torch.float32 or (x.dtype == torch.float64 and widens(weight)))
        and (weight.dtype in (torch.float32, torch.int8) or weight.dtype in _NARROW)
        and weight.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
    )


def _by_kernel(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    from chainrule.neural.layers.product_kernels import multiply, multiply_alone

    vectors = x.detach().reshape(-1, x.shape[-1]).contiguous()
    out = vectors.new_empty(len(vectors), len(weight))
    as_read = weight.detach().view(_NARROW.get(weight.dtype, weight.dtype)).numpy()
    width = vectors.shape[1]
    numbers, scales = as_read[:, :width], _NO_SCALES
    if is_packed(weight):
        scales = scales_of(as_read, width)
    is_small = len(weight) * vectors.numel() <= _SMALL
    _on_threads(multiply_alone if is_small else multiply, multiply_alone, numbers, scales, vectors.numpy(), out.numpy())
    if bias is not None:
        out += bias
    return out.view(*x.shape[:-1], len(weight))


def _on_threads(several: Callable[..., None], one: Callable[..., None], *arguments: Any) -> None:
    """Run a kernel: `several` on torch's threads, or `one` on the calling thread, if torch has only one or both are the
    same.
    """
    from chainrule.base.jit import use_parallel_threads

    threads = torch.get_num_threads()
    if threads == 1 or several is one:
        one(*arguments)
    else:
        with _kernel:
            use_parallel_threads(threads)
            several(*arguments)
    if torch.get_num_threads() != threads:  # where both share an OpenMP, Numba's first launch sets torch's number, too
        torch.set_num_threads(threads)


def log_softmax(logits: Float32[Tensor, "*shape V"]) -> Float32[Tensor, "*shape V"]:
    """Return the log-softmax; on processors with the bits of `log_softmax_at`. torch's has an error of 6e-5 where there
    are 262,144 logits, since it sums up all exponentials in float32.
    """
    if logits.requires_grad or logits.device.type != "cpu" or torch.compiler.is_compiling():
        return logits.log_softmax(-1)
    out = torch.empty(logits.shape)
    size = logits.shape[-1]
    return _log_softmax_by_kernel(logits.reshape(-1, size), _ALL, out.view(-1, size)).view(logits.shape)


def log_softmax_at(logits: Float32[Tensor, "R V"], tokens: Int64[Tensor, "R tokens"]) -> Float32[Tensor, "R tokens"]:
    """Return the log-softmax of logits at some tokens of each row.

    On processors by a kernel that reads the logits twice and writes none: in a fixed order, whatever other rows are.
    Elsewhere it overwrites the logits. Where they have gradients, it does neither.
    """
    if logits.requires_grad:
        return logits.gather(1, tokens) - logits.logsumexp(1, keepdim=True)
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        peaks = logits.amax(1, keepdim=True)
        peaks.masked_fill_(peaks.isinf(), 0)
        chosen = logits.gather(1, tokens)
        return chosen - logits.sub_(peaks).exp_().sum(1, keepdim=True).log_().add_(peaks)
    return _log_softmax_by_kernel(logits, tokens, _places_checked(tokens, logits.shape[1]))


def _log_softmax_by_kernel(logits: Tensor, tokens: Tensor, out: Tensor) -> Tensor:
    from chainrule.neural.layers.product_kernels import log_softmax_of_rows, log_softmax_of_rows_alone

    several = log_softmax_of_rows_alone if logits.numel() <= _FEW_LOGITS else log_softmax_of_rows
    arrays = (array.detach().contiguous().numpy() for array in (logits, tokens, out))
    _on_threads(several, log_softmax_of_rows_alone, *arrays)
    return out


def product_log_softmax_at(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    tokens: Int64[Tensor, "R tokens"],
) -> Float32[Tensor, "R tokens"] | None:
    """Return `log_softmax_at` of W h + b, of which no more than a few numbers are held: quicker where vectors are
    narrow.

    None where they are wide, where there may be gradients, and elsewhere than on processors in float32.
    """
    if hidden.device.type != "cpu" or not hidden.dtype == weight.dtype == torch.float32:
        return None
    size, width = weight.shape
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    if not 0 < width <= _NARROW_VECTORS:
        return None
    from chainrule.neural.layers.product_kernels import IN_ONE, log_softmax_of_products, log_softmax_of_products_alone

    out = _places_checked(tokens, size)
    columns = torch.zeros(width + 1, size + -size % IN_ONE)
    columns[:width, :size] = weight.t()
    columns[width, size:] = -torch.inf
    if bias is not None:
        columns[width, :size] = bias
    is_small = len(hidden) * columns.numel() <= _SMALL
    several = log_softmax_of_products_alone if is_small else log_softmax_of_products
    arrays = (array.detach().contiguous().numpy() for array in (hidden, columns, tokens, out))
    _on_threads(several, log_softmax_of_products_alone, *arrays)
    return out


def softmax_into_gradients(
    logits: Float[Tensor, "R V"],
    bias: Float32[Tensor, " V"],
    targets: Int64[Tensor, " R"],
    weights: Float32[Tensor, " R"] | None,
) -> tuple[Float32[Tensor, ""], Float32[Tensor, " V"]]:
    """Return the weighted sum of -log softmax(logits + bias)[target], and its gradient with respect to the bias;
    overwrite the logits with theirs: on a processor, of float32 or bfloat16, where LANES divide the vocabulary.
    """
    from chainrule.neural.layers.product_kernels import SHARE, softmax_gradients, softmax_gradients_alone

    losses, by_bias = _places_checked(targets, logits.shape[1]), bias.new_empty(-(-len(logits) // SHARE), len(bias))
    counts = torch.ones_like(losses) if weights is None else weights.float().contiguous()
    bits = logits.view(torch.uint16) if logits.dtype == torch.bfloat16 else logits
    arrays = (array.numpy() for array in (bits, bias[None], targets.contiguous(), counts, losses, by_bias))
    _on_threads(softmax_gradients, softmax_gradients_alone, *arrays)
    return losses.sum(), by_bias.sum(0)


def _places_checked(tokens: Int64[Tensor, "R tokens"], size: int) -> Float32[Tensor, "R tokens"]:
    """Return room for a number of each token. Raises IndexError for tokens that a vocabulary of that size has not."""
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
        raise IndexError(f"tokens from {int(tokens.min())} to {int(tokens.max())} of {size}")
    return torch.empty(tokens.shape, dtype=torch.float32)
