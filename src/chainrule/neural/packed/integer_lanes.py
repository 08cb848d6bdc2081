"""Sixteen integers, or 64 bytes, at once in kernels: what products of weights in blocks need beside `base.lanes`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from chainrule.base.lanes import (
    FLOAT,
    FLOAT_LANES,
    INTEGERS,
    LANES,
    VECTOR,
    address_of,
    called,
    elementwise,
    features_of,
    halves,
    integers,
    of_llvm,
    stored_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class _IntegerLanes(types.Type):
    """Sixteen int32 in a register, or four bytes in each of them, as `_Lanes`."""

    def __init__(self) -> None:
        super().__init__(name="IntegerLanes")


_integer_lanes = _IntegerLanes()
_LANES_BYTES = 4 * LANES


@register_model(_IntegerLanes)
class _IntegerLanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, INTEGERS)  # type: ignore[no-untyped-call]


def _integers_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return stored_at(context, builder, signature, arguments, INTEGERS)

    return _integer_lanes(array, row, column), generate


def _halves_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        stored = stored_at(context, builder, signature, arguments, ir.VectorType(ir.IntType(16), LANES))
        return halves(context, builder, stored)

    return FLOAT_LANES(array, row, column), generate


def _bytes_at(widen: str) -> Any:
    def typed(_: Any, array: Any, row: Any, column: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = stored_at(context, builder, signature, arguments, ir.VectorType(ir.IntType(8), LANES))
            return builder.sitofp(getattr(builder, widen)(numbers, INTEGERS), VECTOR)

        return FLOAT_LANES(array, row, column), generate

    return typed


def _bytes_of_lane(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = ir.Constant(ir.VectorType(ir.IntType(32), 4), ir.Undefined)
        for word in range(4):
            place = builder.add(arguments[2], ir.Constant(arguments[2].type, _LANES_BYTES * word))
            number = stored_at(context, builder, signature, (*arguments[:2], place), ir.IntType(32))
            words = builder.insert_element(words, number, ir.IntType(32)(word))
        return builder.zext(builder.bitcast(words, ir.VectorType(ir.IntType(8), LANES)), INTEGERS)

    return _integer_lanes(array, row, column), generate


def _planes_of_lane(_: Any, array: Any, row: Any, column: Any, size: Any, first: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, row, column, size, first = arguments
        own = types.void(*signature.args[:3])
        number = _in_all(builder, stored_at(context, builder, own, (array, row, column), ir.IntType(32)))
        size, first = (builder.trunc(part, ir.IntType(32)) for part in (size, first))
        words = ir.Constant(INTEGERS, [8 * (lane % 4) for lane in range(LANES)])
        steps = builder.mul(_in_all(builder, size), ir.Constant(INTEGERS, [lane // 4 for lane in range(LANES)]))
        shifts = builder.add(builder.add(words, steps), _in_all(builder, first))
        mask = builder.sub(builder.shl(ir.IntType(32)(1), size), ir.IntType(32)(1))
        return builder.and_(builder.lshr(number, shifts), _in_all(builder, mask))

    return _integer_lanes(array, row, column, types.int64, types.int64), generate


def _spread_integer(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, arguments[0])

    return _integer_lanes(types.int32), generate


def _in_all(builder: Any, number: Any) -> Any:
    """Return an int32 in each lane."""
    nothing = ir.Constant(INTEGERS, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, nothing, integers(0))


def _spread_integer_at(_: Any, array: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, stored_at(context, builder, signature, arguments, ir.IntType(32)))

    return _integer_lanes(array, row, column), generate


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
        return builder.sitofp(arguments[0], VECTOR)

    return FLOAT_LANES(_integer_lanes), generate


def _has_wide_lanes(_: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.boolean, "+avx512f" in features_of(context))

    return types.boolean(), generate


def _dot_words(
    _: Any, size: Any, total: Any, w0: Any, w1: Any, w2: Any, w3: Any, array: Any, row: Any, column: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, total, *weights, array, row, column = arguments
        own, numbers = types.void(*signature.args[6:]), []
        for word in range(len(weights)):
            place = builder.add(column, ir.Constant(column.type, word))
            number = stored_at(context, builder, own, (array, row, place), ir.IntType(32))
            numbers.append(_in_all(builder, number))
        features = features_of(context)
        if "+avx512vnni" in features and "+avx512f" in features:
            return _dot_by_vnni(builder, total, weights, numbers)
        if "+avx2" in features:
            totals = []
            for end in (0, 1):
                own_total = _half(builder, total, end)
                own_weights, own_numbers = ([_half(builder, word, end) for word in of] for of in (weights, numbers))
                if "+avxvnni" in features:
                    totals.append(_dot_by_vnni(builder, own_total, own_weights, own_numbers))
                else:
                    largest = (1 << size.literal_value) - 1
                    totals.append(_dot_by_avx2(builder, own_total, own_weights, own_numbers, largest))
            return builder.shuffle_vector(*totals, ir.Constant(INTEGERS, list(range(LANES))))
        for weight, number in zip(weights, numbers, strict=True):
            for byte in range(4):
                unsigned = builder.and_(builder.lshr(weight, integers(8 * byte)), integers(0xFF))
                signed = builder.ashr(builder.shl(number, integers(24 - 8 * byte)), integers(24))
                total = builder.add(total, builder.mul(unsigned, signed))
        return total

    return _integer_lanes(size, *[_integer_lanes] * 5, array, row, column), generate


_HALF = ir.VectorType(ir.IntType(32), LANES // 2)
_WORDS = ir.VectorType(ir.IntType(16), LANES)
_BYTES = ir.VectorType(ir.IntType(8), 2 * LANES)
_LARGEST_PAIR, _LARGEST_NUMBER = (1 << 15) - 1, 127


def _half(builder: Any, lanes: Any, end: int) -> Any:
    index = ir.Constant(_HALF, [end * LANES // 2 + lane for lane in range(LANES // 2)])
    return builder.shuffle_vector(lanes, ir.Constant(INTEGERS, ir.Undefined), index)


def _dot_by_vnni(builder: Any, total: Any, weights: list[Any], numbers: list[Any]) -> Any:
    instruction = f"llvm.x86.avx512.vpdpbusd.{32 * total.type.count}"
    for pair in zip(weights, numbers, strict=True):
        total = called(builder, instruction, total.type, (total, *pair))
    return total


def _dot_by_avx2(builder: Any, total: Any, weights: list[Any], numbers: list[Any], largest: int) -> Any:
    """Add the products of pairs of bytes as int16, of as many words as int16 holds whatever the numbers are; nothing
    saturates.
    """
    sums = []
    if together := _LARGEST_PAIR // (2 * largest * _LARGEST_NUMBER):
        ones = ir.Constant(_WORDS, [1] * LANES)
        products = [
            called(builder, "llvm.x86.avx2.pmadd.ub.sw", _WORDS, [builder.bitcast(part, _BYTES) for part in pair])
            for pair in zip(weights, numbers, strict=True)
        ]
        parts = [products[begin : begin + together] for begin in range(0, len(products), together)]
        sums = [(reduce(builder.add, part), ones) for part in parts]
    else:  # bytes of even places, then of odd ones, as int16
        eight, low = ir.Constant(_WORDS, [8] * LANES), ir.Constant(_WORDS, [0xFF] * LANES)
        for weight, number in zip(weights, numbers, strict=True):
            unsigned, signed = builder.bitcast(weight, _WORDS), builder.bitcast(number, _WORDS)
            sums.append((builder.and_(unsigned, low), builder.ashr(builder.shl(signed, eight), eight)))
            sums.append((builder.lshr(unsigned, eight), builder.ashr(signed, eight)))
    for pair in sums:
        total = builder.add(total, called(builder, "llvm.x86.avx2.pmadd.wd", _HALF, pair))
    return total


def _largest_bits(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sizes = builder.and_(builder.bitcast(arguments[0], INTEGERS), integers(0x7FFFFFFF))
        return called(builder, "llvm.vector.reduce.umax.v16i32", ir.IntType(32), [sizes])

    return types.int32(FLOAT_LANES), generate


def _of_bits(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], FLOAT)

    return types.float32(types.int32), generate


def _rounded(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fptosi(builder.call(of_llvm(builder, "llvm.rint.v16f32", 1), arguments), INTEGERS)

    return _integer_lanes(FLOAT_LANES), generate


def _put_bytes(_: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), LANES)
        address = builder.bitcast(address_of(context, builder, signature, arguments), kind.as_pointer())
        builder.store(builder.trunc(arguments[3], kind), address, align=1)
        return context.get_dummy_value()

    return types.void(array, row, column, _integer_lanes), generate


def _integer_total(_: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return called(builder, "llvm.vector.reduce.add.v16i32", ir.IntType(32), arguments)

    return types.int32(_integer_lanes), generate


# In a kernel; of bytes, in rows in C order:
integers_at: Callable[..., Any] = intrinsic(_integers_at)  # integers_at(bytes, row, column): 64 bytes as 16 int32
halves_at: Callable[..., Any] = intrinsic(_halves_at)  # halves_at(bytes, row, column): 16 finite float16 as floats
bytes_at: Callable[..., Any] = intrinsic(_bytes_at("zext"))  # bytes_at(bytes, row, column): 16 uint8 as floats
signed_bytes_at: Callable[..., Any] = intrinsic(_bytes_at("sext"))  # signed_bytes_at(bytes, row, column): 16 int8
# bytes_of_lane(bytes, row, column): four bytes, and four of each 64 bytes later on, three times; without a sign.
bytes_of_lane: Callable[..., Any] = intrinsic(_bytes_of_lane)
# planes_of_lane(bytes, row, column, size, first): so many bits of each of four bytes, the first bits on from `first`,
# then four times the next ones.
planes_of_lane: Callable[..., Any] = intrinsic(_planes_of_lane)
spread_integer: Callable[..., Any] = intrinsic(_spread_integer)  # spread_integer(number): the same int32 in each
spread_integer_at: Callable[..., Any] = intrinsic(_spread_integer_at)  # the same int32 in each, as `float_at`
plus_integers: Callable[..., Any] = intrinsic(elementwise("add", _integer_lanes))
bits: Callable[..., Any] = intrinsic(_bits)  # bits(lanes, shift, mask): lanes >> shift & mask
joined_bits: Callable[..., Any] = intrinsic(_joined_bits)  # joined_bits(low, high, shift): low | high << shift
as_floats: Callable[..., Any] = intrinsic(_as_floats)  # as_floats(integers): rounded to the nearest
has_wide_lanes: Callable[..., bool] = intrinsic(_has_wide_lanes)  # has_wide_lanes(): a register holds 64 bytes
# dot_words(bits, total, w0, w1, w2, w3, words, row, column): to each total, the products of sixteen integers of so many
# bits in uint8 and as many int8, none of them -128, are added: four in each of the words from the column on. The bits
# must be a constant.
dot_words: Callable[..., Any] = intrinsic(prefer_literal=True)(_dot_words)
largest_bits: Callable[..., Any] = intrinsic(
    _largest_bits
)  # largest_bits(lanes): of the largest number without its sign
of_bits: Callable[..., Any] = intrinsic(_of_bits)  # of_bits(number): the float32 that has the bits of an int32
rounded: Callable[..., Any] = intrinsic(_rounded)  # rounded(lanes): the nearest integers, halves to the even ones
put_bytes: Callable[..., None] = intrinsic(_put_bytes)  # put_bytes(array, row, column, integers): their lowest bytes
integer_total: Callable[..., Any] = intrinsic(_integer_total)  # integer_total(integers): their sum
