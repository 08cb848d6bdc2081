"""Cutting chunk by chunk gives the pieces that cutting whole documents gives."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples
from subword_files import LINES, changed, file_bytes

from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization import subword as chunks
from chainrule.text.tokenization.splitters import character_classes
from chainrule.text.tokenization.subword import Chunks, Subword
from chainrule.text.tokenization.subword_training import train_subword
from chainrule.text.tokenization.tokenizer_kernels import cut_at_spaces

PARTS = [" ", " ", "  ", "the", "cat", "'s", "'", "don't", "3", ".", "\n", "\t", "\r", "\0", "\x1c", "\x85"]
PARTS += [
    "\N{NO-BREAK SPACE}",
    "\N{IDEOGRAPHIC SPACE}",
    "\u2028",
    "\u0301",
    "é",
    "日",
    "😀",
    "<s>",
    "<unk>",
    "[UNK]",
    "zoë",
]
PARTS += ["¨", "ﱞ", "½", "CAT", "É", "e\u0301", "\u0345"]
texts = st.lists(st.sampled_from(PARTS) | st.characters(exclude_categories=["Cs"]), max_size=25).map("".join)


@cache
def learned(kind: str) -> Subword:
    return train_subword(kind, lambda: [LINES * 2], 300)


def joined(documents: list[str]) -> np.ndarray:
    return byte_array(b"".join(document.encode() + b"\xff" for document in documents))


def whole(subword: Subword, documents: list[str]) -> bytes:
    return b"".join(part.tobytes() for part in subword.write([document.encode() for document in documents]))


@cache
def brought(kind: str) -> Subword:
    if kind == "bert":
        return Subword(file_bytes("bert"), kind)
    steps = [{"type": "NFKC"}, {"type": "Lowercase"}]
    normaliser = {"type": "Sequence", "normalizers": steps}
    return Subword(changed("gpt2", added_tokens=[], normalizer=normaliser), kind)


def made(kind: str) -> Subword:
    return brought(kind) if kind in ("bert", "normalised gpt2") else learned(kind)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "bert", "normalised gpt2"])
@examples(3)
@given(st.lists(texts, max_size=4))
@example(["a  b", " a ", "a 's b", "a \N{NO-BREAK SPACE}b", "the\N{NO-BREAK SPACE} cat", "\n \n", " ", ""])
@example(["<s> <unk> </s>", "\x1c a", "zoë zoë  zoë"])
def test_chunk_by_chunk_is_as_the_whole(kind: str, documents: list[str]) -> None:
    assert made(kind)._chunks is not None
    assert made(kind).rewrite(joined(documents), 0xFF).tobytes() == whole(made(kind), documents)


def test_files_that_do_more_than_cut_words_are_given_whole_documents() -> None:
    for name, parts, expected in [
        ("gpt2", {}, False),  # it has tokens of its own that reach over spaces
        ("gpt2", {"added_tokens": []}, True),
        ("gpt2", {"added_tokens": [], "normalizer": {"type": "NFD"}}, False),
        ("bert", {}, True),
        ("llama", {}, False),
        ("t5", {}, False),
    ]:
        assert (Subword(changed(name, **parts), name)._chunks is not None) == expected
    assert Subword(file_bytes("words"), "words")._chunks is None


def test_what_was_cut_once_is_not_cut_again_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[bytes]] = []

    def cut(texts: list[bytes]) -> list[np.ndarray]:
        asked.append(texts)
        return [byte_array(b"".join(text.strip().replace(b"", b" ").strip() + b"\n" for text in texts))]

    cutter = Chunks(cut)
    assert cutter.rewrite(joined(["ab cd", "ab  cd cd"]), 0xFF).tobytes() == b"a b c d\na b     c d c d\n"
    assert asked == [[b"ab", b" cd", b"ab  cd"]]
    cutter.rewrite(joined(["ab cd", ""]), 0xFF)
    assert len(asked) == 1
    monkeypatch.setattr(chunks, "REMEMBERED", 1)
    assert cutter.rewrite(joined(["ab"]), 0xFF).tobytes() == b"a b\n"
    assert asked[1:] == [[b"ab"]]


def test_threads_may_share_a_tokenizer() -> None:
    subword = train_subword("bpe", lambda: [LINES], 300)
    texts = [[f"the {i * j} cats {word}" for i in range(300)] for j, word in enumerate(("low", "newer", "mat", "é"))]
    found: list[bytes] = [b""] * len(texts)

    def work(i: int) -> None:
        found[i] = subword.rewrite(joined(texts[i]), 0xFF).tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [whole(subword, documents) for documents in texts]


@examples(4)
@given(st.binary(max_size=30))
@example(b"a b c d")
def test_the_kernel_stays_within_the_room_that_it_asks_for(data: bytes) -> None:
    text = byte_array(data + b"\xff")
    out = np.full(3 * text.size + 64, 0xA5, np.uint8)
    assert cut_at_spaces(text, 0xFF, character_classes(), out[: 3 * text.size]) <= 3 * text.size
    assert (out[3 * text.size :] == 0xA5).all()
