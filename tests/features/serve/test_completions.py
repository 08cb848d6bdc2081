"""/v1/completions against the library: texts, log-probabilities, streams, and what clients rely on."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.protocol import END

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from running import Running

FAMILIES = ["ngram", "likelihood", "mixture", "bytes", "lstm", "transformer"]
TEXTS = ["ka vi nin", "sa man ka", "ka", "nin ka vi sa man nin ka vi ka sa ka"]


def post(served: Running, **body: Any) -> httpx.Response:
    return served.client.post("/v1/completions", json=body)


def answer(served: Running, **body: Any) -> dict[str, Any]:
    response = post(served, **body)
    assert response.status_code == 200, response.text
    record: dict[str, Any] = json.loads(response.text, parse_constant=refuse)
    return record


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def events(served: Running, **body: Any) -> list[dict[str, Any]]:
    with served.client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        assert response.status_code == 200
        lines = [line for line in response.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    assert all(line.startswith("data: ") and line.isascii() for line in lines)
    return [json.loads(line.removeprefix("data: "), parse_constant=refuse) for line in lines]


def whole(chunks: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The chunks of a stream, put together by index."""
    texts: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            text = texts.setdefault(choice["index"], {"text": "", "logprobs": None, "finish_reason": None})
            assert text["finish_reason"] is None
            text["text"] += choice["text"]
            text["finish_reason"] = choice["finish_reason"]
            if choice["logprobs"] is not None:
                arrays = text["logprobs"] = text["logprobs"] or {}
                for name, values in choice["logprobs"].items():
                    arrays[name] = [*arrays.get(name, []), *values]
    return texts


def ids_of(model: Any, text: str) -> list[int]:
    ids: list[int] = model.tokenizer.encode_texts([text]).ids[:-1].tolist()
    return ids


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    return {name: chainrule.load(path) for name, path in folders.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_harness_gets_the_scores_that_the_model_gives(served: Running, models: dict[str, Any], family: str) -> None:
    """What lm-evaluation-harness sends, and reads: entries [context:-1], and whether each is the likeliest."""
    model = models[family]
    prompts = [ids_of(model, text) for text in TEXTS]
    marked = [[END, *ids] for ids in prompts]
    body = {"model": family, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    record = answer(served, prompt=[*prompts, *marked], **body)
    assert [choice["index"] for choice in record["choices"]] == list(range(8))
    expected = model.language_model.score([np.array(ids, np.int32) for ids in prompts], end=False)
    for choice, ids, scores in zip(record["choices"], [*prompts, *marked], [*expected, *expected], strict=True):
        arrays = choice["logprobs"]
        assert {len(values) for values in arrays.values()} == {len(ids) + 1}
        assert arrays["token_logprobs"][0] is None
        assert arrays["top_logprobs"][0] is None
        given = arrays["token_logprobs"][1:-1]
        wanted = np.maximum(scores, -9999.0)[0 if ids[0] == END else 1 :]
        if family in ("ngram", "likelihood", "bytes"):
            assert given == wanted.tolist()  # to the last digit
        np.testing.assert_allclose(given, wanted, atol=1e-4)
        for position in range(1, len(ids) + 1):
            top, log_prob = arrays["top_logprobs"][position], arrays["token_logprobs"][position]
            assert top[arrays["tokens"][position]] == log_prob
            prefix = ids[:position][1 if ids[0] == END else 0 :]
            row = model.language_model.next_log_probs(model.language_model.start([np.array(prefix, np.int32)]))[0]
            assert max(top.values()) == pytest.approx(max(row.max(), -9999.0), abs=1e-4)
            assert all(math.isfinite(value) for value in top.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_do_not_depend_on_the_batch(served: Running, family: str, models: dict[str, Any]) -> None:
    prompts = [ids_of(models[family], text) for text in TEXTS]
    body: dict[str, Any] = {"model": family, "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True}
    together = answer(served, prompt=prompts, **body)["choices"]
    for choice, ids in zip(together, prompts, strict=True):
        [alone] = answer(served, prompt=ids, **body)["choices"]
        assert choice["text"] == alone["text"]
        ours, others = (c["logprobs"]["token_logprobs"][1:] for c in (choice, alone))
        np.testing.assert_allclose(ours, others, atol=0 if family in ("ngram", "likelihood", "bytes") else 1e-4)


def test_without_tokens_to_generate_the_entries_are_those_of_the_prompt(served: Running) -> None:
    record = answer(served, prompt=["ka vi", ""], echo=True, logprobs=0, max_tokens=0)
    first, second = record["choices"]
    assert first["text"] == "ka vi"
    assert first["logprobs"]["tokens"] == ["ka", "vi"]
    assert first["logprobs"]["text_offset"] == [0, 2]
    assert first["logprobs"]["top_logprobs"][1] == {"vi": first["logprobs"]["token_logprobs"][1]}
    assert second["logprobs"]["tokens"] == []
    assert {choice["finish_reason"] for choice in record["choices"]} == {"length"}
    assert record["usage"] == {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}


@pytest.mark.parametrize("family", ["ngram", "mixture", "lstm", "transformer"])
def test_texts_are_those_of_generate_with_the_seed(served: Running, models: dict[str, Any], family: str) -> None:
    settings: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 1.3, "top_p": 0.9}, {"temperature": 1.3, "top_p": 0.9}),
        ({"top_k": 4, "top_p": 1}, {"top_k": 4}),
        ({"frequency_penalty": 0.5, "temperature": 1}, {"frequency_penalty": 0.5}),
    ]
    for body, sampling in settings:
        record = answer(served, model=family, prompt="ka vi", n=3, seed=5, max_tokens=11, echo=True, **body)
        expected = models[family].generate(
            "ka vi", 3, chainrule.SamplingConfig(**sampling), chainrule.Limits(max_tokens=11), seed=5
        )
        assert [choice["text"] for choice in record["choices"]] == expected


@pytest.mark.parametrize("family", ["ngram", "bytes", "lstm"])
@pytest.mark.parametrize(
    "body", [{"echo": True}, {"stop": ["ka", "vi n"]}, {"n": 3}, {"echo": True, "n": 2, "stop": "a"}, {}], ids=str
)
def test_a_stream_is_the_answer_in_pieces(served: Running, family: str, body: dict[str, Any]) -> None:
    asked = {"model": family, "prompt": ["sa man", "ka"], "seed": 3, "max_tokens": 14, "logprobs": 2, **body}
    record = answer(served, **asked)
    chunks = events(served, **asked, stream_options={"include_usage": True})
    usage = chunks.pop()
    assert usage["choices"] == []
    assert usage["usage"] == record["usage"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    texts = whole(chunks)
    for choice in record["choices"]:
        assert texts.pop(choice.pop("index")) == choice
    assert not texts


def test_a_text_ends_before_a_stop_string_and_a_seed_decides_it(served: Running, models: dict[str, Any]) -> None:
    body: dict[str, Any] = {"prompt": "sa man", "max_tokens": 40, "seed": 2, "stop": ["", "vi", "never  this"]}
    [choice] = answer(served, **body)["choices"]
    assert choice["finish_reason"] == "stop"
    full = models["ngram"].generate("sa man", limits=chainrule.Limits(max_tokens=40), seed=2)[0]
    assert choice["text"] == full.removeprefix("sa man").partition("vi")[0]


def test_offsets_count_characters_of_prompt_and_completion(served: Running) -> None:
    for echo in (False, True):
        [choice] = answer(served, prompt="ka vi", echo=echo, logprobs=0, max_tokens=6, seed=1, temperature=0.5)[
            "choices"
        ]
        arrays = choice["logprobs"]
        text = choice["text"] if echo else "ka vi" + choice["text"]
        for token, begin in zip(arrays["tokens"], arrays["text_offset"], strict=True):
            assert token == "</s>" or text[begin:].lstrip().startswith(token)


def test_what_changes_nothing_is_no_error(served: Running) -> None:
    plain = answer(served, prompt="ka", seed=-7, max_tokens=5, temperature=0)
    for body in (
        {"top_p": 1, "top_k": 0, "presence_penalty": 0, "frequency_penalty": 0, "n": 1, "best_of": 1},
        {"top_p": 0.3, "top_k": 5},
        {"logprobs": None, "stop": None, "suffix": None, "stream": None, "logit_bias": None, "user": "me"},
        {"stop": []},
        {"suffix": ""},
        {"min_p": 0},
    ):
        record = answer(served, **{"prompt": "ka", "seed": -7, "max_tokens": 5, "temperature": 0, **body})
        assert record["choices"] == plain["choices"]
    for prompt in ([], "", [""], [[]], None):
        assert answer(served, prompt=prompt, seed=1)["choices"] == answer(served, prompt="", seed=1)["choices"]


def test_fields_that_have_no_effect_are_named(served: Running) -> None:
    response = post(served, prompt="ka", user="me", store=True)
    assert response.headers["x-ignored"] == "store,user"
    assert response.headers["x-request-id"]
    assert "x-ignored" not in post(served, prompt="ka").headers


def test_the_best_of_many_has_the_highest_mean(served: Running) -> None:
    body: dict[str, Any] = {"prompt": "ka", "seed": 4, "max_tokens": 6, "logprobs": 0}
    every = answer(served, n=8, **body)["choices"]
    means = {
        choice["text"]: sum(choice["logprobs"]["token_logprobs"]) / len(choice["logprobs"]["tokens"])
        for choice in every
    }
    best = answer(served, n=2, best_of=8, **body)["choices"]
    assert [choice["text"] for choice in best] == sorted(means, key=lambda text: -means[text])[:2]


def test_biases_ban_and_force(served: Running, models: dict[str, Any]) -> None:
    [ka] = ids_of(models["ngram"], "ka")
    [forced] = answer(served, prompt="", max_tokens=4, logit_bias={str(ka): 100}, seed=1)["choices"]
    assert forced["text"].split() == ["ka"] * 4
    for seed in range(5):
        [banned] = answer(served, prompt="", max_tokens=20, logit_bias={str(ka): -100}, seed=seed)["choices"]
        assert "ka" not in banned["text"].split()


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (
            {"prompt": "ka", "suffix": "x"},
            "suffix",
            "its tokenizer has no tokens for a gap",
        ),
        ({"prompt": [1, 10**7]}, "prompt", "token id 10000000, but the vocabulary has"),
        ({"prompt": [[-1]]}, "prompt", "token id -1"),
        ({"prompt": [1.5]}, "prompt", "a number among token ids"),
        ({"prompt": [True]}, "prompt", "a truth value among token ids"),
        ({"prompt": ["ka", [3]]}, "prompt", "mixes texts and token ids"),
        ({"prompt": {"a": 1}}, "prompt", "an object"),
        ({"prompt": "ka </s> vi"}, "prompt", "literal </s>"),
        ({"prompt": "ka", "temperature": -1}, "temperature", "temperature is -1; expected 0 to 1,000,000"),
        ({"prompt": "ka", "temperature": True}, "temperature", "not a truth value"),
        ({"prompt": "ka", "top_p": 2}, "top_p", "top_p is 2; expected 0 to 1"),
        ({"prompt": "ka", "max_tokens": 2**63}, "max_tokens", ""),
        ({"prompt": "ka", "max_tokens": 10**6}, "max_tokens", "at most 4,096"),
        ({"prompt": "ka", "logprobs": 21}, "logprobs", "at most 20"),
        ({"prompt": "ka", "n": 0}, "n", "n is 0; expected 1 to 2,147,483,647"),
        ({"prompt": "ka", "n": "x"}, "n", 'n is "x"; expected a whole number'),
        ({"prompt": "ka", "stop": {"a": 1}}, "stop", 'stop is {"a": 1}; expected a text, or a list of texts'),
        ({"prompt": "ka", "stream": 7}, "stream", "stream is 7; expected true or false"),
        ({"prompt": "ka", "logit_bias": 5}, "logit_bias", "logit_bias is 5; expected an object"),
        ({"prompt": "ka", "n": 10**6}, "n", "asks for 1,000,000 texts"),
        ({"prompt": "ka", "best_of": 1, "n": 2}, "best_of", "less than n"),
        ({"prompt": "ka", "best_of": 2, "stream": True}, "best_of", "cannot be streamed"),
        ({"prompt": "ka", "logit_bias": {"x": 1}}, "logit_bias", "expected token ids"),
        ({"prompt": "ka", "logit_bias": {"3": 101}}, "logit_bias", "expected -100 to 100"),
        ({"prompt": "ka", "stop": [1]}, "stop", ""),
        ({"prompt": "ka", "seed": 1.5}, "seed", ""),
        ({"prompt": ["ka"] * 3000}, "prompt", "3,000 entries"),
        ({"prompt": "ka", "model": "gpt-4"}, "model", "no model 'gpt-4'"),
    ],
    ids=str,
)
def test_errors_name_the_field_and_what_was_expected(
    served: Running, body: dict[str, Any], param: str, message: str
) -> None:
    response = post(served, **body)
    assert response.status_code == (404 if param == "model" else 400)
    error = response.json()["error"]
    assert error["param"] == param
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


def test_a_context_that_nothing_can_follow_is_an_error_of_its_request_alone(
    served: Running, models: dict[str, Any]
) -> None:
    """With maximum likelihood, a word that was never followed by anything but <unk> or </s>, which is banned."""
    response = post(served, model="likelihood", prompt="ka vi", min_tokens=16, seed=1, n=8)
    assert response.status_code in (200, 400)
    assert post(served, model="likelihood", prompt="ka vi", seed=1).status_code == 200


def test_long_prompts_are_read_in_the_networks_own_windows(served: Running, models: dict[str, Any]) -> None:
    ids = ids_of(models["transformer"], " ".join(TEXTS * 3))
    assert len(ids) > 5 * 16
    arrays = answer(served, model="transformer", prompt=ids, echo=True, logprobs=1, max_tokens=1)["choices"][0][
        "logprobs"
    ]
    [expected] = models["transformer"].language_model.score([np.array(ids, np.int32)], end=False)
    np.testing.assert_allclose(arrays["token_logprobs"][1:-1], expected[1:], atol=1e-4)
