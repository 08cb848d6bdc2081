"""The fields of what each route of the server answers, as `json_fields` records those of `--json`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from frozen_json import kind_of
from running import running

import chainrule

MODELS = Path(__file__).parents[1] / "fixtures" / "folders" / "1"
_ASKED = ("ngram", "transformer", "masked", "seq2seq")
_TEXT = "the dog bit the man"
_TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"
_SAID = {"role": "user", "content": _TEXT}
# Routes of the explorer's page are its own, and captions need a model that sees.
_REQUESTS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/health", None),
    ("GET", "/tokenizer_info", None),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/ngram", None),
    ("GET", "/v1/models/none", None),
    ("POST", "/complete", {"model": "ngram", "text": "the d"}),
    ("POST", "/detokenize", {"model": "ngram", "tokens": [4, 5]}),
    ("POST", "/infill", {"model": "ngram", "input_prefix": "the ", "prompt": "d", "n_predict": 2}),
    ("POST", "/tokenize", {"model": "ngram", "prompt": _TEXT}),
    ("POST", "/v1/chat/completions", {"model": "talker", "messages": [_SAID], "seed": 1, "max_tokens": 2}),
    (
        "POST",
        "/v1/completions",
        {"model": "ngram", "prompt": "the", "max_tokens": 2, "logprobs": 2, "echo": True, "seed": 1},
    ),
    ("POST", "/v1/completions", {"model": "ngram", "prompt": "the", "temperature": -1}),
    ("POST", "/v1/correct", {"model": "ngram", "input": "teh dog"}),
    ("POST", "/v1/embeddings", {"model": "masked", "input": _TEXT}),
    ("POST", "/v1/score", {"model": "ngram", "input": _TEXT}),
    ("POST", "/v1/score", {"model": "ngram", "input": _TEXT, "words": True}),
    ("POST", "/v1/translate", {"model": "seq2seq", "input": _TEXT}),
)


def answers() -> dict[str, Any]:
    """By method, path and fields of the request: the status, and the fields of the answer."""
    with tempfile.TemporaryDirectory() as folder:
        talker = Path(folder) / "talker"
        pieces = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=280)
        small = chainrule.TransformerConfig(layers=1, width=8, heads=1, context=64)
        once = chainrule.TrainingConfig(steps=1, compile="no", device="cpu")
        trained = chainrule.train(MODELS.parents[1] / "train.txt", small, tokenizer=pieces, training=once)
        trained.save(Path(folder) / "trained")
        chainrule.convert(Path(folder) / "trained", talker, to="hugging-face")  # these folders have templates
        (talker / "chat_template.jinja").write_text(_TEMPLATE, encoding="utf-8")
        return _answers({"talker": talker, **{name: MODELS / name for name in _ASKED}})


def _answers(models: dict[str, Path]) -> dict[str, Any]:
    recorded = {}
    with running(models) as server:
        for method, path, body in _REQUESTS:
            answer = server.client.request(method, path, json=body, params=None if body else {"model": "ngram"})
            asked = " ".join([method, path, *sorted(body or {})])
            recorded[asked] = {"status": answer.status_code, "answer": kind_of(answer.json())}
    return recorded
