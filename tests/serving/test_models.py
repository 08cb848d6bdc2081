"""Several models: by name, opened when asked for, again when they change, closed when memory is short."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
from running import Running, running

import chainrule

if TYPE_CHECKING:
    from pathlib import Path


def complete(server: Running, model: str | None = None) -> Any:
    response = server.client.post("/v1/completions", json={"prompt": "ka", "seed": 1, "model": model})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_model_that_changes_on_disk_is_opened_again(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["ngram"], tmp_path / "lm")
    with running({"lm": tmp_path / "lm"}) as server:
        before = complete(server)
        assert complete(server)["system_fingerprint"] == before["system_fingerprint"]
        chainrule.load(folders["bytes"]).save(tmp_path / "lm", overwrite=True)
        after = complete(server)
        assert after["system_fingerprint"] != before["system_fingerprint"]
        expected = chainrule.load(folders["bytes"]).generate("ka", limits=chainrule.Limits(max_tokens=16), seed=1)
        assert after["choices"][0]["text"] == expected[0].removeprefix("ka")
        (tmp_path / "lm" / "config.json").write_text("{")
        assert complete(server)["system_fingerprint"] == after["system_fingerprint"]  # what is open goes on


def test_models_open_when_asked_for_and_close_when_memory_is_short(folders: dict[str, Path]) -> None:
    size = max(sum(file.stat().st_size for file in folders[name].iterdir()) for name in ("ngram", "bytes"))
    models = {"first": folders["ngram"], "second": folders["bytes"]}
    with running(models, memory=int(size * 1.2)) as server:
        assert not list(server.table.open_models())
        for name in ("first", "second", "first"):
            assert complete(server, name)["model"] == name
            assert [served.name for served in server.table.open_models()] == [name]
        assert complete(server)["model"] == "first"
        assert [entry["id"] for entry in server.client.get("/v1/models").json()["data"]] == ["first", "second"]


def test_a_model_that_cannot_be_opened_says_so_without_its_path(folders: dict[str, Path], tmp_path: Path) -> None:
    with running({"lm": folders["ngram"], "gone": tmp_path / "gone"}) as server:
        response = server.client.post("/v1/completions", json={"prompt": "ka", "model": "gone"})
        assert response.status_code == 503
        assert str(tmp_path) not in response.text
        complete(server)


def test_tokenizers_answer_as_the_harness_expects(served: Running) -> None:
    def post(path: str, **body: Any) -> Any:
        return served.client.post(path, json=body).json()

    assert served.client.get("/tokenizer_info").json() == {
        "eos_token": "</s>",
        "bos_token": "<s>",
        "pad_token": None,
        "chat_template": None,
    }
    for prefix in ("", "/v1"):
        for model in ("ngram", "bytes"):
            assert post(f"{prefix}/tokenize", prompt="</s>", model=model)["tokens"] == [2]
            assert post(f"{prefix}/tokenize", prompt="<s>", model=model)["tokens"] == [1]
            for text in ("ka vi", "", "ka"):
                tokens = post(f"{prefix}/tokenize", prompt=text, add_special_tokens=False, model=model)["tokens"]
                again = post(f"{prefix}/detokenize", tokens=tokens, model=model)["prompt"]
                assert again == text
                assert post(f"{prefix}/tokenize", prompt=again, model=model)["tokens"] == tokens
    assert "literal </s>" in post("/tokenize", prompt="ka </s> vi")["error"]["message"]
    assert post("/detokenize", tokens=[10**6])["error"]["param"] == "tokens"


def test_scores_are_those_of_the_model(served: Running, folders: dict[str, Path]) -> None:
    model, texts = chainrule.load(folders["ngram"]), ["ka vi", "", "sa man nin"]
    record = served.client.post("/v1/score", json={"input": texts}).json()
    assert [row["log_prob"] for row in record["data"]] == model.score(texts).tolist()
    assert [row["tokens"] for row in record["data"]] == [3, 1, 4]
    assert [row["bytes"] for row in record["data"]] == [6, 1, 11]
    given = served.client.post("/v1/score", json={"input": texts, "given": "ka"}).json()
    assert [row["log_prob"] for row in given["data"]] == model.score(texts, given="ka").tolist()
    assert served.client.post("/v1/score", json={"input": texts, "given": ["ka"]}).status_code == 400


def test_vectors_are_those_of_the_model(served: Running, folders: dict[str, Path]) -> None:
    expected = chainrule.load(folders["lstm"]).embed(["ka vi", "sa"])
    ids = served.client.post("/tokenize", json={"prompt": "ka vi", "model": "lstm"}).json()["tokens"]
    body: dict[str, Any] = {"model": "lstm", "input": ["ka vi", "sa"]}
    plain = served.client.post("/v1/embeddings", json=body).json()["data"]
    np.testing.assert_allclose([row["embedding"] for row in plain], expected, atol=1e-6)
    coded = served.client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()["data"]
    decoded = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in coded]
    np.testing.assert_allclose(decoded, expected, atol=1e-6)
    for given in (ids, [ids], "ka vi"):
        [row] = served.client.post("/v1/embeddings", json={**body, "input": given}).json()["data"]
        np.testing.assert_allclose(row["embedding"], expected[0], atol=1e-5)
    assert served.client.post("/v1/embeddings", json={**body, "dimensions": 4}).json()["error"]["param"] == "dimensions"
    assert served.client.post("/v1/embeddings", json={**body, "model": "ngram"}).status_code == 400


def test_completions_as_typed_are_those_of_the_model(served: Running, folders: dict[str, Path]) -> None:
    expected = chainrule.load(folders["ngram"]).complete("ka v", 3)
    record = served.client.post("/complete", json={"text": "ka v", "n": 3}).json()
    assert [one["text"] for one in record["completions"]] == [one.text for one in expected]


def test_models_of_pairs_write_and_nothing_else(tmp_path: Path) -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train_pairs(pairs, chainrule.ConditionalConfig(width=16), training=training)
    model.save(tmp_path / "mt")
    with running({"mt": tmp_path / "mt"}) as server:
        body = {"input": ["ein Hund", "eine Katze"], "beam": 2, "max_tokens": 4}
        record = server.client.post("/v1/translate", json=body).json()
        expected = model.write(["ein Hund", "eine Katze"], chainrule.BeamConfig(size=2), max_tokens=4)
        assert [[one["text"] for one in row["texts"]] for row in record["data"]] == [
            [one.text for one in row] for row in expected
        ]
        response = server.client.post("/v1/completions", json={"prompt": "ein"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "wrong_model"
