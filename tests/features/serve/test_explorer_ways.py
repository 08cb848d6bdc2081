"""The explorer's way to a token, logit lens and changes: records and routes, against the library's own answers."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.features.serve.explorer.changes import changes
from chainrule.features.serve.explorer.ways import lens, way

if TYPE_CHECKING:
    from running import Running

TRAIN = Path(__file__).parents[2] / "fixtures" / "train.txt"
TEXT = "ke di ba"


@pytest.fixture(scope="module")
def network() -> chainrule.CausalModel:
    config = chainrule.TransformerConfig(layers=2, width=16, heads=2, context=64, zero_projections=False)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    return chainrule.train(TRAIN, config, tokenizer="byte", training=training)


def asked(served: Running, view: str, model: str, **fields: Any) -> Any:
    return served.client.post(f"/v1/explore/{view}", json={"model": model, "text": TEXT, **fields})


def floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_the_way_ends_with_the_token_that_generate_begins_with(network: chainrule.CausalModel) -> None:
    sampling = chainrule.SamplingConfig(temperature=1.3, top_k=9)
    for seed in range(5):
        picked = way(network, TEXT, sampling, seed)["picked"]
        [text] = network.sample(TEXT, 1, sampling, chainrule.Limits(max_tokens=1), seed=seed, progress=False)
        assert (picked["token"], picked["added"]) == ((text.tokens or ["</s>"])[0], text.continuation or None)


def test_the_way_through_a_transformer_has_its_parts_and_heads(network: chainrule.CausalModel) -> None:
    record = way(network, TEXT)
    own = record["way"]
    names = [(part["part"], part["layer"]) for part in own["parts"]]
    assert names == [("token", 0), *[(part, i) for i in (1, 2) for part in ("attention", "feed-forward")]]
    for i, logit in enumerate(record["logits"]):
        assert math.fsum(part["shares"][i] for part in own["parts"]) == pytest.approx(logit, abs=1e-4)
    for part in own["parts"]:
        assert part["norm"] == pytest.approx(np.linalg.norm(floats(part["vector"])), rel=1e-5)
    weights = floats(own["attention"][1]["weights"]).reshape(2, -1)
    assert weights == pytest.approx(chainrule.attend(network, TEXT).maps[1].weights[:, -1], abs=1e-6)
    assert len(own["read"]) == weights.shape[1]


def test_the_way_through_an_lstm_has_its_gates(folders: dict[str, Path]) -> None:
    model = chainrule.load(folders["lstm"])
    [layer] = way(model, TEXT)["way"]["layers"]
    expected = chainrule.inspect(model, TEXT).layers[0].values
    assert layer["values"].keys() == expected.keys() >= {"i", "f", "o", "g", "c", "h"}
    for name, values in expected.items():
        assert floats(layer["values"][name]) == pytest.approx(values[-32:, layer["units"]].ravel(), abs=1e-6)


def test_the_way_through_an_n_gram_model_is_its_chain(served: Running) -> None:
    record = asked(served, "way", "ngram").json()
    assert record["way"] == {"kind": "ngram"}
    assert record["logits"] is None
    assert [len(step["context"]) for step in record["backoff"]] == [2, 1, 0]


def test_models_without_a_way_are_refused_by_name(served: Running) -> None:
    refused = asked(served, "way", "mixture")
    assert refused.status_code == 400
    assert "family 'log-linear" in refused.text or "of family" in refused.text
    assert asked(served, "lens", "ngram").status_code == 400


def test_the_lens_ends_with_the_networks_own_predictions(network: chainrule.CausalModel) -> None:
    record = lens(network, TEXT)
    last = record["layers"][-1]
    assert len(record["read"]) == len(TEXT) + 1
    for i, guesses in enumerate(last["guesses"]):
        expected = [prob for _, prob in network.next(TEXT[:i], 3)]
        assert [guess["prob"] for guess in guesses] == pytest.approx(expected, rel=1e-4)
    assert math.fsum(map(math.log, last["of_next"][:-1])) == pytest.approx(
        math.fsum(token["log_prob"] for token in changes(network, TEXT)["before"]["tokens"]), rel=1e-4
    )


def test_changes_are_those_of_inspect(network: chainrule.CausalModel) -> None:
    effects = chainrule.inspect(network, TEXT, remove="zero", heads=[(2, 1)], progress=False).to_dict()
    record = changes(network, TEXT, off=["2.1"])
    before, after = ([token["log_prob"] for token in record[side]["tokens"]] for side in ("before", "after"))
    assert np.subtract(after, before) == pytest.approx(effects["together"], abs=1e-5)
    assert [token["prob"] for token in record["before"]["next"]] == pytest.approx(
        [prob for _, prob in network.next(TEXT, 10)], rel=1e-5
    )
    patched = chainrule.inspect(network, TEXT, patch="ke di bo", heads=[(1, 2)], progress=False).to_dict()
    record = changes(network, TEXT, "ke di bo", ["1.2"], "patch")
    before, after = ([token["log_prob"] for token in record[side]["tokens"]] for side in ("before", "after"))
    assert np.subtract(after, before) == pytest.approx(patched["together"], abs=1e-5)


def test_another_text_is_read_beside_the_first(served: Running, folders: dict[str, Path]) -> None:
    record = asked(served, "changes", "ngram", instead="ke da ba").json()
    assert record["units"] == []
    model = chainrule.load(folders["ngram"])
    for side, text in (("before", TEXT), ("after", "ke da ba")):
        assert [token["prob"] for token in record[side]["next"]] == pytest.approx(
            [prob for _, prob in model.next(text, 10)], rel=1e-5
        )


@pytest.mark.parametrize(
    ("model", "fields", "says"),
    [
        ("transformer", {"off": ["1.9"]}, "there is no part 1.9"),
        ("transformer", {"off": ["7"]}, "expected layer 1 to 1"),
        ("ngram", {"off": ["1.1"]}, "no heads to switch off"),
        ("transformer", {"off": ["1.1"], "by": "patch"}, "choose a head or layer, and a text"),
        ("transformer", {"off": ["1.1"], "by": "patch", "instead": "ke"}, "token by token"),
        ("transformer", {"by": "median"}, "by"),
    ],
)
def test_what_is_not_there_is_refused_by_name(served: Running, model: str, fields: dict[str, Any], says: str) -> None:
    refused = asked(served, "changes", model, **fields)
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]
