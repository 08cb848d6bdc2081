"""Instructions for kernels that Numba has no name for: prefetching, eight bytes at once, counts of bits, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

if TYPE_CHECKING:
    from collections.abc import Callable


def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Generate the code of `prefetch`: LLVM's instruction of that name."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        read, keep_in_cache, data = int32(0), int32(3), int32(1)
        builder.call(function, [builder.bitcast(element, pointer), read, keep_in_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# In a kernel, prefetch(array, index) starts to load array[index] into the cache, and does not wait for it.
# array: of one dimension. An index out of range does no harm.
prefetch: Callable[..., None] = intrinsic(_prefetch)


def _eight_bytes(_: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        return builder.load(builder.bitcast(element, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.intp), generate


# In a kernel, eight_bytes(text, index) is text[index:index + 8] as a uint64, little-endian on all processors that we
# support. text: contiguous bytes; nothing checks that there are eight.
eight_bytes: Callable[..., Any] = intrinsic(_eight_bytes)


def _put_eight_bytes(_: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:2])  # type: ignore[no-untyped-call]
        builder.store(arguments[2], builder.bitcast(element, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


# In a kernel, put_eight_bytes(text, index, value) is text[index:index + 8] = value, as `eight_bytes` reads it.
put_eight_bytes: Callable[..., None] = intrinsic(_put_eight_bytes)


def _trailing_zeros(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


# In a kernel, trailing_zeros(number) is how many of the lowest bits of a uint64 are 0; 64 for the number 0.
trailing_zeros: Callable[..., Any] = intrinsic(_trailing_zeros)


def _pointer_of(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


_pointer: Callable[..., Any] = intrinsic(_pointer_of)


@register_jitable
def array_at(address: int, size: int, dtype: Any) -> Any:
    """Return, in a kernel, the array of `size` elements at an address. The caller guarantees that they are there."""
    return numba.carray(_pointer(address), size, dtype)  # type: ignore[attr-defined]
