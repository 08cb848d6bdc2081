"""Units against hand arithmetic on made-up tokens and scores, and against the whole document."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.evaluation.surprisal import By, Units, units
from chainrule.evaluation.token_scores import TokenLogProbs, score_tokens
from chainrule.protocol import END
from chainrule.text.tokenization.detokenizer import Alignment
from chainrule.text.tokenization.vocabulary import byte_array

UNKNOWN_AT = 2


def made(documents: list[list[str]]) -> tuple[np.ndarray, TokenLogProbs, Alignment]:
    """Tokens that make up the text without gaps; token i costs 2^i, and the third is unknown and costs 100 more."""
    ids, pieces = [], []
    for document in documents:
        ids += [3] * len(document) + [END]
        pieces += [*(piece.encode() for piece in document), b"\n"]
    stops = np.cumsum([len(piece) for piece in pieces])
    closed = -(2.0 ** np.arange(len(ids)))
    spelling = np.where(np.arange(len(ids)) == UNKNOWN_AT, -100.0, 0.0)
    scored = TokenLogProbs(closed, np.zeros(len(ids)), spelling, spelling < 0)
    return np.array(ids), scored, Alignment(byte_array(b"".join(pieces)), np.append(0, stops[:-1]), stops)


def shown(made_up: tuple[np.ndarray, TokenLogProbs, Alignment], by: By) -> list[list[tuple[str, float]]]:
    """By document, each unit's text and cost."""
    found, text = units(*made_up, by), made_up[2].text.tobytes()
    rows = [
        (text[start:stop].decode(), -cost)
        for start, stop, cost in zip(found.starts, found.stops, found.closed.tolist(), strict=True)
    ]
    return [rows[a:b] for a, b in zip(found.documents[:-1], found.documents[1:], strict=True)]


def test_tokens_are_themselves() -> None:
    assert shown(made([["a", " b"], []]), "tokens") == [[("a", 1), (" b", 2), ("\n", 4)], [("\n", 8)]]


def test_pieces_of_a_word_are_added_up_and_white_space_belongs_to_the_next_word() -> None:
    # The tokens cost 1, 2, 4, ...: "un" " " "known" is 1 for "un"; "known" pays for the space before it.
    assert shown(made([["un", "know", "n", " wor", "d"]]), "words") == [[("unknown", 7), ("word", 24), ("\n", 32)]]
    assert shown(made([["a", " ", " ", "b"]]), "words") == [[("a", 1), ("b", 2 + 4 + 8), ("\n", 16)]]
    assert shown(made([["a ", "b"]]), "words") == [[("a", 1), ("b", 2), ("\n", 4)]]  # in front of no word


def test_white_space_after_the_last_word_belongs_to_the_end() -> None:
    assert shown(made([["a", "  "], ["  "]]), "words") == [[("a", 1), ("\n", 2 + 4)], [("\n", 8 + 16)]]


def test_a_token_of_several_words_is_charged_to_the_last() -> None:
    assert shown(made([["of the", "m"]]), "words") == [[("of", 0), ("them", 3), ("\n", 4)]]


def test_characters_share_a_token_evenly_by_bytes() -> None:
    # "né" is one token of three bytes that costs 1.
    third = pytest.approx(1 / 3)
    assert shown(made([["né"], ["ab"]]), "characters") == [
        [("n", third), ("é", pytest.approx(2 / 3)), ("\n", 2)],
        [("a", 2), ("b", 2), ("\n", 8)],
    ]


def test_bytes_share_a_token_evenly() -> None:
    found = units(*made([["né"], ["ab"]]), "bytes")
    assert found.closed.tolist() == pytest.approx([-1 / 3] * 3 + [-2, -2, -2, -8])
    assert found.stops.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert found.documents.tolist() == [0, 4, 7]


def test_characters_of_several_tokens_add_up() -> None:
    ids, scored, aligned = made([["x", "x", "y"]])
    text = byte_array("éy\n".encode())  # a token for each byte
    found = units(ids, scored, Alignment(text, aligned.starts, aligned.stops), "characters")
    assert found.closed.tolist() == [-(1 + 2), -4, -8]
    assert found.total.tolist() == [-(1 + 2), -104, -8]
    assert found.unknown.tolist() == [False, True, False]


def test_unknown_tokens_mark_their_word() -> None:
    found = units(*made([["a", " b", "c", " d"]]), "words")
    assert found.unknown.tolist() == [False, True, False, False]
    assert found.total.tolist() == [-1, -106, -8, -16]


@pytest.fixture(scope="module", params=["whitespace", "word", "character", "byte"])
def model(request: pytest.FixtureRequest) -> chainrule.Model:
    lines = chainrule.Lines(["the cat (sat) on", "the mat's naïve", "", "日本 the cat"])
    return chainrule.train(lines, chainrule.NGramConfig(order=2), tokenizer=request.param)


@given(st.lists(st.text("theca t\té日(\x00", max_size=12), min_size=1, max_size=4))
def test_the_units_of_a_document_add_up_to_it_whatever_the_tokenizer(model: chainrule.Model, texts: list[str]) -> None:
    encoded = model.tokenizer.encode_texts(texts)
    scored, aligned = (
        score_tokens(model.language_model, model.speller, encoded),
        model.tokenizer.align(encoded),
    )
    whole = units(encoded.ids, scored, aligned, "tokens")
    for by in ("words", "characters"):
        found = units(encoded.ids, scored, aligned, by)
        assert len(found.documents) == len(texts) + 1
        for column in ("closed", "total"):
            np.testing.assert_allclose(by_document(found, column), by_document(whole, column), rtol=1e-9)
        assert (found.starts[1:] >= found.stops[:-1]).all()


def by_document(found: Units, column: str) -> list[float]:
    values = getattr(found, column).tolist()
    spans = zip(found.documents[:-1], found.documents[1:], strict=True)
    return [math.fsum(values[start:stop]) for start, stop in spans]
