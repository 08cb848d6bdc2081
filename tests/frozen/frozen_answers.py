"""The fields of what each route of the server answers, as `json_fields` records those of `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from frozen_json import kind_of
from running import running

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
    ("POST", "/v1/chat/completions", {"model": "ngram", "messages": [_SAID], "seed": 1, "chat_template": _TEMPLATE}),
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
    with running({name: MODELS / name for name in _ASKED}) as server:
        recorded = {}
        for method, path, body in _REQUESTS:
            answer = server.client.request(method, path, json=body, params=None if body else {"model": "ngram"})
            asked = " ".join([method, path, *sorted(body or {})])
            recorded[asked] = {"status": answer.status_code, "answer": kind_of(answer.json())}
        return recorded
