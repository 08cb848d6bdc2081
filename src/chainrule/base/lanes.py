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


class _IntegerLanes(types.Type):
    """Sixteen int32 in a register, or four bytes in each of them, as `_Lanes`."""

    def __init__(self) -> None:
        super().__init__(name="IntegerLanes")


_integer_lanes = _IntegerLanes()


@register_model(_IntegerLanes)
class _IntegerLanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _INTEGERS)  # type: ignore[no-untyped-call]


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


# Numba passes no arguments with stars.
def _totals(
    _: Any,
    a0: Any,
    a1: Any,
    a2: Any,
    a3: Any,
    b0: Any,
    b1: Any,
    b2: Any,
    b3: Any,
    c0: Any,
    c1: Any,
    c2: Any,
    c3: Any,
    d0: Any,
    d1: Any,
    d2: Any,
    d3: Any,
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, width = list(arguments), LANES
        while width > 1:  # the sums of halves, as in `_total`, of two vectors side by side in one
            width //= 2
            places = range(0, 2 * LANES, 2 * width)
            low = ir.Constant(_INTEGERS, [place + lane for place in places for lane in range(width)])
            high = ir.Constant(_INTEGERS, [place + width + lane for place in places for lane in range(width)])
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [
                builder.fadd(builder.shuffle_vector(*pair, low), builder.shuffle_vector(*pair, high)) for pair in pairs
            ]
        return values[0]

    return _lanes(*[_lanes] * LANES), generate


def _elementwise(operation: str, kind: Any = _lanes) -> Any:
    def typed(_: Any, first: Any, second: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if operation.startswith("llvm."):
                return builder.call(_of_llvm(builder, operation, 2), arguments)
            return getattr(builder, operation)(*arguments)

        return kind(kind, kind), generate

    return typed


def _root(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_of_llvm(builder, "llvm.sqrt.v16f32", 1), arguments)

    return _lanes(_lanes), generate


def _at_bytes(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """What is stored from [row, column] on in a two-dimensional array of bytes, as an LLVM type."""
    address = _address(context, builder, signature, arguments)
    return builder.load(builder.bitcast(address, kind.as_pointer()), align=1)


def _integers_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _at_bytes(context, builder, signature, arguments, _INTEGERS)

    return _integer_lanes(array, row, column), generate


def _halves_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = _at_bytes(context, builder, signature, arguments, ir.VectorType(ir.IntType(16), LANES))
        return _halves(builder, builder.zext(bits, _INTEGERS))

    return _lanes(array, row, column), generate


def _bytes_at(widen: str) -> Any:
    def typed(_: Any, array: Any, row: Any, column: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = _at_bytes(context, builder, signature, arguments, ir.VectorType(ir.IntType(8), LANES))
            return builder.sitofp(getattr(builder, widen)(numbers, _INTEGERS), _VECTOR)

        return _lanes(array, row, column), generate

    return typed


def _spread_integer(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, arguments[0])

    return _integer_lanes(types.int32), generate


def _in_all(builder: Any, number: Any) -> Any:
    """An int32 in each lane."""
    nothing = ir.Constant(_INTEGERS, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, nothing, _integers(0))


def _spread_integer_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, _at_bytes(context, builder, signature, arguments, ir.IntType(32)))

    return _integer_lanes(array, row, column), generate


def _float_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _at_bytes(context, builder, signature, arguments, _FLOAT)

    return types.float32(array, row, column), generate


def _bits(_: Any, lanes: Any, shift: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shifts, masks = (_in_all(builder, builder.trunc(number, ir.IntType(32))) for number in arguments[1:])
        return builder.and_(builder.lshr(arguments[0], shifts), masks)

    return _integer_lanes(_integer_lanes, types.int64, types.int64), generate


def _joined_bits(_: Any, lanes: Any, upper: Any, shift: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shifts = _in_all(builder, builder.trunc(arguments[2], ir.IntType(32)))
        return builder.or_(arguments[0], builder.shl(arguments[1], shifts))

    return _integer_lanes(_integer_lanes, _integer_lanes, types.int64), generate


def _as_floats(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sitofp(arguments[0], _VECTOR)

    return _lanes(_integer_lanes), generate


def _dot_bytes(_: Any, total: Any, lanes: Any, numbers: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        features = context.codegen().magic_tuple()[2].split(",")
        if "+avx512vnni" in features and "+avx512f" in features:
            return _called(builder, "llvm.x86.avx512.vpdpbusd.512", _INTEGERS, arguments)
        if "+avx2" in features:
            halves = [[_half(builder, part, end) for part in arguments] for end in (0, 1)]
            both = [_dot_by_avx2(builder, *half) for half in halves]
            return builder.shuffle_vector(*both, ir.Constant(_INTEGERS, list(range(LANES))))
        total = arguments[0]
        for byte in range(4):
            weight = builder.and_(builder.lshr(arguments[1], _integers(8 * byte)), _integers(0xFF))
            number = builder.ashr(builder.shl(arguments[2], _integers(24 - 8 * byte)), _integers(24))
            total = builder.add(total, builder.mul(weight, number))
        return total

    return _integer_lanes(_integer_lanes, _integer_lanes, _integer_lanes), generate


_HALF = ir.VectorType(ir.IntType(32), LANES // 2)
_WORDS = ir.VectorType(ir.IntType(16), LANES)


def _half(builder: Any, lanes: Any, end: int) -> Any:
    index = ir.Constant(_HALF, [end * LANES // 2 + lane for lane in range(LANES // 2)])
    return builder.shuffle_vector(lanes, ir.Constant(_INTEGERS, ir.Undefined), index)


def _called(builder: Any, name: str, result: Any, arguments: Any) -> Any:
    """One of a processor's own instructions."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)  # type: ignore[no-untyped-call]


def _dot_by_avx2(builder: Any, total: Any, weights: Any, numbers: Any) -> Any:
    """The bytes of even and odd places as int16, whose products the processor adds in pairs; nothing saturates."""
    eight, low = ir.Constant(_WORDS, [8] * LANES), ir.Constant(_WORDS, [0xFF] * LANES)
    weights, numbers = builder.bitcast(weights, _WORDS), builder.bitcast(numbers, _WORDS)
    pairs = (
        (builder.and_(weights, low), builder.ashr(builder.shl(numbers, eight), eight)),
        (builder.lshr(weights, eight), builder.ashr(numbers, eight)),
    )
    for pair in pairs:
        total = builder.add(total, _called(builder, "llvm.x86.avx2.pmadd.wd", _HALF, pair))
    return total


def _largest_bits(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sizes = builder.and_(builder.bitcast(arguments[0], _INTEGERS), _integers(0x7FFFFFFF))
        return _called(builder, "llvm.vector.reduce.umax.v16i32", ir.IntType(32), [sizes])

    return types.int32(_lanes), generate


def _of_bits(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.int32), generate


def _rounded(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fptosi(builder.call(_of_llvm(builder, "llvm.rint.v16f32", 1), arguments), _INTEGERS)

    return _integer_lanes(_lanes), generate


def _put_bytes(_: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), LANES)
        address = builder.bitcast(_address(context, builder, signature, arguments), kind.as_pointer())
        builder.store(builder.trunc(arguments[3], kind), address, align=1)
        return context.get_dummy_value()

    return types.void(array, row, column, _integer_lanes), generate


def _integer_total(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _called(builder, "llvm.vector.reduce.add.v16i32", ir.IntType(32), arguments)

    return types.int32(_integer_lanes), generate


_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_MOST_EXPONENT, _LEAST_EXPONENT = 88.0, -87.0


def _exponential(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def constant(number: float) -> Any:
            return ir.Constant(_VECTOR, [number] * LANES)

        def fma(first: Any, second: Any, added: Any) -> Any:
            return builder.call(_of_llvm(builder, "llvm.fma.v16f32", 3), [first, second, added])

        [given] = arguments
        x = builder.call(_of_llvm(builder, "llvm.minnum.v16f32", 2), [given, constant(_MOST_EXPONENT)])
        x = builder.call(_of_llvm(builder, "llvm.maxnum.v16f32", 2), [x, constant(_LEAST_EXPONENT)])
        n = builder.call(_of_llvm(builder, "llvm.rint.v16f32", 1), [builder.fmul(x, constant(_LOG2E))])
        r = fma(n, constant(-_LN2_LOW), fma(n, constant(-_LN2_HIGH), x))
        p = constant(_EXP[0])
        for coefficient in _EXP[1:]:
            p = fma(p, r, constant(coefficient))
        p = builder.fadd(fma(builder.fmul(p, r), r, r), constant(1.0))
        exponent = builder.shl(builder.fptosi(n, _INTEGERS), _integers(23))
        power = builder.bitcast(builder.add(builder.bitcast(p, _INTEGERS), exponent), _VECTOR)
        power = builder.select(builder.fcmp_ordered("<", given, constant(_LEAST_EXPONENT)), constant(0.0), power)
        return builder.select(builder.fcmp_unordered("uno", given, given), given, power)

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
totals: Callable[..., Any] = intrinsic(_totals)  # totals(lanes, .. sixteen of them): the sum of each, as by `total`
bounded: Callable[..., Any] = intrinsic(_bounded)  # bounded(lanes, bound): each between -bound and bound
plus: Callable[..., Any] = intrinsic(_elementwise("fadd"))
times: Callable[..., Any] = intrinsic(_elementwise("fmul"))
minus: Callable[..., Any] = intrinsic(_elementwise("fsub"))
over: Callable[..., Any] = intrinsic(_elementwise("fdiv"))
larger: Callable[..., Any] = intrinsic(_elementwise("llvm.maxnum.v16f32"))  # of a number and none, the number
root: Callable[..., Any] = intrinsic(_root)

# Of bytes, in rows in C order:
integers_at: Callable[..., Any] = intrinsic(_integers_at)  # integers_at(bytes, row, column): 64 bytes as 16 int32
halves_at: Callable[..., Any] = intrinsic(_halves_at)  # halves_at(bytes, row, column): 16 finite float16 as floats
bytes_at: Callable[..., Any] = intrinsic(_bytes_at("zext"))  # bytes_at(bytes, row, column): 16 uint8 as floats
signed_bytes_at: Callable[..., Any] = intrinsic(_bytes_at("sext"))  # signed_bytes_at(bytes, row, column): 16 int8
spread_integer: Callable[..., Any] = intrinsic(_spread_integer)  # spread_integer(number): the same int32 in each
# One number of a row, found without the check whether an index is negative: float_at(rows, row, column).
float_at: Callable[..., Any] = intrinsic(_float_at)
spread_integer_at: Callable[..., Any] = intrinsic(_spread_integer_at)  # the same int32 in each, as `float_at`
plus_integers: Callable[..., Any] = intrinsic(_elementwise("add", _integer_lanes))
bits: Callable[..., Any] = intrinsic(_bits)  # bits(lanes, shift, mask): lanes >> shift & mask
joined_bits: Callable[..., Any] = intrinsic(_joined_bits)  # joined_bits(low, high, shift): low | high << shift
as_floats: Callable[..., Any] = intrinsic(_as_floats)  # as_floats(integers): rounded to the nearest
# dot_bytes(total, weights, numbers): to each total, the products of four uint8 and four int8 are added.
dot_bytes: Callable[..., Any] = intrinsic(_dot_bytes)
largest_bits: Callable[..., Any] = intrinsic(
    _largest_bits
)  # largest_bits(lanes): of the largest number without its sign
of_bits: Callable[..., Any] = intrinsic(_of_bits)  # of_bits(number): the float32 that has the bits of an int32
rounded: Callable[..., Any] = intrinsic(_rounded)  # rounded(lanes): the nearest integers, halves to the even ones
put_bytes: Callable[..., None] = intrinsic(_put_bytes)  # put_bytes(array, row, column, integers): their lowest bytes
integer_total: Callable[..., Any] = intrinsic(_integer_total)  # integer_total(integers): their sum
# exponential(lanes): e to the power of each, the same bits on every processor, with an error of 1e-7; 0 below -87.
# Numbers above 88 count as 88. The polynomial is that of Cephes (Moshier 1992, expf).
exponential: Callable[..., Any] = intrinsic(_exponential)
