"""Normalisation against unicodedata, document by document."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.errors import SettingError
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.splitters import Normaliser
from chainrule.text.tokenization.tokenizer import Tokenizer

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text("aÅA\u030aşΣσİK½ﬁ가\u1100\u1161\u0301\n ", max_size=20),
)
STEPS = [(), ("nfc",), ("nfkc",), ("lower",), ("nfc", "lower"), ("nfkc", "lower")]


def normalised(steps: tuple[str, ...], documents: list[str], end: int) -> list[str]:
    joined = b"".join(document.encode() + bytes([end]) for document in documents)
    parts = Normaliser(steps)(byte_array(joined), end).tobytes().split(bytes([end]))  # type: ignore[arg-type]
    assert parts.pop() == b""
    return [part.decode() for part in parts]


def naive(steps: tuple[str, ...], text: str) -> str:
    for step in (*steps, *steps):
        text = text.lower() if step == "lower" else unicodedata.normalize(step.upper(), text)
    return text


@pytest.mark.parametrize("steps", STEPS)
@given(st.lists(texts, max_size=4))
@example(["\u0301a", "\u0301", "ΑΣ", "Σ"])
@example(["PLAIN Text", ""])
def test_each_document_is_normalised_by_itself_and_only_once(steps: tuple[str, ...], documents: list[str]) -> None:
    expected = [naive(steps, document) for document in documents]
    assert normalised(steps, documents, 0xFF) == expected
    assert normalised(steps, expected, 0xFF) == expected
    lines = [document.replace("\n", " ") for document in documents]
    assert normalised(steps, lines, 10) == [naive(steps, line) for line in lines]


def test_the_order_in_which_steps_are_named_does_not_matter() -> None:
    assert Normaliser(("lower", "nfc")) == Normaliser(("nfc", "lower"))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (("nfd",), "no normalisation called 'nfd'; choose among nfc, nfkc, lower"),
        (("lower", "lower"), "named twice"),
        (("nfc", "nfkc"), "choose one"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Normaliser(steps)  # type: ignore[arg-type]


def test_a_tokenizer_normalises_what_it_encodes_and_says_so() -> None:
    tokenizer = Tokenizer.untrained("word", normaliser=Normaliser(("nfc", "lower")))
    grown = tokenizer.encode(byte_array("Caf\u0065\u0301 ÉTÉ\n".encode()), grow=True)
    assert tokenizer.decode(grown.ids) == "café été\n"
    assert tokenizer.encode_texts(["CAFÉ e\u0301te\u0301"]).ids.tolist() == grown.ids.tolist()
    assert tokenizer.align(grown).text.tobytes().decode() == "café été\n"
    assert tokenizer.loses == "spaces,joiners,nfc,lower"
    assert tokenizer.with_markers("skip").loses == tokenizer.loses
    assert Tokenizer.untrained("byte").loses == "nothing"
