"""The arrays of log-probabilities in answers, beside plain loops and Python's own json."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from chainrule.features.serve.generation.tokens import TokenNames, TokenRows, json_bytes, token_arrays
from chainrule.text.tokenization.splitters import splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENS = [
    b"a",
    b'"',
    b"\\",
    b"\x01",
    b"\x7f",
    "é".encode(),
    "\u2028".encode(),
    "🙂".encode(),
    b"\xff\xfe",
    b"x" * 70,
    b"</",
]
NAMES = [
    "<unk>",
    "<s>",
    "</s>",
    "a",
    '"',
    "\\",
    "\x01",
    "\x7f",
    "é",
    "\u2028",
    "🙂",
    "bytes:\\xff\\xfe",
    "x" * 70,
    "</",
]
SPECIAL = [-np.inf, np.nan, 0.0, -0.0, -1e-30, -9999.0, -1e5, -3.25]


def random_rows(chance: random.Random, size: int, k: int | None) -> TokenRows:
    def log_prob() -> float:
        return chance.choice([*SPECIAL, -chance.expovariate(0.2)])

    tops = None
    if k is not None:
        values = np.array([[log_prob() for _ in range(k)] for _ in range(size)], np.float32).reshape(size, k)
        others = [chance.sample(range(len(NAMES)), k) for _ in range(size)]
        tops = values, np.array(others, np.int32).reshape(size, k)
    ids = np.array([chance.randrange(len(NAMES)) for _ in range(size)], np.int32)
    log_probs = np.array([log_prob() for _ in range(size)], chance.choice([np.float32, np.float64]))
    offsets = np.cumsum([chance.choice([0, 1, 7, 10**6]) for _ in range(size)], dtype=np.int64)
    return TokenRows(ids, log_probs, tops, offsets, chance.randint(0, min(size, 2)))


def expected(rows: TokenRows) -> dict[str, list[Any]]:
    def number(log_prob: float) -> float:
        return log_prob if log_prob > -9999.0 else -9999.0

    arrays: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for i, token in enumerate(rows.ids.tolist()):
        own, tops = number(float(rows.log_probs[i])), {}
        if rows.tops is not None:
            tops = {NAMES[rows.tops[1][i, j]]: number(float(rows.tops[0][i, j])) for j in range(rows.tops[1].shape[1])}
        arrays["tokens"].append(NAMES[token])
        arrays["token_logprobs"].append(None if i < rows.unknown else own)
        arrays["top_logprobs"].append(None if i < rows.unknown else {**tops, NAMES[token]: own})
        arrays["text_offset"].append(int(rows.offsets[i]))
    return arrays


def written(names: TokenNames, texts: Sequence[TokenRows]) -> Any:
    data = json_bytes({"arrays": token_arrays(names, texts)})
    assert data.isascii()
    return json.loads(data)["arrays"]


@pytest.mark.parametrize("k", [None, 0, 1, 5])
def test_arrays_are_those_of_plain_loops(k: int | None) -> None:
    names, chance = TokenNames(Tokenizer(splitter_named("whitespace"), Vocabulary(TOKENS))), random.Random(3)
    for sizes in ([0], [1], [40, 0, 3, 1], [0, 0], [chance.randrange(9) for _ in range(30)]):
        texts = [random_rows(chance, size, k) for size in sizes]
        assert written(names, texts) == [expected(rows) for rows in texts]


def test_a_token_has_one_number_in_both_arrays() -> None:
    names = TokenNames(Tokenizer(splitter_named("whitespace"), Vocabulary(TOKENS)))
    ids, offsets = np.array([3], np.int32), np.zeros(1, np.int64)
    tops = np.array([[-0.5, -2.0]], np.float32), np.array([[3, 4]], np.int32)
    [arrays] = written(names, [TokenRows(ids, np.array([-0.1], np.float32), tops, offsets)])
    assert arrays["top_logprobs"] == [{"a": arrays["token_logprobs"][0], '"': -2.0}]
    assert arrays["token_logprobs"] == [float(np.float32(-0.1))]


def test_names_are_kept_as_the_vocabulary_is_read_little_by_little() -> None:
    tokens = [f"word{i}".encode() for i in range(3000)]
    names = TokenNames(Tokenizer(splitter_named("whitespace"), Vocabulary(tokens)))
    chance = random.Random(1)
    for _ in range(40):
        ids = np.array(chance.choices(range(3, 3003), k=100), np.int32)
        text = TokenRows(ids, np.zeros(100, np.float32), None, np.zeros(100, np.int64))
        assert written(names, [text])[0]["tokens"] == [f"word{token - 3}" for token in ids.tolist()]
