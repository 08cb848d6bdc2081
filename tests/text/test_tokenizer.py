"""Text to ids and back."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import examples

from chainrule.base import threads as base_threads
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.corpus import Lines
from chainrule.text.tokenization.tokenizer import Tokenizer, documents_of, encode_stream
from chainrule.text.tokenization.vocabulary import MarkerError

KINDS = ["whitespace", "word", "character", "byte"]
PARTS = ["a", "b'c", " ", "\n", "\r\n", "(", "￭", "␠", "3.1", "日本", "é", "\u0301"]
texts = st.one_of(
    st.text(max_size=40),  # with lone surrogates, as the operating system hands them out
    st.lists(st.sampled_from(PARTS)).map("".join),
).filter(lambda text: not re.search("</?s>|<unk>", text))
ids = st.lists(st.integers(3, 9) | st.just(UNKNOWN), max_size=6).map(lambda row: np.array(row, np.int32))


def normalised(kind: str, text: str) -> str:
    """What each tokenizer says that it gives back."""
    text = "".join("?" if "\ud800" <= character <= "\udfff" else character for character in text)
    if kind == "byte":
        return text
    if kind == "character":
        return re.sub("[\u2400-\u2420]", "\ufffd", text)
    if kind == "whitespace":
        return " ".join(re.findall("[^\0\t\n\r ]+", text))
    return " ".join(text.replace("\0", " ").replace("￭", "\ufffd").split())


@pytest.mark.parametrize("kind", KINDS)
@examples(4)
@given(st.lists(texts, max_size=4))
@example(["a\ud800b"])
@example(["", "", "a"])
def test_decoding_gives_the_normalised_text_back(kind: str, documents: list[str]) -> None:
    tokenizer = Tokenizer.untrained(kind)
    joined = b"".join(text.encode("utf-8", "replace") + b"\xff" for text in documents)
    grown = tokenizer.encode(byte_array(joined), document_end=0xFF, grow=True)
    expected = "".join(normalised(kind, text) + "\n" for text in documents)
    assert tokenizer.decode(grown.ids) == expected
    again = tokenizer.encode_texts(documents)
    assert again.ids.tolist() == grown.ids.tolist()
    parts = documents_of(again.ids)
    assert [tokenizer.decode(part) for part in parts] == [normalised(kind, text) for text in documents]


def test_a_document_may_hold_newlines_where_texts_are_given_one_by_one() -> None:
    tokenizer = Tokenizer.untrained("whitespace")
    tokenizer.encode(byte_array(b"a b c\n"), grow=True)
    assert tokenizer.encode_texts(["a\nb", "", "c\n\n"]).ids.tolist() == [3, 4, END, END, 5, END]
    assert tokenizer.encode(byte_array(b"a\nb\n\nc\n")).ids.tolist() == [3, END, 4, END, END, 5, END]


def test_a_newline_inside_a_document_is_a_character_like_any_other_to_the_character_tokenizer() -> None:
    tokenizer = Tokenizer.untrained("character")
    tokenizer.encode(byte_array(b"a\n\xff"), document_end=0xFF, grow=True)
    assert tokenizer.vocabulary.tokens()[3:] == [b"a", "␊".encode()]
    assert tokenizer.encode_texts(["\na"]).ids.tolist() == [4, 3, END]
    assert tokenizer.decode([3, 4, 3, END]) == "a\na\n"


def test_what_no_text_was_given_for_has_no_tokens() -> None:
    assert Tokenizer.untrained().encode_texts([]).ids.tolist() == []


def test_the_surface_of_an_unknown_token_is_what_stood_in_the_text() -> None:
    encoded = Tokenizer.untrained("word").encode_texts(["Größe, 日"])
    assert encoded.ids.tolist() == [UNKNOWN, UNKNOWN, UNKNOWN, END]
    assert [encoded.surface(i).decode() for i in range(4)] == ["Größe", "￭,", "日", ""]


def test_a_marker_in_a_text_is_an_error_that_counts_texts_not_newlines() -> None:
    with pytest.raises(MarkerError, match="line 2: <s> occurs"):
        Tokenizer.untrained("word").encode_texts(["a\nb\nc", "d <s>"])


def test_markers_are_markers_to_the_word_tokenizer_only_between_white_space() -> None:
    tokenizer = Tokenizer.untrained("word")
    tokenizer.encode(byte_array(b"x<s> <s>, (</s>) <unk>x\n"), grow=True)
    assert tokenizer.decode(tokenizer.encode_texts(["x<s> <s>, (</s>) <unk>x"]).ids[:-1]) == "x<s> <s>, (</s>) <unk>x"


def test_markers_are_only_letters_to_the_character_tokenizer() -> None:
    tokenizer = Tokenizer.untrained("character")
    tokenizer.encode(byte_array(b"<unk> <s> </s>\n"), grow=True)
    assert tokenizer.decode(tokenizer.encode_texts(["<unk> <s> </s>"]).ids[:-1]) == "<unk> <s> </s>"


def test_an_id_that_is_no_token_cannot_be_decoded() -> None:
    with pytest.raises(SettingError, match="no token 3"):
        Tokenizer.untrained().decode([3])


@pytest.mark.parametrize(("kind", "markers", "named"), [("words", "error", "words"), ("word", "sikp", "sikp")])
def test_a_misspelt_choice_is_refused_by_its_name(kind: str, markers: str, named: str) -> None:
    with pytest.raises(SettingError, match=f"'{named}'; choose one of"):
        Tokenizer.untrained(kind, markers)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(ids, max_size=6))
@example([])
@example([np.empty(0, np.int32)])
def test_a_stream_is_its_documents_each_with_its_end(documents: list[np.ndarray]) -> None:
    stream = np.array([token for document in documents for token in [*document.tolist(), END]], np.int32)
    assert [part.tolist() for part in documents_of(stream)] == [document.tolist() for document in documents]


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(texts, max_size=4), st.integers(0, 4))
@example(["a b ￭", "", "日本, 3.1"], 1)
def test_tokens_are_aligned_with_the_normalised_text(kind: str, documents: list[str], known: int) -> None:
    tokenizer = Tokenizer.untrained(kind)
    joined = b"".join(text.encode("utf-8", "replace") + b"\xff" for text in documents[:known])
    tokenizer.encode(byte_array(joined), document_end=0xFF, grow=True)
    encoded = tokenizer.encode_texts(documents)
    found = tokenizer.align(encoded)
    text = found.text.tobytes()
    assert text.decode() == "".join(normalised(kind, document) + "\n" for document in documents)
    assert found.starts.size == found.stops.size == encoded.ids.size
    gaps = zip([0, *found.stops.tolist()], found.starts.tolist(), strict=False)
    assert all(text[stop:start] in (b"", b" ") for stop, start in gaps)
    assert (found.stops > found.starts).all()
    ends = found.starts[encoded.ids == END].tolist()
    lengths = [len(normalised(kind, document).encode()) + 1 for document in documents]
    assert [end + 1 for end in ends] == np.cumsum(lengths, dtype=int).tolist()
    for token, start, stop in zip(encoded.ids.tolist(), found.starts.tolist(), found.stops.tolist(), strict=True):
        if token > END:
            assert tokenizer.restore(tokenizer.vocabulary.token_bytes(token)) == text[start:stop]


@pytest.mark.parametrize("name", KINDS)
@given(documents=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_documents_that_hold_newlines_encode_as_those_texts(name: str, documents: list[str]) -> None:
    tokenizer = Tokenizer.untrained(name, "skip")
    end = bytes([NEVER_IN_UTF8])
    text = byte_array(b"".join(document.encode() + end for document in documents))
    block = Block(text, "records.jsonl", 1, NEVER_IN_UTF8, "record")
    assert block.documents() == documents
    ids = tokenizer.encode_block(block, grow=True).ids
    assert ids.tolist() == tokenizer.encode_texts(documents).ids.tolist()
    assert np.count_nonzero(ids == END) == len(documents)


@pytest.mark.parametrize(
    ("end", "unit", "place"),
    [
        (10, "line", "the source, line 42"),
        (NEVER_IN_UTF8, "row", "the source, row 41"),
        (NEVER_IN_UTF8, "", "the source"),
    ],
)
def test_an_error_about_a_marker_in_a_block_names_the_line_or_row(end: int, unit: str, place: str) -> None:
    text = byte_array(b"a\nb <s>" + bytes([end]))
    with pytest.raises(MarkerError, match=f"^{place}: <s> occurs"):
        Tokenizer.untrained("whitespace").encode_block(Block(text, "the source", 41, end, unit))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stream_is_learned_on_threads_as_block_after_block(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_threads, "_threads", threads)
    texts = ["".join(f"a b{i % 7} c{i}\n" for i in range(first, first + 4)) for first in range(0, 40, 4)]
    blocks = [Block(byte_array(text.encode()), "x", 1) for text in texts]

    class Blocks(Lines):
        def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
            yield from blocks

    expected = Tokenizer.untrained("whitespace")
    one_by_one = [token for block in blocks for token in expected.encode_block(block, grow=True).ids.tolist()]
    learner = Tokenizer.untrained("whitespace")
    assert encode_stream(learner, Blocks([]), grow=True).tolist() == one_by_one
    assert learner.vocabulary.tokens() == expected.vocabulary.tokens()
    assert encode_stream(learner, Blocks([])).tolist() == one_by_one


def test_tokens_are_read_by_people() -> None:
    def read(name: str, *tokens: str) -> list[str]:
        return Tokenizer.untrained(name).read_tokens([token.encode() for token in tokens])

    assert read("word", "the", "￭,", "“￭", "￭-￭", "</s>", "<unk>", "a\u200bb") == [
        "the", "￭,", "“￭", "￭-￭", "</s>", "<unk>", "a‹U+200B›b",
    ]  # fmt: skip
    assert read("whitespace", "the", "￭,") == ["the", "￭,"]  # which mark nothing there
    assert read("character", "␠", "␊", "␉", "é", "\u202e") == ["·", "¶", "→", "é", "‹U+202E›"]
    # The bytes of a space, a line end, é and half of it, and a space that does not break: C2 A0.
    assert read("byte", "Ġ", "Ċ", "Ã©", "Ã", "ĠÂł", "") == ["·", "¶", "é", "<C3>", "·⍽", ""]
