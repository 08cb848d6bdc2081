"""The speller against arithmetic by hand."""

import math
from fractions import Fraction

import pytest

from chainrule.text.speller import ByteSpeller


@pytest.mark.parametrize("token", [b"", b"a", "日本".encode(), bytes(range(256))])
def test_each_byte_and_the_end_cost_the_same(token: bytes) -> None:
    # 257 symbols, so log2(257) = 8.005625 bits each
    assert ByteSpeller().log_prob(token) / -math.log(2) == pytest.approx(8.005624549 * (len(token) + 1))


def test_all_spellings_up_to_a_length_have_what_is_not_left_to_the_longer_ones() -> None:
    # A spelling is longer than n bytes where n + 1 symbols in a row are bytes: (256/257)^(n+1).
    total = sum(256**n * math.exp(ByteSpeller().log_prob(bytes(n))) for n in range(51))
    assert total == pytest.approx(1 - float(Fraction(256, 257) ** 51), rel=1e-9)
