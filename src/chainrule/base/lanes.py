"""Sixteen numbers at once in kernels, in an order that is the same on every machine.

A sum over a row may be vectorised only if its order may change. Here the order is written down: sixteen running sums,
then halves are added to halves. LLVM turns that into the widest instructions that a processor has, and every processor
gets the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

if TYPE_CHECKING:
    from collections.abc import Callable

LANES = 16
SCALED = 32  # int8 numbers of a row that share a scale
_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)


class _Lanes(types.Type):
    """Sixteen float32 in a register. A kernel may keep them in variables, and neither take nor return them."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)  # type: ignore[no-untyped-call]


def pad_to_lanes(width: int) -> int:
    """The next multiple of LANES: rows of this many numbers can be read in whole lanes."""
    return -(-width // LANES) * LANES


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of sixteen numbers in a two-dimensional array, from [row, column] on."""
    array_type = signature.args[0]
    view = context.make_array(array_type)(context, builder, arguments[0])
    indices = [
        context.cast(builder, index, kind, types.intp)
        for index, kind in zip(arguments[1:3], signature.args[1:3], strict=True)
    ]
    element = cgutils.get_item_pointer2(  # type: ignore[no-untyped-call]
        context,
        builder,
        view.data,
        cgutils.unpack_tuple(builder, view.shape),  # type: ignore[no-untyped-call]
        cgutils.unpack_tuple(builder, view.strides),  # type: ignore[no-untyped-call]
        array_type.layout,
        indices,
    )
    return builder.bitcast(element, _VECTOR.as_pointer())


def _weights_at(_: Any, weights: Any, scales: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, scaling, *indices = signature.args
        address = _address(context, builder, types.void(matrix, *indices), (arguments[0], *arguments[2:]))
        if matrix.dtype == types.float32:
            return builder.load(address, align=4)
        bits = matrix.dtype.bitwidth
        stored = builder.bitcast(address, ir.VectorType(ir.IntType(bits), LANES).as_pointer())
        numbers = builder.load(stored, align=bits // 8)
        if matrix.dtype == types.uint16:
            upper = builder.zext(numbers, _INTEGERS)
            return builder.bitcast(builder.shl(upper, _integers(16)), _VECTOR)
        if matrix.dtype == types.int16:
            return _halves(builder, builder.zext(numbers, _INTEGERS))
        block = builder.udiv(arguments[3], context.get_constant(indices[1], SCALED))
        address = _address(context, builder, types.void(scaling, *indices), (arguments[1], arguments[2], block))
        scale = builder.load(builder.bitcast(address, _FLOAT.as_pointer()), align=4)
        return builder.fmul(builder.sitofp(builder.sext(numbers, _INTEGERS), _VECTOR), _in_each(builder, scale))

    known = (types.float32, types.uint16, types.int16, types.int8)
    return (_lanes(weights, scales, row, column), generate) if weights.dtype in known else None


def _integers(number: int) -> Any:
    return ir.Constant(_INTEGERS, [number] * LANES)


def _halves(builder: Any, bits: Any) -> Any:
    """The numbers of IEEE's halves: their exponent counts from 15, a float's from 127."""
    magnitude = builder.bitcast(builder.shl(builder.and_(bits, _integers(0x7FFF)), _integers(13)), _VECTOR)
    scaled = builder.bitcast(builder.fmul(magnitude, ir.Constant(_VECTOR, [2.0**112] * LANES)), _INTEGERS)
    sign = builder.shl(builder.and_(bits, _integers(0x8000)), _integers(16))
    return builder.bitcast(builder.or_(scaled, sign), _VECTOR)


def _in_each(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _integers(0))


def _of_llvm(builder: Any, name: str, arguments: int) -> Any:
    """One of LLVM's own functions on lanes."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * arguments), name)  # type: ignore[no-untyped-call]


def _lanes_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature, arguments), align=4)

    return _lanes(array, row, column), generate


def _put_lanes(_: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[3], _address(context, builder, signature, arguments), align=4)
        return context.get_dummy_value()

    return types.void(array, row, column, _lanes), generate


def _ask_for(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        address = builder.bitcast(_address(context, builder, signature, arguments), pointer)
        builder.call(function, [address, number(0), number(3), number(1)])  # to read, to be kept, data
        return context.get_dummy_value()

    return types.void(array, row, column), generate


def _spread(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_each(builder, arguments[0])

    return _lanes(types.float32), generate


def _times_plus(_: Any, first: Any, second: Any, added: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_of_llvm(builder, "llvm.fma.v16f32", 3), arguments)

    return _lanes(_lanes, _lanes, _lanes), generate


def _bounded(_: Any, lanes: Any, bound: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        high = builder.call(_of_llvm(builder, "llvm.minnum.v16f32", 2), arguments)
        low = builder.fsub(ir.Constant(_VECTOR, [0.0] * LANES), arguments[1])
        return builder.call(_of_llvm(builder, "llvm.maxnum.v16f32", 2), [high, low])

    return _lanes(_lanes, _lanes), generate


def _total(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, width = arguments[0], LANES
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            nothing = ir.Constant(values.type, ir.Undefined)
            low = builder.shuffle_vector(values, nothing, ir.Constant(index, list(range(width))))
            high = builder.shuffle_vector(values, nothing, ir.Constant(index, list(range(width, 2 * width))))
            values = builder.fadd(low, high)
        return builder.extract_element(values, ir.IntType(32)(0))

    return types.float32(_lanes), generate


def _elementwise(operation: str) -> Any:
    def typed(_: Any, first: Any, second: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, operation)(*arguments)

        return _lanes(_lanes, _lanes), generate

    return typed


def _root(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_of_llvm(builder, "llvm.sqrt.v16f32", 1), arguments)

    return _lanes(_lanes), generate


# In a kernel; rows are of float32 in C order, and nobody checks that sixteen numbers are there.
lanes_at: Callable[..., Any] = intrinsic(_lanes_at)  # lanes_at(rows, row, column): sixteen numbers of a row
# weights_at(matrix, scales, row, column): sixteen numbers of a row as float32, exactly, of a matrix of float32, of the
# bits of bfloat16 (as uint16) or of finite float16 (as int16); of int8, each times scales[row, column // SCALED].
weights_at: Callable[..., Any] = intrinsic(_weights_at)
put_lanes: Callable[..., None] = intrinsic(_put_lanes)  # put_lanes(rows, row, column, lanes)
ask_for: Callable[..., None] = intrinsic(_ask_for)  # ask_for(rows, row, column): as `prefetch` in jit.py
spread: Callable[..., Any] = intrinsic(_spread)  # spread(number): the same number, a float32, in each
times_plus: Callable[..., Any] = intrinsic(_times_plus)  # times_plus(a, b, c): a * b + c, rounded once
total: Callable[..., Any] = intrinsic(_total)  # total(lanes): their sum
bounded: Callable[..., Any] = intrinsic(_bounded)  # bounded(lanes, bound): each between -bound and bound
plus: Callable[..., Any] = intrinsic(_elementwise("fadd"))
times: Callable[..., Any] = intrinsic(_elementwise("fmul"))
minus: Callable[..., Any] = intrinsic(_elementwise("fsub"))
over: Callable[..., Any] = intrinsic(_elementwise("fdiv"))
root: Callable[..., Any] = intrinsic(_root)
