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
FLOAT = ir.FloatType()
VECTOR = ir.VectorType(FLOAT, LANES)
INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_WIDE_VECTOR = ir.VectorType(ir.DoubleType(), LANES // 2)


class _Lanes(types.Type):
    """Sixteen float32 in a register. A kernel may keep them in variables, and neither take nor return them."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


FLOAT_LANES = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, VECTOR)  # type: ignore[no-untyped-call]


class _WideLanes(types.Type):
    """Eight float64 in a register, as `_Lanes`."""

    def __init__(self) -> None:
        super().__init__(name="WideLanes")


_wide_lanes = _WideLanes()


@register_model(_WideLanes)
class _WideLanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _WIDE_VECTOR)  # type: ignore[no-untyped-call]


def _lanes_of(rows: Any) -> tuple[Any, Any]:
    """Return the lanes that numbers of an array are read as, and their LLVM type."""
    return (_wide_lanes, _WIDE_VECTOR) if rows.dtype == types.float64 else (FLOAT_LANES, VECTOR)


def pad_to_lanes(width: int) -> int:
    """Return the next multiple of LANES: rows of this many numbers can be read in whole lanes."""
    return -(-width // LANES) * LANES


def address_of(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of sixteen numbers in a two-dimensional array, from [row, column] on."""
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
    return builder.bitcast(element, VECTOR.as_pointer())


def stored_at(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """Return the values stored from [row, column] on in a two-dimensional array, which may be of bytes, as an LLVM
    type.
    """
    address = address_of(context, builder, signature, arguments)
    return builder.load(builder.bitcast(address, kind.as_pointer()), align=1)


def _weights_at(_: Any, weights: Any, scales: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, scaling, *indices = signature.args
        address = address_of(context, builder, types.void(matrix, *indices), (arguments[0], *arguments[2:]))
        if matrix.dtype == types.float32:
            return builder.load(address, align=4)
        bits = matrix.dtype.bitwidth
        stored = builder.bitcast(address, ir.VectorType(ir.IntType(bits), LANES).as_pointer())
        numbers = builder.load(stored, align=bits // 8)
        if matrix.dtype == types.uint16:
            upper = builder.zext(numbers, INTEGERS)
            return builder.bitcast(builder.shl(upper, integers(16)), VECTOR)
        if matrix.dtype == types.int16:
            return halves(context, builder, numbers)
        block = builder.udiv(arguments[3], context.get_constant(indices[1], SCALED))
        address = address_of(context, builder, types.void(scaling, *indices), (arguments[1], arguments[2], block))
        scale = builder.load(builder.bitcast(address, FLOAT.as_pointer()), align=4)
        return builder.fmul(builder.sitofp(builder.sext(numbers, INTEGERS), VECTOR), in_each(builder, scale))

    known = (types.float32, types.uint16, types.int16, types.int8)
    return (FLOAT_LANES(weights, scales, row, column), generate) if weights.dtype in known else None


def integers(number: int) -> Any:
    return ir.Constant(INTEGERS, [number] * LANES)


def features_of(context: Any) -> list[str]:
    """Return what the processor can do, by LLVM's names."""
    features: list[str] = context.codegen().magic_tuple()[2].split(",")
    return features


def halves(context: Any, builder: Any, stored: Any) -> Any:
    """Return the numbers of sixteen of IEEE's halves: their exponent counts from 15, a float's from 127."""
    if "+f16c" in features_of(context):  # an instruction, to the same bits
        return builder.fpext(builder.bitcast(stored, ir.VectorType(ir.HalfType(), LANES)), VECTOR)
    bits = builder.zext(stored, INTEGERS)
    magnitude = builder.bitcast(builder.shl(builder.and_(bits, integers(0x7FFF)), integers(13)), VECTOR)
    scaled = builder.bitcast(builder.fmul(magnitude, ir.Constant(VECTOR, [2.0**112] * LANES)), INTEGERS)
    sign = builder.shl(builder.and_(bits, integers(0x8000)), integers(16))
    return builder.bitcast(builder.or_(scaled, sign), VECTOR)


def in_each(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), integers(0))


def of_llvm(builder: Any, name: str, arguments: int) -> Any:
    """Return one of LLVM's own functions on lanes."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(VECTOR, [VECTOR] * arguments), name)  # type: ignore[no-untyped-call]


def called(builder: Any, name: str, result: Any, arguments: Any) -> Any:
    """Return one of a processor's own instructions."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)  # type: ignore[no-untyped-call]


def _float_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return stored_at(context, builder, signature, arguments, FLOAT)

    return types.float32(array, row, column), generate


def _lanes_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    lanes, vector = _lanes_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(address_of(context, builder, signature, arguments), vector.as_pointer())
        return builder.load(address, align=4)

    return lanes(array, row, column), generate


def _lanes_in(_: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.intp, _lanes_of(signature.args[0])[1].count)

    return types.intp(array), generate


def _zeros_like(_: Any, array: Any) -> Any:
    lanes, vector = _lanes_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(vector, [0.0] * vector.count)

    return lanes(array), generate


def _weights_like(_: Any, array: Any, weights: Any, scales: Any, row: Any, column: Any) -> Any:
    if array.dtype == types.float32:
        signature, of_float32 = _weights_at(_, weights, scales, row, column)
        both = signature.return_type(array, *signature.args)

        def narrow(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return of_float32(context, builder, signature.return_type(*signature.args[1:]), arguments[1:])

        return both, narrow
    count = _WIDE_VECTOR.count
    floats, words = ir.VectorType(FLOAT, count), ir.VectorType(ir.IntType(32), count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, matrix, _, *indices = signature.args
        address = address_of(context, builder, types.void(matrix, *indices), (arguments[1], *arguments[3:]))
        if matrix.dtype == types.float32:
            numbers = builder.load(builder.bitcast(address, floats.as_pointer()), align=4)
            return builder.fpext(numbers, _WIDE_VECTOR)
        stored = builder.bitcast(address, ir.VectorType(ir.IntType(16), count).as_pointer())
        upper = builder.shl(builder.zext(builder.load(stored, align=2), words), ir.Constant(words, [16] * count))
        return builder.fpext(builder.bitcast(upper, floats), _WIDE_VECTOR)

    known = (types.float32, types.uint16)
    return (_wide_lanes(array, weights, scales, row, column), generate) if weights.dtype in known else None


def _put_lanes(_: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, lanes = address_of(context, builder, signature, arguments), arguments[3]
        if signature.args[0].dtype == types.uint16:
            shorts, bits = ir.VectorType(ir.IntType(16), LANES), builder.bitcast(lanes, INTEGERS)
            is_odd = builder.and_(builder.lshr(bits, integers(16)), integers(1))
            rounded = builder.add(builder.add(bits, integers(0x7FFF)), is_odd)
            lanes = builder.trunc(builder.lshr(rounded, integers(16)), shorts)
            address = builder.bitcast(address, shorts.as_pointer())
        builder.store(lanes, address, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, row, column, FLOAT_LANES), generate


def _ask_for(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        address = builder.bitcast(address_of(context, builder, signature, arguments), pointer)
        builder.call(function, [address, number(0), number(3), number(1)])  # to read, to be kept, data
        return context.get_dummy_value()

    return types.void(array, row, column), generate


def _spread(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return in_each(builder, arguments[0])

    return FLOAT_LANES(types.float32), generate


def _times_plus(_: Any, first: Any, second: Any, added: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if first == _wide_lanes:
            return called(builder, "llvm.fma.v8f64", _WIDE_VECTOR, arguments)
        return builder.call(of_llvm(builder, "llvm.fma.v16f32", 3), arguments)

    return first(first, first, first), generate


def _bounded(_: Any, lanes: Any, bound: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        high = builder.call(of_llvm(builder, "llvm.minnum.v16f32", 2), arguments)
        low = builder.fsub(ir.Constant(VECTOR, [0.0] * LANES), arguments[1])
        return builder.call(of_llvm(builder, "llvm.maxnum.v16f32", 2), [high, low])

    return FLOAT_LANES(FLOAT_LANES, FLOAT_LANES), generate


def _total(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = arguments[0]
        width = values.type.count
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            nothing = ir.Constant(values.type, ir.Undefined)
            low = builder.shuffle_vector(values, nothing, ir.Constant(index, list(range(width))))
            high = builder.shuffle_vector(values, nothing, ir.Constant(index, list(range(width, 2 * width))))
            values = builder.fadd(low, high)
        return builder.extract_element(values, ir.IntType(32)(0))

    return (types.float64 if lanes == _wide_lanes else types.float32)(lanes), generate


def _put_totals(_: Any, array: Any, row: Any, column: Any, values: Any) -> Any:
    lanes, vector = _lanes_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, row, column, values = arguments
        sums = _side_by_side(builder, cgutils.unpack_tuple(builder, values))  # type: ignore[no-untyped-call]
        four = ir.VectorType(vector.element, 4)
        for i in range(4):
            place = 4 * i % vector.count
            index = ir.Constant(ir.VectorType(ir.IntType(32), 4), list(range(place, place + 4)))
            part = builder.shuffle_vector(sums[4 * i // vector.count], ir.Constant(vector, ir.Undefined), index)
            own = builder.add(row, ir.Constant(row.type, i))
            address = address_of(context, builder, signature, (array, own, column))
            builder.store(part, builder.bitcast(address, four.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, row, column, types.UniTuple(lanes, LANES)), generate  # type: ignore[no-untyped-call]


def _side_by_side(builder: Any, values: list[Any]) -> list[Any]:
    """Return the sums of sixteen lanes, each as by `_total`, in as few lanes as hold them: halves of two are added at
    once.
    """
    size = width = values[0].type.count
    index = ir.VectorType(ir.IntType(32), size)
    while width > 1:
        width //= 2
        places = range(0, 2 * size, 2 * width)
        low = ir.Constant(index, [place + lane for place in places for lane in range(width)])
        high = ir.Constant(index, [place + width + lane for place in places for lane in range(width)])
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [
            builder.fadd(builder.shuffle_vector(*pair, low), builder.shuffle_vector(*pair, high)) for pair in pairs
        ]
    return values


def _totals(_: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _side_by_side(builder, cgutils.unpack_tuple(builder, arguments[0]))[0]  # type: ignore[no-untyped-call]

    return FLOAT_LANES(types.UniTuple(FLOAT_LANES, LANES)), generate  # type: ignore[no-untyped-call]


def elementwise(operation: str, kind: Any = FLOAT_LANES) -> Any:
    def typed(_: Any, first: Any, second: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, operation)(*arguments)

        return kind(kind, kind), generate

    return typed


def _larger(_: Any, first: Any, second: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(of_llvm(builder, "llvm.maxnum.v16f32", 2), arguments)

    return FLOAT_LANES(FLOAT_LANES, FLOAT_LANES), generate


def _root(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(of_llvm(builder, "llvm.sqrt.v16f32", 1), arguments)

    return FLOAT_LANES(FLOAT_LANES), generate


_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_MOST_EXPONENT, _LEAST_EXPONENT = 88.0, -87.0


def _exponential(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def constant(number: float) -> Any:
            return ir.Constant(VECTOR, [number] * LANES)

        def fma(first: Any, second: Any, added: Any) -> Any:
            return builder.call(of_llvm(builder, "llvm.fma.v16f32", 3), [first, second, added])

        [given] = arguments
        x = builder.call(of_llvm(builder, "llvm.minnum.v16f32", 2), [given, constant(_MOST_EXPONENT)])
        x = builder.call(of_llvm(builder, "llvm.maxnum.v16f32", 2), [x, constant(_LEAST_EXPONENT)])
        n = builder.call(of_llvm(builder, "llvm.rint.v16f32", 1), [builder.fmul(x, constant(_LOG2E))])
        r = fma(n, constant(-_LN2_LOW), fma(n, constant(-_LN2_HIGH), x))
        p = constant(_EXP[0])
        for coefficient in _EXP[1:]:
            p = fma(p, r, constant(coefficient))
        p = builder.fadd(fma(builder.fmul(p, r), r, r), constant(1.0))
        exponent = builder.shl(builder.fptosi(n, INTEGERS), integers(23))
        power = builder.bitcast(builder.add(builder.bitcast(p, INTEGERS), exponent), VECTOR)
        power = builder.select(builder.fcmp_ordered("<", given, constant(_LEAST_EXPONENT)), constant(0.0), power)
        return builder.select(builder.fcmp_unordered("uno", given, given), given, power)

    return FLOAT_LANES(FLOAT_LANES), generate


# In a kernel; rows are of float32 in C order, and nobody checks that sixteen numbers are there.
lanes_at: Callable[..., Any] = intrinsic(_lanes_at)  # lanes_at(rows, row, column): sixteen numbers of a row
# One number of a row, found without the check whether an index is negative: float_at(rows, row, column).
float_at: Callable[..., Any] = intrinsic(_float_at)
# weights_at(matrix, scales, row, column): sixteen numbers of a row as float32, exactly, of a matrix of float32, of the
# bits of bfloat16 (as uint16) or of finite float16 (as int16); of int8, each times scales[row, column // SCALED].
weights_at: Callable[..., Any] = intrinsic(_weights_at)
# Of rows of float32 or float64, in whose lanes there are sixteen numbers or eight; these lanes go into `times_plus`,
# `total` and `put_totals`. weights_like(rows, matrix, scales, row, column): as `weights_at`, and where the rows have
# float64, eight numbers of a matrix of float32 or of the bits of bfloat16.
lanes_in: Callable[..., int] = intrinsic(_lanes_in)  # lanes_in(rows): how many numbers
zeros_like: Callable[..., Any] = intrinsic(_zeros_like)  # zeros_like(rows)
weights_like: Callable[..., Any] = intrinsic(_weights_like)
# put_totals(rows, row, column, tuple of sixteen lanes): the sum of each, as by `total`, four to each of four rows.
put_totals: Callable[..., None] = intrinsic(_put_totals)
# put_lanes(rows, row, column, lanes): into rows of float32, or rounded to the nearest bits of bfloat16 (uint16).
put_lanes: Callable[..., None] = intrinsic(_put_lanes)
ask_for: Callable[..., None] = intrinsic(_ask_for)  # ask_for(rows, row, column): as `prefetch` in jit.py
spread: Callable[..., Any] = intrinsic(_spread)  # spread(number): the same number, a float32, in each
times_plus: Callable[..., Any] = intrinsic(_times_plus)  # times_plus(a, b, c): a * b + c, rounded once
total: Callable[..., Any] = intrinsic(_total)  # total(lanes): their sum
totals: Callable[..., Any] = intrinsic(_totals)  # totals(tuple of sixteen lanes): the sum of each, as by `total`
bounded: Callable[..., Any] = intrinsic(_bounded)  # bounded(lanes, bound): each between -bound and bound
plus: Callable[..., Any] = intrinsic(elementwise("fadd"))
times: Callable[..., Any] = intrinsic(elementwise("fmul"))
minus: Callable[..., Any] = intrinsic(elementwise("fsub"))
over: Callable[..., Any] = intrinsic(elementwise("fdiv"))
larger: Callable[..., Any] = intrinsic(_larger)  # of a number and none, the number
root: Callable[..., Any] = intrinsic(_root)

# exponential(lanes): e to the power of each, the same bits on every processor, with an error of 1e-7; 0 below -87.
# Numbers above 88 count as 88. The polynomial is that of Cephes (Moshier 1992, expf).
exponential: Callable[..., Any] = intrinsic(_exponential)
