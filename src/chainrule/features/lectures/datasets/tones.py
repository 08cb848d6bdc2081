"""Sounds made by rule: each letter and digit of a sentence is a chord of two tones, in noise; speed and pitch vary.

All is computed in whole numbers, so that the files are the same on every machine.
"""

from __future__ import annotations

import math
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING

import numpy as np

from chainrule.features.lectures.datasets.sentences import sentence

if TYPE_CHECKING:
    from jaxtyping import Int16, Int64
    from numpy import ndarray

    from chainrule.features.lectures.datasets.random import Random

RATE = 16_000  # samples a second
SYMBOLS = ascii_lowercase + digits
_LOW, _HIGH, _STEP, _ACROSS = 400.0, 1500.0, 1.25, 6  # Hz, the lowest of each group; ratio of neighbours; in a group
_SIDE = 6  # pitches of each group
_AMPLITUDE = 2000  # of each tone
_TURN, _TABLE = 1 << 16, 1 << 10  # a period of a phase, entries of the sine
_UNIT = 1 << 12  # the amplitude of the table
_SINE = np.array([round(_UNIT * math.sin(2 * math.pi * i / _TABLE)) for i in range(_TABLE)], np.int64)
_RAMP = 64  # samples in which a tone rises, or falls: 4 ms
_NUMBERS = "23456789"


def spoken_sentence(chance: Random) -> str:
    """Return a simple sentence; `some` becomes a number: 7 dogs follow the red boat."""
    return " ".join(chance.choice(_NUMBERS) if word == "some" else word for word in sentence(chance).english.split())


def spoken(text: str, chance: Random, *, hard: bool = False) -> Int16[ndarray, " samples"]:
    """Return the sound of a text, at a random speed and in random noise. hard: in more noise, and faster."""
    shortest = 34 + chance.below(15) if hard else 40 + chance.below(21)
    return sing(text, chance, shortest, (90 if hard else 50) + chance.below(66))


def sing(text: str, chance: Random, shortest: int, noise: int) -> Int16[ndarray, " samples"]:
    """Return the sound of a text.

    shortest: the milliseconds of a symbol, at least. noise: its deviation, in hundredths of three times a chord's. A
    symbol lasts up to a fifth longer, gaps a fifth to two fifths as long, or as long as a symbol for a space. All
    pitches of a sentence are up to 6 % higher or lower.
    """
    pitch = 940 + chance.below(121)  # thousandths
    unit = RATE * shortest // 1000
    parts = [np.zeros(2 * unit, np.int64)]
    for symbol in text:
        if symbol == " ":
            parts.append(np.zeros(unit, np.int64))
            continue
        length = unit + unit * chance.below(21) // 100
        parts += [
            _chord(SYMBOLS.index(symbol), length, pitch),
            np.zeros(unit * (20 + chance.below(21)) // 100, np.int64),
        ]
    parts.append(np.zeros(2 * unit, np.int64))
    samples = np.concatenate(parts)
    samples += noise * _noise(len(samples), chance.below(1 << 32)) // 100
    return np.clip(samples, -32768, 32767).astype(np.int16)


def _chord(symbol: int, length: int, pitch: int) -> Int64[ndarray, " length"]:
    row, column = divmod(symbol, _SIDE)
    times = np.arange(length, dtype=np.int64)
    total = np.zeros(length, np.int64)
    for lowest, place in ((_LOW, row), (_HIGH, column)):
        step = round(lowest * _STEP**place * _TURN / RATE) * pitch // 1000
        total += _SINE[times * step % _TURN * _TABLE // _TURN]
    ramp = np.minimum(np.minimum(times + 1, length - times), _RAMP)
    return total * ramp * _AMPLITUDE // (_RAMP * _UNIT)


def _noise(length: int, seed: int) -> Int64[ndarray, " length"]:
    """Return noise that is nearly normal: sums of four of the 16 bits of a hash of each sample's number (SplitMix64).

    Its deviation is that of a chord, `_AMPLITUDE`, times 3.
    """
    state = (np.arange(length, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed << 20)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> np.uint64(31)
    parts = state.view(np.uint16).reshape(length, 4).astype(np.int64)
    return (parts.sum(1) - 2 * 65535) * 3 * _AMPLITUDE // 37_837
