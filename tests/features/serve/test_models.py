"""Several models: by name, opened when asked for, again when they change, closed when memory is short."""

from __future__ import annotations

import base64
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from running import Running, running

import chainrule
from chainrule.features.correct.corrector.config import CorrectionConfig
from chainrule.features.vision.network.config import ResNetLabelling

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
        unopened = server.client.get("/v1/models").json()["data"]
        for name in ("first", "second", "first"):
            assert complete(server, name)["model"] == name
            assert [served.name for served in server.table.open_models()] == [name]
        assert complete(server)["model"] == "first"
        entries = server.client.get("/v1/models").json()["data"]
        assert [entry["id"] for entry in entries] == ["first", "second"]
        assert [entry["family"] for entry in entries] == ["ngram", "ngram"]
        written = [int((folder / "config.json").stat().st_mtime) for folder in models.values()]
        assert [entry["created"] for entry in entries] == written
        for one, other in zip(unopened, entries, strict=True):  # nothing changes but what only opening tells
            assert {**one, "max_model_len": None} == {**other, "max_model_len": None}


def test_a_model_of_the_wrong_kind_is_refused_unopened(folders: dict[str, Path]) -> None:
    with running({"ngram": folders["ngram"]}) as server:
        for route, body in (("/v1/translate", {"input": "ka"}), ("/v1/embeddings", {"input": "ka"})):
            response = server.client.post(route, json=body)
            assert response.json()["error"]["code"] == "wrong_model"
        assert not list(server.table.open_models())
        assert server.client.post("/v1/score", json={"input": "ka"}).status_code == 200
        assert server.client.post("/v1/translate", json={"input": "ka"}).json() == {
            "error": {
                "message": "the model 'ngram' does not write texts from others",
                "type": "invalid_request_error",
                "param": "model",
                "code": "wrong_model",
            }
        }


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


def test_bits_per_byte_are_those_of_evaluate(served: Running, folders: dict[str, Path], tmp_path: Path) -> None:
    model, texts = chainrule.load(folders["ngram"]), ["ka  zorgle   vi", "ka vi", "zorgle"]
    record = served.client.post("/v1/score", json={"input": texts}).json()
    for text, row in zip(texts, record["data"], strict=True):
        (tmp_path / "text.txt").write_text(text + "\n")
        measured = model.evaluate(tmp_path / "text.txt")
        assert row["bits_per_byte"] == pytest.approx(measured.bits_per_byte, rel=1e-6)
        assert row["bytes"] == measured.bytes
    [given] = served.client.post("/v1/score", json={"input": " zorgle", "given": "ka"}).json()["data"]
    [whole] = served.client.post("/v1/score", json={"input": "ka zorgle"}).json()["data"]
    assert (given["bytes"], whole["bytes"]) == (8, 10)
    assert given["bits_per_byte"] * given["bytes"] < whole["bits_per_byte"] * whole["bytes"]


@pytest.mark.parametrize("name", ["ngram", "bytes"])
def test_words_are_those_of_the_table(served: Running, folders: dict[str, Path], name: str) -> None:
    texts = ["ka  zorgle   vi", "", "ka"]
    asked = {"input": texts, "words": True, "model": name}
    rows = chainrule.surprisal(chainrule.Lines(texts), chainrule.load(folders[name])).to_records()
    answered = served.client.post("/v1/score", json=asked).json()["data"]
    assert [{"sentence": i, **word} for i, one in enumerate(answered, 1) for word in one["words"]] == rows
    error = served.client.post("/v1/score", json={**asked, "given": "ka"}).json()["error"]
    assert error["param"] == "words"
    for truth in ("yes", 1):
        refused = served.client.post("/v1/score", json={**asked, "words": truth})
        assert refused.status_code == 400
        assert "expected true or false" in refused.json()["error"]["message"]
    error = served.client.post("/v1/score", json={"input": texts, "convention": "minicons"}).json()["error"]
    assert error["param"] == "convention"
    model, theirs = chainrule.load(folders[name]), {**asked, "convention": "minicons"}
    table = chainrule.surprisal(chainrule.Lines(texts), model, convention="minicons").to_records()
    answered = served.client.post("/v1/score", json=theirs).json()["data"]
    assert [word["surprisal_minicons_bits"] for one in answered for word in one["words"]] == [
        row["surprisal_minicons_bits"] for row in table
    ]
    for body, message in (
        ({"texts": texts}, "the field input is missing, and there is no field texts; is it input?"),
        ({}, "the field input is missing"),
        ({"input": []}, "input is an empty list; expected a text, or a list of texts"),
    ):
        wrong = served.client.post("/v1/score", json=body)
        assert (wrong.status_code, wrong.json()["error"]["message"]) == (400, message)
        assert wrong.json()["error"]["param"] == "input"
    of_own = [row["surprisal_bits"] for row in rows]
    assert ([row["surprisal_minicons_bits"] for row in table] != of_own) == (name == "bytes")


def test_a_long_text_may_have_less_than_what_stands_for_impossible(
    served: Running, folders: dict[str, Path], tmp_path: Path
) -> None:
    model, text = chainrule.load(folders["ngram"]), "ka vi zorgle " * 2000
    (tmp_path / "text.txt").write_text(text + "\n")
    [record] = served.client.post("/v1/score", json={"input": text}).json()["data"]
    [log_prob] = model.score([text])
    assert record["log_prob"] == pytest.approx(log_prob)
    assert log_prob < -9999
    assert record["bits_per_byte"] == pytest.approx(model.evaluate(tmp_path / "text.txt").bits_per_byte, rel=1e-6)


def test_scores_are_those_of_the_model(served: Running, folders: dict[str, Path]) -> None:
    model, texts = chainrule.load(folders["ngram"]), ["ka vi", "", "sa man nin"]
    record = served.client.post("/v1/score", json={"input": texts}).json()
    assert [row["log_prob"] for row in record["data"]] == model.score(texts).tolist()
    assert [row["tokens"] for row in record["data"]] == [3, 1, 4]
    assert [row["bytes"] for row in record["data"]] == [6, 1, 11]
    given = served.client.post("/v1/score", json={"input": texts, "given": "ka"}).json()
    assert [row["log_prob"] for row in given["data"]] == model.score(texts, given="ka").tolist()
    assert served.client.post("/v1/score", json={"input": texts, "given": ["ka"]}).status_code == 400
    [within_a_word] = served.client.post("/v1/score", json={"input": "</s> vi", "given": "a"}).json()["data"]
    assert within_a_word["tokens"] == 3  # a</s> is a word, and no marker


@pytest.mark.parametrize(
    ("route", "body", "param", "message"),
    [
        ("/v1/score", {"input": ["a", "ka </s>"]}, "input", "input has a literal </s>, which is a marker"),
        ("/v1/score", {"input": "a", "given": "<s> ka"}, "given", "given has a literal <s>, which is a marker"),
        ("/v1/score", {"input": ["a", "b", "c"], "given": ["ka"]}, "given", "given has length 1, and input 3"),
        (
            "/v1/score",
            {"input": "a", "top": 3},
            "top",
            "there is no such field; expected convention, given, input, model",
        ),
        ("/complete", {"text": "a", "count": 3}, "count", "expected model, n, text"),
        ("/v1/translate", {"input": "a", "seed": 3}, "seed", "there is no such field"),
        ("/v1/caption", {"input": "a", "seed": 3}, "seed", "there is no such field"),
        ("/v1/correct", {"input": "a", "atleast": 0.5}, "atleast", "there is no such field; expected at_least"),
    ],
)
def test_wrong_fields_of_our_own_routes_are_named(
    served: Running, route: str, body: dict[str, Any], param: str, message: str
) -> None:
    response = served.client.post(route, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert message in response.json()["error"]["message"]
    assert "markers=" not in response.json()["error"]["message"]


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
    assert served.client.post("/v1/embeddings", json={**body, "input": []}).json()["error"]["param"] == "input"
    assert served.client.post("/v1/embeddings", json={**body, "model": "ngram"}).status_code == 400


def test_completions_as_typed_are_those_of_the_model(served: Running, folders: dict[str, Path]) -> None:
    expected = chainrule.load(folders["ngram"]).complete("ka v", 3)
    record = served.client.post("/complete", json={"text": "ka v", "n": 3}).json()
    assert [one["text"] for one in record["completions"]] == [one.text for one in expected]


def test_editor_plugins_of_llama_cpp_get_the_completion_before_the_cursor(
    served: Running, folders: dict[str, Path]
) -> None:
    model = chainrule.load(folders["ngram"])
    body: dict[str, Any] = {"prompt": "ka v", "n_predict": 128, "top_k": 40, "stream": False, "samplers": []}
    response = served.client.post(
        "/infill", json={**body, "input_prefix": "ba ke\n \nfi fe\n", "input_suffix": "not read"}
    )
    assert response.json()["content"] == model.complete("fi fe ka v", 1)[0].added  # of the paragraph
    assert "input_suffix" in response.headers["x-ignored"]
    long = served.client.post("/infill", json={**body, "input_prefix": "ka vi nin " * 20_000}).json()
    assert long["content"] == model.complete("ka vi nin ka v", 1)[0].added
    assert served.client.post("/infill", json={**body, "n_predict": 0}).json()["content"] == ""
    assert served.client.post("/infill", json={**body, "prompt": "zzzz"}).json()["content"] == ""


def test_models_of_pairs_write_and_nothing_else(tmp_path: Path) -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16), training=training)
    model.save(tmp_path / "mt")
    with running({"mt": tmp_path / "mt"}) as server:
        body = {"input": ["ein Hund", "eine Katze"], "beam": 2, "max_tokens": 4}
        record = server.client.post("/v1/translate", json=body).json()
        expected = model.write(
            ["ein Hund", "eine Katze"], chainrule.BeamConfig(size=2, rank_by="mean", stop="likely"), max_tokens=4
        )
        assert [[one["text"] for one in row["texts"]] for row in record["data"]] == [
            [one.text for one in row] for row in expected
        ]
        response = server.client.post("/v1/completions", json={"prompt": "ein"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "wrong_model"
        assert server.client.post("/v1/translate", json={**body, "max_tokens": 10**6}).json()["error"]["param"] == (
            "max_tokens"
        )
        plain = server.client.post("/v1/translate", json={"input": "ein Hund"}).json()["data"]
        assert server.client.post("/v1/translate", json={"input": "ein Hund", "beam": 5}).json()["data"] == plain


def test_corrections_are_those_of_correct(folders: dict[str, Path], tmp_path: Path) -> None:
    words = "the dog saw their house over there . " * 20
    (tmp_path / "text.txt").write_text(words + "\n")
    model = chainrule.train(tmp_path / "text.txt", chainrule.NGramConfig(order=2), tokenizer="whitespace")
    model.save(tmp_path / "lm")
    texts = ["the dgo saw their house", "over there", "", "the dog saw thier hose over"] * 9  # in several pieces
    with running({"lm": tmp_path / "lm", "bytes": folders["bytes"]}) as server:

        def post(**body: Any) -> Any:
            return server.client.post("/v1/correct", json={"input": texts, **body}).json()

        for body, options in (
            ({}, {}),
            ({"channel": "ocr", "rate": 0.1}, {"channel": "ocr", "rate": 0.1}),
            (
                {"at_least": 0.99, "keep": ["dgo"], "beam": 2, "candidates": 3, "channel": None},
                {"config": CorrectionConfig(at_least=0.99, keep=("dgo",), beam=2, candidates=3)},
            ),
        ):
            expected = chainrule.corrector(model, **options).correct(texts)
            assert post(**body)["data"] == [
                {
                    "index": i,
                    "text": one.text,
                    "corrected": one.corrected,
                    "changes": [change._asdict() for change in one.changes],
                    "note": one.note,
                }
                for i, one in enumerate(expected)
            ]
        assert post()["data"][0]["corrected"] == "the dog saw their house"
        assert "not words (byte)" in post(model="bytes")["error"]["message"]
        for wrong in ({"rate": 0}, {"channel": "/etc/passwd"}, {"grammar": "german"}, {"input": [1]}):
            assert post(**wrong)["error"]["type"] == "invalid_request_error"


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_captions_of_pictures_in_the_request_and_of_nothing_else(tmp_path: Path) -> None:
    pixels = [np.full((6, 12, 3), shade, np.uint8) for shade in (0, 250)]
    for i, one in enumerate(pixels):
        (tmp_path / f"{i}.png").write_bytes(png(one))
    lines = [json.dumps({"image": f"{i}.png", "captions": ["a dark day", "a bright day"]}) for i in range(2)]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    captioned = chainrule.read_captions(tmp_path / "captions.jsonl")
    network = ResNetLabelling(size=(6, 12), width=4, blocks=(1,))
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train_captions(
        captioned * 10, chainrule.CaptionConfig(width=8), encoder=network, training=training, progress=False
    )
    model.save(tmp_path / "captioner")
    files = [base64.b64encode(png(one)).decode() for one in pixels]
    with running({"captioner": tmp_path / "captioner"}, picture_pixels=100, request_pixels=250) as server:

        def post(*pictures: Any, **body: Any) -> Any:
            return server.client.post("/v1/caption", json={"input": list(pictures), "max_tokens": 5, **body}).json()

        expected = model.caption(pixels, max_tokens=5)
        record = post(files[0], f"data:image/png;base64,{files[1]}")
        assert [[one["text"] for one in row["texts"]] for row in record["data"]] == [
            [one.text for one in row] for row in expected
        ]
        pictures = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{file}"}} for file in files]
        asked = {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *pictures]}]}
        said = server.client.post("/v1/chat/completions", json={**asked, "max_tokens": 5, "n": 2})
        assert [choice["message"]["content"] for choice in said.json()["choices"]] == [
            f"{one.text}\n{other.text}" for one, other in zip(expected[0][:2], expected[1][:2], strict=True)
        ]
        assert said.headers["x-ignored"] == "messages.text"
        parts = [{"type": "input_image", "image_url": f"data:image/png;base64,{files[0]}"}]
        asked = {"input": [{"role": "user", "content": parts}], "max_output_tokens": 5}
        output = server.client.post("/v1/responses", json=asked).json()["output"]
        assert output[0]["content"][0]["text"] == expected[0][0].text
        big = base64.b64encode(png(np.zeros((11, 10, 3), np.uint8))).decode()
        for given, message in (
            (str(tmp_path / "0.png"), "not base64"),
            (f"file://{tmp_path}/0.png", "not base64"),
            ("http://127.0.0.1/0.png", "not base64"),
            ("/etc/hosts00", "not a JPEG or PNG"),  # letters of base64
            (base64.b64encode(b"GIF89a" + bytes(50)).decode(), "not a JPEG or PNG"),
            (files[0][: len(files[0]) // 2 // 4 * 4], "picture 0"),
            (big, "10 x 11 pixels"),
            ("é", "not base64"),
        ):
            error = post(given)["error"]
            assert (error["type"], error["param"]) == ("invalid_request_error", "input")
            assert str(tmp_path) not in error["message"]
            assert message in error["message"]
        error = post(*files * 2)["error"]  # 72 pixels each
        assert "have 288 pixels together; expected at most 250" in error["message"]
        assert server.client.get("/v1/models").json()["data"][0]["family"] == "pictures"
        assert server.client.post("/v1/completions", json={"prompt": "a"}).json()["error"]["code"] == "wrong_model"
