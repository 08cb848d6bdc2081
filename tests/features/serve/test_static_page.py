"""The explorer as one file: opened from the disk in Chromium, it gives Python's own numbers, and asks nobody."""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

import numpy as np
import pytest
from browser import CHROMIUM, Browser, Page

import chainrule
from chainrule.cli.main import app, run
from chainrule.cli.shared.wrong_usage import in_options
from chainrule.features.open.network.config import OpenTransformerConfig
from chainrule.features.serve.explorer.changes import changes
from chainrule.features.serve.explorer.pictures import attention
from chainrule.features.serve.explorer.records import next_words, surprisals
from chainrule.features.serve.explorer.ways import lens, way
from chainrule.neural.layers.matrix_products import is_packed, unpacked_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

in_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: the explorer's page is not tested; apt-get install chromium"
)

TRAIN = Path(__file__).parents[2] / "fixtures" / "train.txt"
ODD = "ke di Zürich, 日本 (ba-ba) don't 3.14  <b>\n\tx ﬁ é́ zz9"
TEXTS = ["ke di ba", "", ODD, "ka vi nin bu gi " * 5]
BY = ("tokens", "words", "characters", "bytes")
CLOSE = 1e-4  # nats a token
SAMPLING: dict[str, Any] = {"temperature": 0.7, "top_k": 7, "top_p": 0.8, "min_p": 0.05}
SHOWN = "document.querySelector('#result table') || document.querySelector('#message')?.innerText"


def table(order: int = 3, tokenizer: Any = "word", **settings: Any) -> chainrule.CausalModel:
    return chainrule.train(TRAIN, chainrule.NGramConfig(order=order, **settings), tokenizer=tokenizer)


def network(tokenizer: Any = "byte", **settings: Any) -> chainrule.CausalModel:
    sizes = {"layers": 2, "width": 32, "heads": 2, "context": 32, "zero_projections": False}
    kind = OpenTransformerConfig if "sublayer_norms" in settings else chainrule.TransformerConfig
    config = kind(**{**sizes, **settings})
    return chainrule.train(TRAIN, config, tokenizer=tokenizer, training=chainrule.TrainingConfig(steps=1, compile="no"))


@pytest.fixture(scope="module")
def tables() -> dict[str, chainrule.CausalModel]:
    bpe, unigram = (chainrule.TokenizerConfig(kind=kind, vocabulary_size=280) for kind in ("bpe", "unigram"))
    lower = chainrule.TokenizerConfig(kind="word", normalise=("nfkc", "lower"), vocabulary_size=100)
    return {
        "words": table(),
        "compact": table().compact(),
        "additive": table(tokenizer="whitespace", smoothing="lidstone"),
        "likelihood": table(2, smoothing="maximum-likelihood"),
        "stupid": table(smoothing="stupid-backoff"),
        "padded": table(begins="all"),
        "unigrams": table(1, tokenizer=lower),
        "characters": table(4, "character"),
        "bytes": table(4, "byte", smoothing="witten-bell"),
        "bpe": table(3, bpe),
        "unigram pieces": table(3, unigram),
    }


@pytest.fixture(scope="module")
def networks() -> dict[str, chainrule.CausalModel]:
    gpt: dict[str, Any] = {
        "norm": "layer",
        "norm_gain": True,
        "biases": True,
        "tied": True,
        "embedding_norm": False,
        "query_key_norm": False,
    }
    return {
        "own": network(chainrule.TokenizerConfig(kind="bpe", vocabulary_size=270), embedding_norm=True),
        "int8": network().compact(),
        "gpt": network(**gpt, positions="learned", feed_forward="gelu", initialisation="gpt2"),
        "first": network(**gpt, norm_place="post", positions="sinusoidal", feed_forward="relu", score="dot"),
        "llama": network(key_value_heads=1, feed_forward="swiglu", norm_gain=True, rotary_base=500.0),
        "aside": network(parallel=True, positions="alibi", window=5, feed_forward="geglu_exact", memory="document"),
        "gemma": network(
            sublayer_norms="both", norm_gain=True, gains_above_one=True, score_cap=20.0, logit_cap=10.0,
            scaled_embedding=True, feed_forward="geglu", head_width=12, rotary_width=8, norm_epsilon=1e-6,
            window=4, window_every=2,
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def opened(browser: Browser, models: dict[str, chainrule.CausalModel], path: Path, **options: Any) -> Page:
    chainrule.explore(models, **options).save(path)
    page = browser.open(path.as_uri())
    page.wait(SHOWN)
    return page


def answer(page: Page, path: str, **body: Any) -> dict[str, Any]:
    """What the page's views get."""
    asked = f"import('page/server.js').then(server => server.ask({json.dumps(path)}, {json.dumps(body)}))"
    record: dict[str, Any] = page.evaluate(asked)
    return record


def numbers(weights: str) -> list[float]:
    found: list[float] = np.frombuffer(base64.b64decode(weights), "<f4").tolist()
    return found


def check_close(own: Any, expected: Any, closeness: float = CLOSE) -> None:
    """Equal, but for floating-point numbers, which are close."""
    if isinstance(expected, float):
        assert own == pytest.approx(expected, abs=closeness)
    else:
        assert own == expected


def check_surprisals(page: Page, name: str, model: chainrule.CausalModel, text: str, by: Any) -> None:
    expected, own = surprisals(model, text, by), answer(page, "/v1/explore/surprisal", model=name, text=text, by=by)
    for key in expected.keys() - {"units"}:
        check_close(own[key], expected[key], CLOSE * expected["tokens"])
    assert len(own["units"]) == len(expected["units"])
    for unit, one in zip(own["units"], expected["units"], strict=True):
        assert unit.keys() == one.keys() - {"ngram_length"}
        for key in unit.keys() - {"likelier", "rank"}:  # of equally likely tokens, either may come first
            check_close(unit[key], one[key])


def check_next(page: Page, name: str, model: chainrule.CausalModel, text: str, **settings: Any) -> None:
    expected = next_words(model, text, 20, chainrule.SamplingConfig(**settings))
    own = answer(page, "/v1/explore/next", model=name, text=text, top=20, **settings)
    for key in ("context", "possible", "entropy", "cut_prob", "left_out"):
        check_close(own[key], expected[key])
    by_token = {token["token"]: token for token in own["tokens"]}
    for token in expected["tokens"]:
        if token["token"] in by_token:
            for key in token:
                check_close(by_token[token["token"]][key], token[key])
    for step, one in zip(own.get("backoff", []), expected.get("backoff", []), strict=True):
        assert (step["context"], step["continuations"]) == (one["context"], one["continuations"])
    for layer, one in zip(own.get("layers", []), expected.get("layers", []), strict=True):
        assert sorted(layer["probs"]) == pytest.approx(sorted(one["probs"]), abs=CLOSE)


@in_chromium
def test_tables_give_the_numbers_of_python(
    browser: Browser, tables: dict[str, chainrule.CausalModel], tmp_path: Path
) -> None:
    page = opened(browser, tables, tmp_path / "page.html")
    for i, (name, model) in enumerate(tables.items()):
        for j, text in enumerate(TEXTS):
            check_surprisals(page, name, model, text, BY[(i + j) % len(BY)])
            check_surprisals(page, name, model, text, "tokens")
            if name != "stupid":
                check_next(page, name, model, text, **SAMPLING if j % 2 else {})
        if name != "stupid":
            own = answer(page, "/v1/explore/changes", model=name, text="ke di", instead="ke xx di")
            expected = changes(model, "ke di", "ke xx di")
            for side in ("before", "after"):
                check_close(own[side]["entropy"], expected[side]["entropy"])
            assert answer(page, "/v1/explore/way", model=name, text="ke di")["way"] == {"kind": "ngram"}
    assert page.problems == []
    assert page.requests == [(tmp_path / "page.html").as_uri()]
    page.close()


@in_chromium
def test_several_models_give_the_next_tokens_of_python(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("ke di\nke di ba\n")
    few = chainrule.train(tmp_path / "few.txt", chainrule.NGramConfig(order=2))
    models = {"words": table(), "few": few, "bytes": table(2, "byte")}
    page = opened(browser, models, tmp_path / "page.html")
    own = answer(page, "/v1/explore/beside", model="few", also=["words"], text="ke di", top=5)
    expected = [*chainrule.next_tokens({name: models[name] for name in ("few", "words")}, "ke di", 5)]
    assert any(row["prob_few"] is None for row in expected)
    of_page = {token["token"]: token["probs"] for token in own["tokens"]}
    for row in expected[:5]:  # of equally likely tokens, either may come first
        for prob, one in zip(of_page[row["token"]], (row["prob_few"], row["prob_words"]), strict=True):
            check_close(prob, one)
    with pytest.raises(Exception, match="cannot share rows"):
        answer(page, "/v1/explore/beside", model="few", also=["bytes"], text="ke di")
    page.close()


@in_chromium
def test_recurrent_networks_give_the_numbers_of_python(browser: Browser, tmp_path: Path) -> None:
    training = chainrule.TrainingConfig(steps=3, compile="no")
    models = {}
    for name, settings in (
        ("lstm", {"layers": 2, "residual": True}),
        ("gru", {"layers": 1, "cell": "gru", "tied": True, "memory": "document"}),
    ):
        config = chainrule.RecurrentConfig(width=16, **settings)
        models[name] = chainrule.train(TRAIN, config, tokenizer="byte", training=training)
    page = opened(browser, models, tmp_path / "page.html")
    for i, (name, model) in enumerate(models.items()):
        for j, text in enumerate(TEXTS):
            check_surprisals(page, name, model, text, BY[(i + j) % len(BY)])
            check_next(page, name, model, text, **SAMPLING if j % 2 else {})
            own, expected = answer(page, "/v1/explore/way", model=name, text=text), way(model, text)
            assert own["logits"] == pytest.approx(expected["logits"], abs=CLOSE)
            assert [own["way"][key] for key in ("read", "tokens_before")] == [
                expected["way"][key] for key in ("read", "tokens_before")
            ]
            for layer, one in zip(own["way"]["layers"], expected["way"]["layers"], strict=True):
                assert layer["units"] == one["units"]
                for gate, values in one["values"].items():
                    assert numbers(layer["values"][gate]) == pytest.approx(numbers(values), abs=CLOSE)
        own, expected = (
            answer(page, "/v1/explore/changes", model=name, text="ke di", instead="ke xx di"),
            changes(model, "ke di", "ke xx di"),
        )
        check_close(own["after"]["entropy"], expected["after"]["entropy"])
    own, expected = answer(page, "/v1/explore/lens", model="lstm", text="ka vi"), lens(models["lstm"], "ka vi")
    assert own["read"] == expected["read"]
    for layer, one in zip(own["layers"], expected["layers"], strict=True):
        assert layer["of_next"][:-1] == pytest.approx(one["of_next"][:-1], abs=CLOSE)
    page.evaluate("location.hash = 'view=way&model=lstm&text=ke+di'")
    page.wait("document.querySelector('#result').innerText.includes('the hidden state of 16 of 16 units')")
    assert page.problems == []
    page.close()


@in_chromium
def test_transformers_give_the_numbers_of_python(
    browser: Browser, networks: dict[str, chainrule.CausalModel], tmp_path: Path
) -> None:
    page = opened(browser, networks, tmp_path / "page.html")
    for i, (name, model) in enumerate(networks.items()):
        for j, text in enumerate(TEXTS):
            check_surprisals(page, name, model, text, BY[(i + j) % len(BY)])
            check_next(page, name, model, text, **SAMPLING if j % 2 else {})
        own = answer(page, "/v1/explore/attention", model=name, text="ka vi ka", layer=None)
        expected = attention(model, "ka vi ka", None)
        own["weights"], expected["weights"] = (numbers(record["weights"]) for record in (own, expected))
        assert own["weights"] == pytest.approx(expected["weights"], abs=CLOSE)
        for key in ("rows", "columns", "special", "layers", "layer", "chosen", "heads"):
            assert own[key] == expected[key]
        heads = (itertools.chain(*record["overview"]) for record in (own, expected))
        for head, one in zip(*heads, strict=True):
            assert (head["kind"], head["height"]) == (one["kind"], one["height"])
            check_close(head["entropy"], one["entropy"], 3e-4)
            assert list(head["looks"].values()) == pytest.approx(list(one["looks"].values()), abs=3e-4)
        check_way(page, name, model)
    assert page.problems == []
    page.close()


def check_way(page: Page, name: str, model: chainrule.CausalModel) -> None:
    """The way, the lens, and what changes without heads, as Python has them."""
    text, other = "ka vi ka", "ka va ka"
    own, expected = answer(page, "/v1/explore/way", model=name, text=text), way(model, text)
    assert own["logits"] == pytest.approx(expected["logits"], abs=CLOSE)
    for part, one in zip(own["way"]["parts"], expected["way"]["parts"], strict=True):
        assert (part["part"], part["layer"]) == (one["part"], one["layer"])
        assert numbers(part["vector"]) == pytest.approx(numbers(one["vector"]), abs=CLOSE)
        check_close(part["after"], one["after"], 1e-3)
        assert part["shares"] == (one["shares"] and pytest.approx(one["shares"], abs=1e-3))
    for layer, one in zip(own["way"]["attention"], expected["way"]["attention"], strict=True):
        assert numbers(layer["weights"]) == pytest.approx(numbers(one["weights"]), abs=CLOSE)
    own, expected = answer(page, "/v1/explore/lens", model=name, text=text), lens(model, text)
    for layer, one in zip(own["layers"], expected["layers"], strict=True):
        assert layer["of_next"][:-1] == pytest.approx(one["of_next"][:-1], abs=CLOSE)
    for by, off in (("zero", ["1.2", "2"]), ("mean", ["1.attention", "2.1"]), ("patch", ["2.feed-forward", "1.1"])):
        fields: dict[str, Any] = {"instead": other if by == "patch" else "", "off": off, "by": by}
        own = answer(page, "/v1/explore/changes", model=name, text=text, **fields)
        expected = changes(model, text, **fields)
        assert own["units"] == expected["units"]
        for side in ("before", "after"):
            check_close(own[side]["entropy"], expected[side]["entropy"])
            scores = [[token["log_prob"] for token in record[side]["tokens"]] for record in (own, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=CLOSE)


@in_chromium
def test_the_views_work_without_a_server(browser: Browser, tmp_path: Path) -> None:
    """A text that looks like markup stays a text; generation depends on its seed alone; the page can be saved."""
    hostile = "<img/src=x/onerror=window.hacked=1> ke"
    page = opened(browser, {"</script>": table()}, tmp_path / "page.html", text=hostile)
    assert page.evaluate("document.querySelector('textarea').value") == hostile
    empty = opened(browser, {"lm": table(2)}, tmp_path / "empty.html", text="")
    assert empty.evaluate("document.querySelector('textarea').value") == ""
    empty.close()
    names = page.evaluate("[...document.querySelectorAll('#views button')].map(one => one.innerText)")
    assert names == ["Next words", "Surprisal", "Playground", "Step by step", "Remove and replace"]
    write = "[...document.querySelectorAll('button')].find(one => one.innerText === '%s')?.click()"
    texts = "[...document.querySelectorAll('article')].map(one => one.innerText)"
    page.evaluate(write % "Playground")
    page.wait("document.querySelectorAll('article').length === 2 && !document.querySelector('#result.is-old')")
    first = page.evaluate(texts)
    page.evaluate(write % "Write")
    page.wait("!document.querySelector('#result.is-old')")
    assert page.evaluate(texts) == first != []
    page.evaluate("globalThis.saved = null; URL.createObjectURL = file => { saved = file; return 'data:,'; }")
    page.evaluate(write % "Save as one HTML file")
    page.wait("saved")
    assert "<article" in page.evaluate("saved.text()")
    assert "<script" not in page.evaluate("saved.text()")
    assert page.evaluate("window.hacked === undefined")
    page.evaluate("location.hash = 'view=changes&off=1.1'")
    page.wait("document.querySelector('#message').innerText.includes('no heads to switch off')")
    assert page.problems == []
    page.close()


@in_chromium
def test_a_long_text_is_read_in_slices_and_a_network_reads_no_more_than_it_needs(
    browser: Browser, networks: dict[str, chainrule.CausalModel], tmp_path: Path
) -> None:
    page = opened(browser, {"net": networks["int8"], "table": table()}, tmp_path / "page.html")
    page.evaluate(
        "import('page/offline/transformer.js').then(({ Transformer }) => { globalThis.steps = 0; "
        "const step = Transformer.prototype.step; "
        "Transformer.prototype.step = function (...given) { steps += 1; return step.apply(this, given); }; "
        "globalThis.shares = []; document.addEventListener('progress', event => shares.push(event.detail)); "
        "globalThis.clock = 0; performance.now = () => clock += 1; })"  # a millisecond each, on any machine
    )
    text = "ke di ba " * 2300
    check_next(page, "net", networks["int8"], text.strip())
    assert page.evaluate("steps") <= 32  # one window
    parameters = networks["int8"].engine.network.named_parameters()
    weights = sum(math.prod(unpacked_shape(one) if is_packed(one) else one.shape) for _, one in parameters)
    read = int(5e8 / weights / 100) * 100
    assert 1000 < read < 20_000
    # The bound of the network is that of the table, too, so that they can be compared.
    assert answer(page, "/v1/explore/surprisal", model="table", text=text)["left_out"] == len(text) - read
    assert answer(page, "/v1/explore/surprisal", model="net", text=text[:1500])["left_out"] == 0
    shares = page.evaluate("shares")
    assert len(shares) > 1
    assert all(0 <= share <= 1 for share in shares)
    for path in ("attention", "lens"):
        body = "{ model: 'net', text: 'a'.repeat(600) }"
        asked = f"import('page/server.js').then(server => server.ask('/v1/explore/{path}', {body}))"
        assert "600 tokens, but the network reads at most 31" in page.evaluate(f"{asked}.catch(error => error.message)")
    page.evaluate("location.hash = 'view=chat&unit=words'")
    page.wait("document.querySelector('#wrong').innerText.includes('no Chat of this model')")
    assert "no field unit" in page.evaluate("document.querySelector('#wrong').innerText")
    page.close()


@in_chromium
def test_a_damaged_page_says_so(browser: Browser, tables: dict[str, chainrule.CausalModel], tmp_path: Path) -> None:
    html = chainrule.explore(tables["words"]).html
    start = html.index('class="model">')
    for name, damaged in (("cut", html[: start + 5000]), ("changed", html[: start + 50] + "AAAA" + html[start + 54 :])):
        path = tmp_path / f"{name}.html"
        path.write_text(damaged, "utf-8")
        page = browser.open(path.as_uri())
        page.wait("document.querySelector('#message')?.innerText.includes('the file is damaged')")
        page.close()


def test_what_a_page_cannot_hold_is_refused_by_name(
    tables: dict[str, chainrule.CausalModel],
    networks: dict[str, chainrule.CausalModel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small: dict[str, Any] = {"layers": 1, "width": 16}
    training = chainrule.TrainingConfig(steps=1, compile="no")
    simple = chainrule.RecurrentConfig(**small, cell="rnn_tanh")
    with pytest.raises(chainrule.SettingError, match="simple: cell is rnn_tanh, which a page cannot compute; train"):
        chainrule.explore({"simple": chainrule.train(TRAIN, simple, tokenizer="byte", training=training)})
    lstm = chainrule.train(TRAIN, chainrule.RecurrentConfig(**small), tokenizer="byte", training=training)
    with pytest.raises(chainrule.SettingError, match="of Transformers alone, and this model is of family recurrent"):
        chainrule.explore(lstm, int8=True)
    with pytest.raises(chainrule.SettingError, match="positions is relative"):
        chainrule.explore(network(positions="relative"))
    pieces = chainrule.TokenizerConfig(kind="wordpiece", vocabulary_size=400)
    with pytest.raises(chainrule.SettingError, match="wordpiece tokenizer"):
        chainrule.explore(table(2, pieces))
    mixed = chainrule.mix([tables["words"], table(1)])
    with pytest.raises(chainrule.SettingError, match="none of them"):
        chainrule.explore(mixed)
    with pytest.raises(chainrule.SettingError, match="n-gram models have none: leave it out"):
        chainrule.explore({"words": tables["words"], "bytes": tables["bytes"]}, int8=True)
    monkeypatch.setattr("chainrule.features.serve.explorer.offline.page.MOST", 100_000)
    with pytest.raises(chainrule.SettingError, match=r"the page would have [\d,]+ bytes, and 100,000.*--int8"):
        chainrule.explore(networks["own"])
    with pytest.raises(chainrule.SettingError, match="train a smaller network: about a million"):
        chainrule.explore(lstm)
    with pytest.raises(chainrule.SettingError, match="prune"):
        chainrule.explore(tables["words"])


HINTS = get_type_hints(chainrule.TransformerConfig)


@pytest.mark.parametrize(
    "name",  # those left out change nothing that a page computes: it has the first token's number, and reads one text
    [name for name, hint in HINTS.items() if get_origin(hint) is Literal and name not in ("memory", "begins_with")],
)
def test_a_choice_that_the_page_does_not_know_is_refused_by_name(name: str) -> None:
    model = network()
    if name == "initialisation":
        object.__setattr__(model.engine.network.config, name, "xavier")
        chainrule.explore(model)
        return
    object.__setattr__(model.engine.network.config, name, "newer")
    with pytest.raises(chainrule.SettingError, match=f"{name} (is )?newer, which a page cannot compute"):
        chainrule.explore(model)


def test_the_output_that_a_page_needs_is_named_as_an_option() -> None:
    model = network()
    object.__setattr__(model.engine.network.config, "output", "adaptive")
    with pytest.raises(chainrule.SettingError) as refused:
        chainrule.explore(model)
    shown = in_options(str(refused.value), app["explore"])
    assert shown.endswith("adaptive, which a page cannot compute; train the network with --output-layer full")


def test_the_modules_of_the_page_make_no_markup_of_text_and_name_no_host() -> None:
    for module in (files("chainrule.features.serve.explorer") / "static" / "offline").iterdir():
        text = module.read_text("utf-8")
        assert not re.search(r"innerHTML|insertAdjacentHTML|\beval\b|document\.write|new Function|https?:|fetch", text)


def test_the_command_writes_one_file(
    tmp_path: Path, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["explore", "--static", str(folders["ngram"]), f"other={folders['bytes']}", "-o", str(page)]) == 0
    assert "ngram, other in" in capsys.readouterr().out
    assert page.stat().st_size < 5_000_000
    models = {"ngram": chainrule.load(folders["ngram"]), "other": chainrule.load(folders["bytes"])}
    assert page.read_text("utf-8") == chainrule.explore(models).html
    assert run(["explore", "--static", str(folders["ngram"]), "-o", str(page), "--overwrite", "--port", "9000"]) != 0
    assert "--static has none" in capsys.readouterr().err
    assert run(["explore", "--static", str(folders["ngram"]), "-o", str(page)]) != 0
    assert "exists" in capsys.readouterr().err
