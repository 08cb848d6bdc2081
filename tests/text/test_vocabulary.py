"""The vocabulary against a dictionary."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import ModelFormatError, SettingError
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, MarkerError, Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import find_token

MARKERS = [marker.encode() for marker in MARKER_TOKENS]
tokens = st.binary(min_size=1, max_size=12).map(lambda token: token.translate(None, b" \n")).filter(len)
plain = tokens.filter(lambda token: token not in MARKERS)
frequent = st.sampled_from([b"a", b"b", b"ab", b"<", b"<unk>>", "é".encode()])
lines = st.lists(st.lists(frequent | plain, max_size=8), max_size=8)


def text_of(lines: list[list[bytes]]) -> np.ndarray:
    return byte_array(b"".join(b" ".join(line) + b"\n" for line in lines))


def expected_ids(lines: list[list[bytes]], ids: dict[bytes, int], *, grow: bool) -> list[int]:
    """What a dictionary says; it takes in new tokens where it may grow."""
    stream = []
    for line in lines:
        for token in line:
            if grow:
                ids.setdefault(token, len(ids))
            stream.append(ids.get(token, UNKNOWN))
        stream.append(END)
    return stream


def empty_dictionary() -> dict[bytes, int]:
    return {b"<unk>": UNKNOWN, b"<s>": BEGIN, b"</s>": END}


def grown(*tokens: bytes) -> Vocabulary:
    vocabulary = Vocabulary()
    vocabulary.encode(text_of([list(tokens)]), grow=True)
    return vocabulary


def test_ids_follow_the_first_appearance_of_a_token_after_the_three_markers() -> None:
    vocabulary = Vocabulary()
    encoded = vocabulary.encode(byte_array(b"the cat\nsaw the dog\n"), grow=True)
    assert encoded.ids.tolist() == [3, 4, 2, 5, 3, 6, 2]
    assert encoded.starts.tolist() == [0, 4, 7, 8, 12, 16, 19]
    assert [encoded.surface(i) for i in range(7)] == [b"the", b"cat", b"", b"saw", b"the", b"dog", b""]
    assert vocabulary.tokens() == [b"<unk>", b"<s>", b"</s>", b"the", b"cat", b"saw", b"dog"]


@examples(2)
@given(lines, lines, lines)
def test_a_vocabulary_numbers_as_a_dictionary_does(first: list, second: list, unseen: list) -> None:
    vocabulary, ids = Vocabulary(), empty_dictionary()
    for block in (first, second):
        assert vocabulary.encode(text_of(block), grow=True).ids.tolist() == expected_ids(block, ids, grow=True)
    assert vocabulary.tokens() == list(ids)
    assert vocabulary.encode(text_of(unseen)).ids.tolist() == expected_ids(unseen, ids, grow=False)
    assert len(vocabulary) == len(ids)


def test_ids_stay_right_while_the_tables_grow_over_many_blocks() -> None:
    random = np.random.default_rng(5)
    vocabulary, ids = Vocabulary(), empty_dictionary()
    blocks = [
        [[b"%x" % number for number in row] for row in random.zipf(1.2, (50, 100)) % 40_000_000] for _ in range(12)
    ]
    blocks.insert(1, [[b"x" * 70_000, b"y"]])  # longer than all before together
    for block in blocks:
        assert vocabulary.encode(text_of(block), grow=True).ids.tolist() == expected_ids(block, ids, grow=True)
    assert len(ids) > 10_000
    assert vocabulary.tokens() == list(ids)
    for block in blocks:
        assert vocabulary.encode(text_of(block)).ids.tolist() == expected_ids(block, ids, grow=False)


def test_an_unknown_token_is_number_0_and_stays_unknown_until_the_vocabulary_may_grow() -> None:
    vocabulary = grown(b"a")
    assert vocabulary.encode(byte_array(b"a b a\n")).ids.tolist() == [3, UNKNOWN, 3, END]
    assert vocabulary.id_of("b") == UNKNOWN
    assert vocabulary.encode(byte_array(b"a b a\n"), grow=True).ids.tolist() == [3, 4, 3, END]
    assert vocabulary.id_of("b") != UNKNOWN


def test_equal_hashes_never_make_two_tokens_one() -> None:
    spelled = [b"one", b"two", b"six", b"three"]
    pool = byte_array(b"".join(spelled))
    offsets = np.array([0, 3, 6, 9, 14])
    for hashed in (0x0123456700000002, 0xFFFFFFFF0000000F):  # the second makes the search go round the end of the table
        slots = np.zeros(16, np.uint64)
        for token in range(len(spelled)):
            found, slot = find_token(pool, offsets[token], offsets[token + 1], np.uint64(hashed), slots, pool, offsets)
            assert found == -1
            assert slots[slot] == 0
            slots[slot] = hashed & 0xFFFFFFFF00000000 | token + 1
        for token in range(len(spelled)):
            found, _ = find_token(pool, offsets[token], offsets[token + 1], np.uint64(hashed), slots, pool, offsets)
            assert found == token
        for absent in (b"on", b"ones", b"onf", b"thre"):
            assert find_token(byte_array(absent), 0, len(absent), np.uint64(hashed), slots, pool, offsets)[0] == -1


def test_a_different_upper_half_of_the_hash_is_a_different_token() -> None:
    pool, offsets = byte_array(b"one"), np.array([0, 3])
    slots = np.zeros(16, np.uint64)
    slots[2] = 0x0000000700000001
    assert find_token(pool, 0, 3, np.uint64(0x0000000700000002), slots, pool, offsets)[0] == 0
    assert find_token(pool, 0, 3, np.uint64(0x0000000800000002), slots, pool, offsets) == (-1, 3)


@pytest.mark.parametrize("marker", MARKER_TOKENS)
@pytest.mark.parametrize("grow", [False, True])
def test_a_literal_marker_is_an_error_that_names_it_and_its_line(marker: str, grow: bool) -> None:
    text = byte_array(f"a b\n\nc {marker} d\n{marker}\n".encode())
    with pytest.raises(MarkerError, match=rf"^the text, line 3: {re.escape(marker)} ") as caught:
        Vocabulary().encode(text, grow=grow)
    assert (caught.value.marker, caught.value.document) == (marker, 3)
    assert str(caught.value.at("corpus.txt, line 103")).startswith(f"corpus.txt, line 103: {marker} ")


def test_a_vocabulary_is_usable_after_a_marker_stopped_it() -> None:
    vocabulary = Vocabulary()
    with pytest.raises(MarkerError):
        vocabulary.encode(byte_array(b"a b <s> c\n"), grow=True)
    assert vocabulary.encode(byte_array(b"c b a\n"), grow=True).ids.tolist() == [5, 4, 3, END]


def test_literal_markers_vanish_where_they_are_to_be_skipped() -> None:
    encoded = Vocabulary().encode(byte_array(b"a <s> b\n</s>\n<unk> c\n"), markers="skip", grow=True)
    assert encoded.ids.tolist() == [3, 4, END, END, 5, END]
    assert [encoded.surface(i) for i in range(6)] == [b"a", b"b", b"", b"", b"c", b""]


def test_a_literal_unk_counts_as_the_unknown_word_where_markers_are_kept() -> None:
    encoded = Vocabulary().encode(byte_array(b"a <s> b\n</s>\n<unk> c\n"), markers="keep", grow=True)
    assert encoded.ids.tolist() == [3, 4, END, END, UNKNOWN, 5, END]


@examples(2)
@given(lines, lines)
def test_arrays_make_the_same_vocabulary_which_can_still_grow(first: list, second: list) -> None:
    vocabulary, ids = Vocabulary(), empty_dictionary()
    expected_ids(first, ids, grow=True)
    vocabulary.encode(text_of(first), grow=True)
    arrays = {name: array.copy() for name, array in vocabulary.arrays().items()}
    again = Vocabulary.from_arrays(**arrays)
    assert again.tokens() == list(ids)
    assert again.encode(text_of(second), grow=True).ids.tolist() == expected_ids(second, ids, grow=True)
    assert again.tokens() == list(ids)
    rebuilt = Vocabulary(list(ids)[3:])  # whatever way it grew
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, rebuilt.arrays()[name])
    for name, array in vocabulary.arrays().items():  # growing left the arrays that were given as they were
        np.testing.assert_array_equal(array, arrays[name])


def good_arrays() -> tuple[np.ndarray, np.ndarray]:
    return byte_array(b"<unk><s></s>abc"), np.array([0, 5, 8, 12, 13, 14, 15])


@pytest.mark.parametrize(
    "offsets",
    [
        [],
        [0],
        [0, 5, 8],  # without </s>
        [1, 5, 8, 12, 13, 14, 15],  # does not begin at 0
        [0, 5, 8, 12, 13, 14],  # ends too early
        [0, 5, 8, 12, 13, 14, 16],  # and too late
        [0, 5, 8, 12, 13, 13, 15],  # an empty token
        [0, 5, 8, 12, 14, 13, 15],  # falls
        [0, 5, 8, 12, -1, 14, 15],
        [0, 5, 8, 12, 2**62, 14, 15],
        [0, 2**62, 8, 12, 13, 14, 15],
        [0, 4, 8, 12, 13, 14, 15],  # the markers are others
        [-(2**63), 5, 8, 12, 13, 14, 15],
    ],
)
def test_offsets_that_contradict_the_text_are_a_format_error(offsets: list[int]) -> None:
    with pytest.raises(ModelFormatError, match="the vocabulary"):
        Vocabulary.from_arrays(good_arrays()[0], np.array(offsets, np.int64))


@pytest.mark.parametrize(
    "damaged",
    [
        (good_arrays()[0], good_arrays()[1].astype(np.float64)),
        (good_arrays()[0], good_arrays()[1].astype(np.int32)),
        (good_arrays()[0], good_arrays()[1].reshape(1, -1)),
        (good_arrays()[0], np.array(0)),
        (good_arrays()[0].astype(np.float32), good_arrays()[1]),
        (good_arrays()[0].reshape(3, 5), good_arrays()[1]),
        (byte_array(b"<unk><S></s>abc"), good_arrays()[1]),
        (byte_array(b""), np.array([0])),
    ],
)
def test_vocabulary_arrays_of_another_kind_are_a_format_error(damaged: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ModelFormatError, match="the vocabulary"):
        Vocabulary.from_arrays(*damaged)


@examples(4)
@given(st.lists(plain, unique=True, max_size=6), st.data())
def test_damaged_arrays_are_a_format_error_or_some_vocabulary_that_works(
    spelled: list[bytes], data: st.DataObject
) -> None:
    arrays = Vocabulary(spelled).arrays()
    text, offsets = arrays["text"].copy(), arrays["offsets"].copy()
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, offsets.size - 1))
            offsets[place] = data.draw(st.integers(-2, text.size + 2) | st.integers(-(2**63), 2**63 - 1))
        else:
            text[data.draw(st.integers(0, text.size - 1))] = data.draw(st.integers(0, 255))
    try:
        vocabulary = Vocabulary.from_arrays(text, offsets)
    except ModelFormatError:
        return
    known = vocabulary.tokens()
    assert b"".join(known) == text.tobytes()
    assert len(set(known)) == len(known) == len(vocabulary)
    assert known[:3] == MARKERS


@pytest.mark.parametrize("slots", [np.zeros(512, np.uint64), np.zeros(1024, np.int64), np.zeros((2, 512), np.uint64)])
def test_a_hash_table_of_another_kind_is_a_format_error(slots: np.ndarray) -> None:
    with pytest.raises(ModelFormatError, match=r"the vocabulary's hash table is .*, expected 1024 of uint64"):
        Vocabulary.from_arrays(*good_arrays(), slots)


@examples(2)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2**32 - 1, 2**64 - 1]), st.floats(0, 1))
def test_a_damaged_hash_table_gives_ids_of_the_vocabulary(seed: int, odd: int, share: float) -> None:
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary([b"%d" % i for i in range(400)])
    arrays = vocabulary.arrays()
    slots = arrays["slots"].copy()
    damaged = random.random(slots.size) < share
    ids = random.integers(0, 1000, slots.size).astype(np.uint64)
    whole = slots & np.uint64(0xFFFFFFFF00000000) | ids  # the right hash, any id
    slots[damaged] = np.where(random.random(slots.size) < 0.5, whole, np.uint64(odd))[damaged]
    if slots.all():
        with pytest.raises(ModelFormatError, match="no empty slot"):
            Vocabulary.from_arrays(arrays["text"], arrays["offsets"], slots)
        return
    text = byte_array(b" ".join(b"%d" % i for i in range(800)) + b"\n")
    found = Vocabulary.from_arrays(arrays["text"], arrays["offsets"], slots).encode(text)
    right = vocabulary.encode(found.text).ids
    assert np.all((found.ids == right) | (found.ids == UNKNOWN))


def test_a_token_that_is_there_twice_is_a_format_error_that_names_it() -> None:
    with pytest.raises(ModelFormatError, match="'ab' twice"):
        Vocabulary.from_arrays(byte_array(b"<unk><s></s>abcab"), np.array([0, 5, 8, 12, 14, 15, 17]))
    with pytest.raises(ModelFormatError, match="'<s>' twice"):
        Vocabulary([b"a", b"<s>"])


def test_tokens_have_ids_and_ids_have_spellings() -> None:
    vocabulary = grown(b"a", "é".encode(), "日本".encode())
    assert [vocabulary.id_of(token) for token in ["<unk>", "<s>", "</s>", "a", "é", "日本"]] == [0, 1, 2, 3, 4, 5]
    assert [vocabulary.token(token) for token in range(6)] == ["<unk>", "<s>", "</s>", "a", "é", "日本"]
    assert vocabulary.token_bytes(5) == "日本".encode()


@pytest.mark.parametrize("token", ["b", "", " ", "a a", "a\n", "\n", "日", "\ud800", "a\0", "A"])
def test_what_is_no_token_is_unknown(token: str) -> None:
    vocabulary = grown(b"a", b"?", "日本".encode())
    assert vocabulary.id_of(token) == UNKNOWN


@pytest.mark.parametrize("token", [-1, 4, 2**40])
def test_an_id_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(SettingError, match=rf"no token {token}: the vocabulary has 4"):
        grown(b"a").token(token)


def test_a_token_whose_bytes_are_no_utf8_is_shown_with_a_replacement() -> None:
    assert Vocabulary([b"a\xff"]).token(3) == "a\ufffd"


@examples(2)
@given(st.binary(max_size=60))
@example(b"  a  b \n\n ")
def test_any_bytes_between_spaces_and_newlines_are_tokens(data: bytes) -> None:
    data += b"\n"
    vocabulary = Vocabulary()
    encoded = vocabulary.encode(byte_array(data), markers="keep", grow=True)
    found = [encoded.surface(i) for i in range(encoded.ids.size)]
    expected = [token for line in data.split(b"\n")[:-1] for token in [*filter(None, line.split(b" ")), b""]]
    assert found == [token for token in expected if token not in (b"<s>", b"</s>")]
    assert vocabulary.tokens() == MARKERS + [token for token in dict.fromkeys(found) if token and token not in MARKERS]


@given(st.lists(plain, unique=True, max_size=40), st.lists(plain, unique=True, max_size=40))
def test_absorbing_another_vocabulary_returns_the_new_ids(first: list[bytes], second: list[bytes]) -> None:
    vocabulary, other = Vocabulary(first), Vocabulary(second)
    mapping = vocabulary.absorb(other)
    assert vocabulary.tokens()[3:] == [*first, *(token for token in second if token not in first)]
    assert [vocabulary.token_bytes(token) for token in mapping.tolist()] == other.tokens()


def test_absorbing_makes_room_as_often_as_it_has_to() -> None:
    words = [f"word{i}".encode() for i in range(30_000)]
    vocabulary = Vocabulary([b"mine"])
    assert vocabulary.absorb(Vocabulary(words)).tolist() == [0, 1, 2, *range(4, 30_004)]
    assert vocabulary.tokens()[3:] == [b"mine", *words]
    assert vocabulary.id_of("word29999") == 30_003


@given(st.lists(st.lists(plain, max_size=5), min_size=1, max_size=6))
def test_the_place_of_every_token_is_known(lines: list[list[bytes]]) -> None:
    text = text_of(lines)
    encoded = Vocabulary().encode(text, markers="keep", grow=True)
    assert encoded.starts.size == encoded.ids.size
    surfaces = [token for line in lines for token in [*line, b""]]
    assert [encoded.surface(i) for i in range(encoded.ids.size)] == surfaces
    assert np.all(text[encoded.starts[encoded.ids == END]] == ord("\n"))
