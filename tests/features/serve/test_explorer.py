"""The explorer: its routes give the numbers of the library, and its page is made of our files alone."""

from __future__ import annotations

import base64
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from running import running

import chainrule
from chainrule.features.serve.explorer.pictures import attention
from chainrule.features.serve.explorer.records import next_words, surprisals
from chainrule.features.serve.explorer.show import page_files
from chainrule.features.serve.explorer.ways import lens, way
from chainrule.features.vision.network.config import ResNetLabelling
from chainrule.features.vision.pictures.codec import encode_png

if TYPE_CHECKING:
    from running import Running

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEXT = "ke di ba"


def asked(served: Running, view: str, model: str, **fields: Any) -> dict[str, Any]:
    response = served.client.post(f"/v1/explore/{view}", json={"model": model, **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize("name", ["ngram", "likelihood", "mixture", "bytes", "lstm", "transformer"])
def test_next_words_have_the_probabilities_of_the_library(served: Running, folders: dict[str, Path], name: str) -> None:
    expected = chainrule.load(folders[name]).next(TEXT, 10)
    record = asked(served, "next", name, text=TEXT, top=10)
    assert [token["token"] for token in record["tokens"]] == [token for token, _ in expected]
    assert [token["prob"] for token in record["tokens"]] == pytest.approx([prob for _, prob in expected], rel=1e-6)


def test_a_token_is_appended_as_the_text_goes_on(served: Running) -> None:
    for name, typed, added in (("ngram", "ke di", " "), ("ngram", "ke di ", ""), ("bytes", "ke d", "")):
        best = asked(served, "next", name, text=typed)["tokens"]
        texts = [token["added"] for token in best if token["added"] is not None]
        assert texts
        assert all(text.startswith(added) and (added or not text.startswith(" ")) for text in texts if text.strip())
    assert all(token["added"] is None for token in best if token["token"] in ("<unk>", "</s>"))


def test_settings_cut_what_generate_never_draws(served: Running, folders: dict[str, Path]) -> None:
    model = chainrule.load(folders["ngram"])
    settings = {"temperature": 0.7, "top_k": 4, "min_p": 0.1}
    record = asked(served, "next", "ngram", text=TEXT, top=20, **settings)
    drawn = {token["token"]: token["drawn"] for token in record["tokens"] if token["drawn"]}
    texts = model.sample(TEXT, 400, chainrule.SamplingConfig(**settings), chainrule.Limits(max_tokens=1), seed=3)
    counts: dict[str, int] = {}
    for text in texts:
        token = text.tokens[-1] if text.tokens else "</s>"
        counts[token] = counts.get(token, 0) + 1
    assert record["kept"] == len(drawn) <= 4
    assert set(counts) <= set(drawn)
    assert math.fsum(drawn.values()) == pytest.approx(1)
    for token, prob in drawn.items():
        assert counts.get(token, 0) / 400 == pytest.approx(prob, abs=4 * math.sqrt(prob * (1 - prob) / 400))


@pytest.mark.parametrize("name", ["ngram", "compact", "padded"])
def test_the_back_off_chain_multiplies_to_the_probability(folders: dict[str, Path], name: str) -> None:
    model = chainrule.load(folders["ngram"])
    if name == "compact":
        model = model.compact()
    if name == "padded":
        config = chainrule.NGramConfig(order=3, begins="all")
        model = chainrule.train(FIXTURES / "train.txt", config, tokenizer="whitespace")
    engine = model.language_model
    tokens = np.arange(3, engine.vocabulary_size, 7, dtype=np.int32)
    for text in ("", "ke", "ke di", "no such words at all ke di"):
        state = engine.start([model.tokenizer.encode_texts([text]).ids[:-1]])
        log_probs = engine.next_log_probs(state)[0]
        steps = engine.backoff_chain(state, tokens)
        for column, token in enumerate(tokens.tolist()):
            total = 0.0
            for step in steps:
                if not math.isnan(step.log_probs[column]):
                    total += step.log_probs[column]
                    break
                total += step.log_backoff
            assert total == pytest.approx(log_probs[token], abs=1e-5)


def test_components_of_a_linear_mixture_add_up(folders: dict[str, Path]) -> None:
    trigram = chainrule.load(folders["ngram"])
    unigram = chainrule.train(FIXTURES / "train.txt", chainrule.NGramConfig(order=1), tokenizer="whitespace")
    config = chainrule.MixtureConfig(kind="linear", weights=(0.7, 0.3))
    record = next_words(chainrule.mix([trigram, unigram], config, names=["three", "one"]), TEXT, 8)
    assert [(one["name"], one["weight"]) for one in record["components"]] == [
        ("three", pytest.approx(0.7)),
        ("one", pytest.approx(0.3)),
    ]
    for i, token in enumerate(record["tokens"]):
        parts = [one["weight"] * one["probs"][i] for one in record["components"]]
        assert sum(parts) == pytest.approx(token["prob"], rel=1e-5)


def test_neighbours_are_components_and_passages(folders: dict[str, Path]) -> None:
    settings = {"neural_cache": 9, "neural_cache_theta": 1.0, "neural_cache_weight": 0.2}
    settings |= {"neighbours_temperature": 1.0, "neighbours_weight": 0.5}
    text = chainrule.Lines(["ke di ba", "di ba ke", "ba ke di"] * 9)
    model = chainrule.with_neighbours(chainrule.load(folders["lstm"]), neighbours=text, **settings)  # type: ignore[arg-type]
    record = next_words(model, TEXT, 8)
    assert [one["name"] for one in record["components"]] == ["network", "cache", "neighbours"]
    for i, token in enumerate(record["tokens"]):
        parts = [one["weight"] * one["probs"][i] for one in record["components"]]
        assert sum(parts) == pytest.approx(token["prob"], rel=1e-4)
    assert record["passages_weight"] == pytest.approx(0.7)
    assert {passage["token"] for passage in record["passages"]} <= {*"kediba", "·", "</s>"}


def test_surprisal_adds_up_to_the_score_and_to_bits_per_byte(
    served: Running, folders: dict[str, Path], tmp_path: Path
) -> None:
    text = "ke di ba unheardof"
    (tmp_path / "text.txt").write_text(text + "\n")
    for name in ("ngram", "lstm"):
        model = chainrule.load(folders[name])
        for by in ("tokens", "words", "characters"):
            record = asked(served, "surprisal", name, text=text, by=by)
            assert sum(unit["log_prob"] for unit in record["units"]) == pytest.approx(model.score([text])[0], abs=1e-4)
            measured = model.evaluate(tmp_path / "text.txt").bits_per_byte
            assert record["bits_per_byte"] == pytest.approx(measured, rel=1e-6)
            assert record["units"][0]["log_prob"] < 0


def test_scores_that_are_no_distribution_have_surprisals_without_ranks() -> None:
    config = chainrule.NGramConfig(order=2, smoothing="stupid-backoff")
    model = chainrule.train(FIXTURES / "train.txt", config, tokenizer="whitespace")
    record = surprisals(model, TEXT)
    assert record["log_prob"] == pytest.approx(model.score([TEXT])[0], abs=1e-4)
    assert "rank" not in record["units"][0]
    record = surprisals(model, TEXT, "words")
    assert sum(unit["text_log_prob"] for unit in record["units"]) == pytest.approx(record["text_log_prob"])
    assert "whole_log_prob" not in record["units"][0]
    with pytest.raises(chainrule.SettingError, match="do not sum to one"):
        way(model, TEXT)


def test_words_pay_for_their_own_ends(served: Running) -> None:
    record = asked(served, "surprisal", "bytes", text=TEXT, by="words")
    whole, raw = ([unit[name] for unit in record["units"]] for name in ("whole_log_prob", "text_log_prob"))
    assert sum(whole) == pytest.approx(sum(raw), abs=1e-5)
    assert whole[0] < raw[0]  # that it ends was free
    record = asked(served, "surprisal", "ngram", text=TEXT, by="words")
    assert all(unit["whole_log_prob"] == pytest.approx(unit["text_log_prob"]) for unit in record["units"])


def test_a_long_text_is_cut_and_the_record_says_so(served: Running) -> None:
    record = asked(served, "surprisal", "ngram", text="ke di ba fi fe " * 10_000, by="words")
    assert record["left_out"] == 15 * 10_000 - 20_000
    assert len(record["units"]) == 6668  # 6,666 words, a cut one, and the end
    record = asked(served, "next", "ngram", text="ke di ba fi fe " * 10_000)
    assert record["left_out"] == 15 * 10_000 - 20_000
    assert record["tokens"] == asked(served, "next", "ngram", text="ba fi fe ")["tokens"]


def network_of_two_layers(context: int) -> chainrule.CausalModel:
    config = chainrule.TransformerConfig(layers=2, width=16, heads=2, context=context, zero_projections=False)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    return chainrule.train(FIXTURES / "train.txt", config, tokenizer="byte", training=training)


def test_beams_and_attention_are_those_of_the_library(
    served: Running, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = asked(served, "beams", "ngram", text="ke", size=2, max_tokens=4)
    [best] = chainrule.load(folders["ngram"]).beam("ke", chainrule.BeamConfig(size=2), chainrule.Limits(max_tokens=4))
    assert tree["nodes"][tree["best"][-1]]["total"] == pytest.approx(best.log_prob, abs=1e-5)
    record = asked(served, "attention", "transformer", text="ke di")
    [layer] = chainrule.attend(chainrule.load(folders["transformer"]), "ke di").maps
    weights = np.frombuffer(base64.b64decode(record["weights"]), "<f4").reshape(layer.weights.shape)
    np.testing.assert_allclose(weights, layer.weights, atol=1e-6)
    assert record["rows"] == list(layer.rows)
    assert record["removable"]
    assert "without" not in record  # it costs a reading for each head, so only who asks for it waits
    effects = chainrule.inspect(chainrule.load(folders["transformer"]), "ke di", remove="zero").effects
    record = asked(served, "attention", "transformer", text="ke di", without=True)
    np.testing.assert_allclose(record["without"], [effects[0, : len(layer.weights)]], atol=1e-5)
    monkeypatch.setattr("chainrule.features.serve.explorer.pictures._MOST_READ", 5)
    deep = network_of_two_layers(context=16)
    effects = chainrule.inspect(deep, "ke di", remove="zero", progress=False).effects
    first, second = attention(deep, "ke di", 1, without=True)["without"]
    assert first is None
    np.testing.assert_allclose(second, effects[1, :2], atol=1e-5)
    monkeypatch.undo()
    np.testing.assert_allclose(attention(deep, "ke di", 1, without=True)["without"], effects[:2, :2], atol=1e-5)
    assert not asked(served, "attention", "transformer", text="", without=True)["removable"]


def test_layers_of_a_network_are_read_by_its_output(served: Running, folders: dict[str, Path]) -> None:
    record = asked(served, "next", "lstm", text=TEXT, top=5)
    assert "layers" not in record  # it has one
    model = network_of_two_layers(context=16)
    own = next_words(model, TEXT, 5)
    assert [layer["layer"] for layer in own["layers"]] == [1, 2]
    last = own["layers"][-1]
    assert last["probs"] == pytest.approx([token["prob"] for token in own["tokens"]], rel=1e-5)
    assert [guess["shown"] for guess in last["guesses"]] == [token["shown"] for token in own["tokens"]]


def test_models_of_pairs_are_looked_into_given_a_source(tmp_path: Path) -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16, heads=2), training=training)
    model.save(tmp_path / "mt")
    with running({"mt": tmp_path / "mt"}) as server:
        assert asked(server, "model", "mt")["given"] == "source"
        body = {"text": "a", "given": "ein Hund"}
        expected = model.given("ein Hund").next("a", 4)
        record = asked(server, "next", "mt", **body, top=4)
        assert [token["prob"] for token in record["tokens"]] == pytest.approx([prob for _, prob in expected], rel=1e-6)
        scored = asked(server, "surprisal", "mt", text="a dog", given="ein Hund")
        assert scored["log_prob"] == pytest.approx(model.score(chainrule.Pairs(["ein Hund"], ["a dog"]))[0], abs=1e-5)
        tree = asked(server, "beams", "mt", **body, size=2, max_tokens=3)
        best = model.write(["ein Hund"], chainrule.BeamConfig(size=2), begin="a", max_tokens=3)[0][0]
        assert tree["nodes"][tree["best"][-1]]["total"] == pytest.approx(best.log_prob, abs=1e-4)


def test_captions_are_looked_into_given_a_picture(tmp_path: Path) -> None:
    picture = np.zeros((8, 16, 3), np.uint8)
    picture[:, 8:, 0] = 250
    network, training = (
        ResNetLabelling(size=(8, 16), width=4, blocks=(1,)),
        chainrule.ClassifierTrainingConfig(epochs=1),
    )
    labelled = [chainrule.LabelledPicture(chainrule.as_picture(picture), (name,)) for name in ("red", "none")]
    chainrule.train_classifier(labelled, network, training=training, progress=False).save(tmp_path / "network")
    captioned = [chainrule.CaptionedPicture(chainrule.as_picture(picture), ("red on the right",))] * 24
    steps = chainrule.TrainingConfig(steps=2, batch=2, compile="no", precision="float32")
    model = chainrule.train_captions(
        captioned, chainrule.CaptionConfig(width=16), encoder=tmp_path / "network", training=steps, progress=False
    )
    model.save(tmp_path / "captioner")
    panels = attention(model, "red on", picture=chainrule.as_picture(picture))["panels"]
    assert [panel["token"] for panel in panels] == ["red", "on", "</s>"]
    assert all(panel["address"].startswith("data:image/png;base64,") for panel in panels)
    expected = model.given(picture).next("red", 3)
    with running({"lm": tmp_path / "captioner"}) as server:
        assert asked(server, "model", "lm")["given"] == "picture"
        data = base64.b64encode(encode_png(picture)).decode()
        record = asked(server, "next", "lm", text="red", top=3, picture=data)
        assert [token["prob"] for token in record["tokens"]] == pytest.approx([prob for _, prob in expected], rel=1e-6)
        for wrong in ("", "no base64!", base64.b64encode(b"no picture").decode()):
            response = server.client.post("/v1/explore/next", json={"text": "red", "picture": wrong})
            assert response.status_code == 400
            assert "picture" in response.json()["error"]["message"]


def test_one_bound_on_the_length_is_told_and_none_where_no_length_would_do(folders: dict[str, Path]) -> None:
    narrow, long = network_of_two_layers(context=16), "ke di ba " * 200
    for view in (attention, lens):
        with pytest.raises(chainrule.SettingError, match=r"1,799 tokens, but the network reads at most 15 at once"):
            view(narrow, long.strip())
        assert view(narrow, "ke di ba ke di ")  # 15 letters
        for name in ("ngram", "lstm"):
            with pytest.raises(chainrule.SettingError, match=r"no attention|no layers|one layer"):
                view(chainrule.load(folders[name]), long)
    wide = network_of_two_layers(context=1024)
    for view, most in ((attention, 512), (lens, 256)):
        with pytest.raises(chainrule.SettingError, match=rf"513 tokens; this is shown of up to {most}: shorten it"):
            view(wide, "a" * 513)
    assert attention(wide, "a" * 512)["rows"][0] == "<s>"
    single = network_of_two_layers(context=1)
    for view in (attention, lens):
        with pytest.raises(chainrule.SettingError, match=r"one token at a time \(context 1\)"):
            view(single, "ke")
        assert view(single, "")


def test_the_beginning_has_one_name_and_what_is_left_out_is_counted(folders: dict[str, Path]) -> None:
    network, counted, text = network_of_two_layers(context=16), chainrule.load(folders["ngram"]), "ke di ba fi fe " * 2
    assert {record["read"][0] for record in (lens(network, TEXT), way(network, TEXT)["way"])} == {"<s>"}
    assert attention(network, TEXT)["columns"][0] == "<s>"
    through = way(network, text)["way"]
    assert through["read"][0] != "<s>"  # the window has moved on
    assert through["tokens_before"] + len(through["read"]) == len(text) + 1
    assert way(counted, text)["tokens_before"] == 2
    assert way(counted, TEXT)["tokens_before"] == 0
    gates = way(chainrule.load(folders["lstm"]), text * 2)["way"]
    assert gates["tokens_before"] + len(gates["read"]) == 2 * len(text) + 1


def test_a_view_says_what_a_model_needs_for_it(served: Running) -> None:
    response = served.client.post("/v1/explore/attention", json={"model": "ngram", "text": "I"})
    assert response.status_code == 400
    assert "expected a Transformer" in response.json()["error"]["message"]


def test_the_page_is_small_and_takes_nothing_from_elsewhere(served: Running) -> None:
    page = served.client.get("/", follow_redirects=True)
    assert page.status_code == 200
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    sizes = [len(content) for name, (content, _) in page_files().items()]
    assert sum(sizes) < 130_000
    for name, (content, _) in page_files().items():
        text = content.decode()
        assert served.client.get(f"/explore/{name}").content == content
        assert not re.search(r"innerHTML|insertAdjacentHTML|\beval\b|document\.write|new Function", text), name
        assert set(re.findall(r"https?://[^\s\"']*", text)) <= {"http://www.w3.org/2000/svg"}, name
    for name in ("nothing.js", "..%2fpage.py", "__init__.py"):
        assert served.client.get(f"/explore/{name}").status_code == 404


def test_the_page_needs_no_key_and_its_routes_do(folders: dict[str, Path]) -> None:
    with running({"lm": folders["ngram"]}, key="a-secret-key") as server:
        assert server.client.get("/explore/main.js").status_code == 200
        assert server.client.post("/v1/explore/next", json={"text": "I"}).status_code == 401
