"""Instructions for kernels that Numba has no name for: prefetching, eight bytes at once, counts of bits, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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


def _high_product(_: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(number, wide) for number in arguments))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


# In a kernel, high_product(one, other) is the upper half of the 128 bits of the product of two uint64.
high_product: Callable[..., Any] = intrinsic(_high_product)


def _trailing_zeros(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


# In a kernel, trailing_zeros(number) is how many of the lowest bits of a uint64 are 0; 64 for the number 0.
trailing_zeros: Callable[..., Any] = intrinsic(_trailing_zeros)


def _array_at(_: Any, address: Any, size: Any, dtype: Any) -> Any:
    array_type = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from numba.np.arrayobj import populate_array

        array = context.make_array(array_type)(context, builder)
        data = builder.inttoptr(arguments[0], array.data.type)
        step = context.get_constant(types.intp, context.get_abi_sizeof(array.data.type.pointee))
        populate_array(array, data, [arguments[1]], [step], step, None)  # type: ignore[no-untyped-call]
        return array._getvalue()

    return array_type(types.int64, types.int64, dtype), generate


# In a kernel, array_at(address, size, dtype) is the array of `size` elements at an address; nothing counts references
# to it. The caller guarantees that they are there.
array_at: Callable[..., Any] = intrinsic(_array_at)


def _call_at(_: Any, address: Any, arguments: Any) -> Any:
    kinds = tuple(map(types.unliteral, arguments))

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        own, values = context.call_conv, cgutils.unpack_tuple(builder, given[1])  # type: ignore[no-untyped-call]
        function = builder.inttoptr(given[0], own.get_function_type(types.none, kinds).as_pointer())
        status, _ = own.call_function(builder, function, types.none, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):  # type: ignore[no-untyped-call]
            own.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), generate


# In a kernel, call_at(address, arguments) calls the kernel at what `jit.address_in_kernels` returned for arguments of
# these types, a tuple; of arrays, only the types of numbers and the dimensions count. Nothing checks them.
call_at: Callable[..., None] = intrinsic(_call_at)


def c_call(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of Python's interface for C, for kernels that run with the interpreter's lock."""
    return types.ExternalFunction(name, result(*arguments))


# Its types, for `c_call`: objects are addresses.
INTEGER, FLOAT = types.int64, types.float64
