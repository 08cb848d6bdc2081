"""Tokens back to text, against string methods; and where each token stands in it."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.detokenizer import Alignment, join_tokens, meanings_of, space_tokens
from chainrule.text.tokenization.tokenizer_kernels import restore_joined, restore_spaced

MARK = "￭"
tokens = st.lists(st.text(f"ab{MARK}é日😀#", min_size=1, max_size=4), max_size=5)
documents = st.lists(tokens, max_size=4)


def written(documents: list[list[str]]) -> str:
    return "".join(" ".join(document) + "\n" for document in documents)


def pieces(alignment: Alignment) -> list[str]:
    text = alignment.text.tobytes()
    return [
        text[start:stop].decode()
        for start, stop in zip(alignment.starts.tolist(), alignment.stops.tolist(), strict=True)
    ]


def flat(documents: list[list[str]]) -> list[str]:
    return [token for document in documents for token in [*document, "\n"]]


def bared(token: str) -> str:
    """Without one mark at each end."""
    token = token.removeprefix(MARK)
    return token.removesuffix(MARK)


@given(documents)
@example([["￭"], ["￭￭", "￭"], []])
def test_words_are_joined_where_a_mark_stands(documents: list[list[str]]) -> None:
    found = space_tokens(byte_array(written(documents).encode()), before=MARK, after=MARK)
    lines = []
    for document in documents:
        line = ""
        for left, right in itertools.pairwise(["", *document]):
            touches = not left or right.startswith(MARK) or left.removeprefix(MARK).endswith(MARK)
            line += ("" if touches else " ") + bared(right)
        lines.append(line + "\n")
    assert found.text.tobytes().decode() == "".join(lines)
    assert pieces(found) == [bared(token) for token in flat(documents)]


@given(documents)
def test_without_marks_tokens_are_given_back_as_they_are(documents: list[list[str]]) -> None:
    found = space_tokens(byte_array(written(documents).encode()))
    assert found.text.tobytes().decode() == written(documents)
    assert pieces(found) == flat(documents)


@given(documents)
def test_joined_tokens_stand_side_by_side_and_characters_have_the_meanings_given(documents: list[list[str]]) -> None:
    found = join_tokens(byte_array(written(documents).encode()), meanings_of({"é": 0xE9, "日": 32, "a": 65}))
    changed = {ord("é"): "\udce9", ord("日"): " ", ord("a"): "A"}
    expected = [token.translate(changed).encode("utf-8", "surrogateescape") for token in flat(documents)]
    assert found.text.tobytes() == b"".join(expected)
    edges = [0, *itertools.accumulate(map(len, expected))]
    assert found.starts.tolist() == edges[:-1]
    assert found.stops.tolist() == edges[1:]


def test_the_last_newline_may_be_missing() -> None:
    assert pieces(space_tokens(byte_array(b"a b\nc"))) == ["a", "b", "\n", "c"]
    assert pieces(join_tokens(byte_array(b"a b\nc"), meanings_of({"x": 0}))) == ["a", "b", "\n", "c"]


def test_a_documents_first_space_may_have_been_put_there_by_the_tokenizer() -> None:
    tokens, meanings = byte_array("▁ ▁a\n▁b ▁\n▁\nc ▁\n".encode()), meanings_of({"▁": 32})
    assert pieces(join_tokens(tokens, meanings)) == [" ", " a", "\n", " b", " ", "\n", " ", "\n", "c", " ", "\n"]
    dropped = join_tokens(tokens, meanings, drops_space=True)
    assert pieces(dropped) == ["", " a", "\n", "b", " ", "\n", "", "\n", "c", " ", "\n"]


def test_tokens_may_name_bytes() -> None:
    tokens = byte_array(b"<0xC3> <0xA9> <0x0A> <0xA <0x0a> x<0x41> <0x411>\n<0x20>")
    found = join_tokens(tokens, meanings_of({"A": 65}), names_bytes=True, drops_space=True)
    assert found.text.tobytes() == b"\xc3\xa9\n<0xA<0x0a>x<0x41><0x411>\n "
    assert found.starts.tolist() == [0, 1, 2, 3, 7, 13, 20, 27, 28]
    assert join_tokens(tokens, meanings_of({"A": 65})).text.tobytes() == tokens.tobytes().replace(b" ", b"")


@pytest.mark.parametrize("room", [0, 1, 64])
@given(st.binary(max_size=30))
def test_whatever_the_bytes_a_kernel_stays_in_its_arrays(room: int, data: bytes) -> None:
    text, guard = byte_array(data), 0xA5
    for kernel, extra in (
        (restore_spaced, (byte_array(MARK.encode()), byte_array(b"#"))),
        (restore_joined, (np.array([-1] * 40 + [7], np.int16), True, True)),
    ):
        out, starts, stops = (np.full(text.size + room, guard, type_) for type_ in (np.uint8, np.int64, np.int64))
        size, count = kernel(text, *extra, out[: text.size], starts[: text.size], stops[: text.size])
        assert size <= text.size
        assert count <= text.size
        assert all((array[text.size :] == guard).all() for array in (out, starts, stops))
