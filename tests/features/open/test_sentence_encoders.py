"""Sentence encoders give the vectors that transformers and the formula of their pooling give on the same weights."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from tiny_models import CAUSAL, MASKED, save, shaken, transformers
from tiny_tokenizers import TEXTS, tokenizer_of

import chainrule
from chainrule.cli.main import run
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy import ndarray

ENCODERS = ["bert", "distilbert", "roberta"]
LONG = " ".join(TEXTS * 6)  # longer than the context
MOST = 9  # tokens, those around the text among them
READ = [*TEXTS, "", "dog", LONG]


def written(folder: Path, name: str, content: object) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def as_sentence_transformers(folder: Path, pooling: str, *, is_normalised: bool, most: int | None = MOST) -> Path:
    """The files that sentence-transformers puts beside those of transformers."""
    kinds = ["Transformer", "Pooling", *["Normalize"] * is_normalised]
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    modes = dict.fromkeys((f"pooling_mode_{each}" for each in FORMULAS), False)
    written(folder, "modules.json", modules)
    written(folder, "1_Pooling/config.json", {"word_embedding_dimension": 16, **modes, f"pooling_mode_{pooling}": True})
    written(folder, "sentence_bert_config.json", {"max_seq_length": most, "do_lower_case": False})
    written(folder, "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None})
    return folder


def encoder(name: str, folder: Path) -> Path:
    return save(shaken(MASKED[name]).base_model, folder, tokenizer_of(name))


@pytest.fixture(scope="module", params=ENCODERS)
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, encoder(request.param, tmp_path_factory.mktemp("encoder") / "hf")


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return as_sentence_transformers(encoder("bert", tmp_path / "hf"), "mean_tokens", is_normalised=True)


@torch.inference_mode()
def their_states(name: str, folder: Path, text: str, most: int) -> ndarray:
    """Of all that is read for a text, in float64: (T, D)."""
    model, tokenizer = transformers.AutoModel.from_pretrained(folder).eval(), tokenizer_of(name)
    tokenizer.enable_truncation(most)
    return np.asarray(model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].double().numpy())


FORMULAS: dict[str, Callable[[ndarray], ndarray]] = {
    "mean_tokens": lambda states: states.sum(0) / len(states),
    "max_tokens": lambda states: states.max(0),
    "cls_token": lambda states: states[0],
    "lasttoken": lambda states: states[-1],
    "mean_sqrt_len_tokens": lambda states: states.sum(0) / len(states) ** 0.5,
    "weightedmean_tokens": lambda states: np.average(states, axis=0, weights=np.arange(1, len(states) + 1)),
}


@pytest.mark.spread(12)
@pytest.mark.parametrize("pooling", FORMULAS)
@pytest.mark.parametrize("is_normalised", [True, False])
def test_vectors_of_texts_are_theirs(
    plain: tuple[str, Path], tmp_path: Path, pooling: str, is_normalised: bool
) -> None:
    name, source = plain
    shutil.copytree(source, folder := tmp_path / "hf")
    model = chainrule.load(as_sentence_transformers(folder, pooling, is_normalised=is_normalised))
    for text, own in zip(READ, model.embed(READ), strict=True):
        expected = FORMULAS[pooling](their_states(name, folder, text, MOST))
        expected = expected / np.linalg.norm(expected) if is_normalised else expected
        np.testing.assert_allclose(own, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def with_dense(folder: Path, widths: tuple[int, ...], activation: str, *, bias: bool) -> list[dict[str, ndarray]]:
    """Linear layers after the pooling, as sentence-transformers writes them; returns their tensors."""
    kinds = ["Transformer", "Pooling", *["Dense"] * len(widths), "Normalize"]
    written(folder, "modules.json", modules(*kinds))
    rng, before, layers = np.random.default_rng(1), 16, []
    for i, width in enumerate(widths, 2):
        sizes = {"in_features": before, "out_features": width}
        config = {**sizes, "bias": bias, "activation_function": f"torch.nn.modules.{activation}"}
        written(folder, f"{i}_Dense/config.json", config)
        layers.append({"linear.weight": rng.normal(size=(width, before)).astype(np.float32)})
        if bias:
            layers[-1]["linear.bias"] = rng.normal(size=width).astype(np.float32)
        save_file(layers[-1], folder / f"{i}_Dense" / "model.safetensors")
        before = width
    return layers


DENSE = [((8,), "activation.Tanh", True), ((24, 12), "linear.Identity", False)]


@pytest.mark.parametrize(("widths", "activation", "bias"), DENSE)
def test_vectors_go_through_linear_layers(
    widths: tuple[int, ...], activation: str, bias: bool, bert: Path, tmp_path: Path
) -> None:
    layers = with_dense(bert, widths, activation, bias=bias)
    model = chainrule.load(bert)
    for text, own in zip(READ, model.embed(READ), strict=True):
        expected = FORMULAS["mean_tokens"](their_states("bert", bert, text, MOST))
        for layer in layers:
            expected = layer["linear.weight"].astype(float) @ expected + layer.get("linear.bias", 0)
            expected = np.tanh(expected) if "Tanh" in activation else expected
        np.testing.assert_allclose(own, expected / np.linalg.norm(expected), atol=1e-5, rtol=0)
    chainrule.convert(bert, tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")
    for name in ("lm", "out"):
        np.testing.assert_array_equal(chainrule.load(tmp_path / name).embed(READ), model.embed(READ))
    for i, layer in enumerate(layers, 2):
        went = load_file(tmp_path / "out" / f"{i}_Dense" / "model.safetensors")
        assert went.keys() == layer.keys()
        for name, array in layer.items():
            np.testing.assert_array_equal(went[name], array)


def test_prompts_stand_before_texts(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = {"query": "the cat: ", "document": ""}
    file = {"prompts": prompts, "default_prompt_name": None}
    written(bert, "config_sentence_transformers.json", file)
    model = chainrule.load(bert)
    expected = model.embed([f"the cat: {text}" for text in TEXTS])
    assert not np.array_equal(model.embed(TEXTS), expected)
    np.testing.assert_array_equal(model.embed(TEXTS, prompt_name="query"), expected)
    np.testing.assert_array_equal(model.embed(TEXTS, prompt="the cat: "), expected)
    [of_query] = model.embed_units([TEXTS[0]], chainrule.EmbeddingConfig(prompt_name="query"))
    assert (of_query.text, of_query.units) == (TEXTS[0], [TEXTS[0]])
    for name, message in (("queri", "expected one of query, document"), ("", "expected one of query, document")):
        with pytest.raises(SettingError, match=message):
            model.embed(TEXTS, prompt_name=name)
    written(bert, "config_sentence_transformers.json", {**file, "default_prompt_name": "query"})
    chainrule.convert(bert, tmp_path / "lm")
    np.testing.assert_array_equal(chainrule.load(tmp_path / "lm").embed(TEXTS), expected)
    np.testing.assert_array_equal(chainrule.load(bert).embed(TEXTS, prompt_name="document"), model.embed(TEXTS))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    assert run(["embed", str(tmp_path / "lm"), str(tmp_path / "texts.txt"), "--prompt-name", "document"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    np.testing.assert_allclose([row["vector"] for row in rows], model.embed(TEXTS), atol=1e-6)
    assert run(["embed", str(tmp_path / "lm"), str(tmp_path / "texts.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-6)
    assert [row["text"] for row in rows] == TEXTS


def test_the_first_numbers_are_kept_at_the_same_length(bert: Path, plain: tuple[str, Path]) -> None:
    model = chainrule.load(bert)
    whole, short = model.embed(TEXTS), model.embed(TEXTS, dimensions=5)
    np.testing.assert_allclose(short, whole[:, :5] / np.linalg.norm(whole[:, :5], axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(SettingError, match="dimensions is 17, and this encoder's vectors have 16; take at most that"):
        model.embed(TEXTS, dimensions=17)
    other = chainrule.load(plain[1])
    np.testing.assert_array_equal(other.embed(TEXTS, dimensions=5), other.embed(TEXTS)[:, :5])


@pytest.mark.parametrize("asked", [{"prompt": "query: "}, {"prompt_name": "query"}, {"dimensions": 4}])
def test_what_is_for_sentence_encoders_is_refused_elsewhere(asked: dict[str, Any], bert: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="for the vectors of whole texts by a sentence encoder"):
        chainrule.load(bert).embed(TEXTS, pooling="mean", **asked)
    masked = chainrule.load(save(shaken(MASKED["bert"]), tmp_path / "masked", tokenizer_of("bert")))
    with pytest.raises(SettingError, match=r"sentence encoders, and this network is none|its files name no prompts"):
        masked.embed(TEXTS, **asked)


def test_without_files_of_sentence_transformers_it_is_the_mean_of_what_is_read(plain: tuple[str, Path]) -> None:
    name, folder = plain
    model = chainrule.load(folder)
    assert model.family == "text-encoder"
    for text, own in zip(READ, model.embed(READ), strict=True):
        expected = their_states(name, folder, text, 32).mean(0)
        np.testing.assert_allclose(own, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def test_a_pooling_that_is_asked_for_reads_the_text_alone(plain: tuple[str, Path]) -> None:
    name, folder = plain
    model = chainrule.load(folder)
    states = their_states(name, folder, TEXTS[0], 32)[1:-1]
    [tokens] = model.embed_units([TEXTS[0]], chainrule.EmbeddingConfig(unit="token"))
    np.testing.assert_allclose(tokens.vectors, states, atol=1e-5 * np.abs(states).max(), rtol=0)
    np.testing.assert_allclose(model.embed([TEXTS[0]], pooling="max")[0], states.max(0), atol=1e-4)


def test_newer_files_name_one_pooling(bert: Path) -> None:
    expected = chainrule.load(bert).embed(TEXTS)
    written(bert, "1_Pooling/config.json", {"embedding_dimension": 16, "pooling_mode": "mean", "include_prompt": True})
    np.testing.assert_array_equal(chainrule.load(bert).embed(TEXTS), expected)


def test_it_goes_out_as_it_came(plain: tuple[str, Path], tmp_path: Path) -> None:
    _, source = plain
    shutil.copytree(source, folder := tmp_path / "hf")
    as_sentence_transformers(folder, "max_tokens", is_normalised=True)
    tensors = dict(load_file(folder / "model.safetensors"))
    chainrule.convert(folder, tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")
    for path in sorted(path.relative_to(folder) for path in folder.rglob("*.json")):
        if path.name not in ("config.json", "tokenizer_config.json") or path.parent.name:
            assert (tmp_path / "out" / path).read_bytes() == (folder / path).read_bytes(), path
    went = load_file(tmp_path / "out" / "model.safetensors")
    pooler = {name for name in tensors if name.startswith("pooler.")}  # what is not read, is not written
    assert went.keys() == tensors.keys() - pooler
    for name, array in went.items():
        np.testing.assert_array_equal(array, tensors[name], err_msg=name)
    models = [chainrule.load(tmp_path / name) for name in ("hf", "lm", "out")]
    first, *others = (model.embed(READ) for model in models)
    for other in others:
        np.testing.assert_array_equal(other, first)
    again = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")(TEXTS[0], return_tensors="pt").input_ids
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    torch.testing.assert_close(again(ids).last_hidden_state, theirs(ids).last_hidden_state, atol=0, rtol=0)


def test_what_needs_an_output_is_refused(bert: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n")
    for kind in (chainrule.MaskedModel, chainrule.ScoringModel, chainrule.CausalModel):
        with pytest.raises(
            SettingError, match="'text-encoder' gives vectors of texts and predicts no tokens; this takes"
        ):
            chainrule.load(bert, kind)
    with pytest.raises(SettingError, match="a text encoder cannot be trained further on plain text"):
        chainrule.adapt(bert, text)


def test_a_head_that_fills_masks_is_not_read_where_the_folder_is_a_sentence_encoder(tmp_path: Path) -> None:
    folder = save(shaken(MASKED["bert"]), tmp_path / "hf", tokenizer_of("bert"))
    assert chainrule.load(folder).family == "masked"
    as_sentence_transformers(folder, "mean_tokens", is_normalised=False)
    model = chainrule.load(folder)
    assert model.family == "text-encoder"
    assert model.embed(TEXTS).shape == (3, 16)


def test_a_masked_model_whose_output_is_missing_is_no_encoder(tmp_path: Path) -> None:
    folder = save(shaken(MASKED["bert"]), tmp_path / "hf", tokenizer_of("bert"))
    tensors = dict(load_file(folder / "model.safetensors"))
    save_file({name: array for name, array in tensors.items() if "cls." not in name}, folder / "model.safetensors")
    with pytest.raises(ModelFormatError, match=r"lacks the tensor 'cls\.predictions"):
        chainrule.load(folder)


def test_it_is_finetuned_and_shows_its_attention(bert: Path, tmp_path: Path) -> None:
    model = chainrule.load(bert)
    labelled = [chainrule.Labelled(text, (label,)) for label in ("cat", "dog") for text in [f"the {label} sat"] * 8]
    classifier = chainrule.finetune(model, labelled, config=chainrule.FineTuningConfig(epochs=1))
    classifier.save(tmp_path / "classifier")
    before, after = (each.classify(TEXTS) for each in (classifier, chainrule.load(tmp_path / "classifier")))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.log_probs, other.log_probs)
    maps = chainrule.attend(model, "the cat sat").maps
    assert [len(one.weights) for one in maps] == [4, 4]
    assert [one.rows for one in maps] == [["[CLS]", "the", "cat", "sat", "[SEP]"]] * 2


def test_texts_that_are_cut_are_counted_on_screen(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, LONG]) + "\n")
    assert run(["embed", str(bert), str(tmp_path / "texts.txt"), "-o", str(tmp_path / "vectors.npy")]) == 0
    assert "2 of the texts are longer than what this encoder reads" in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), chainrule.load(bert).embed([*TEXTS, LONG]))


def modules(*kinds: str, path: str = "") -> list[dict[str, Any]]:
    return [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else path, "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]


POOLING = "1_Pooling/config.json"
BROKEN: dict[str, tuple[str, Any, str]] = {
    "an unknown module": (
        "modules.json",
        modules("Transformer", "Pooling", "LayerNorm"),
        r"modules\.json: asks for LayerNorm, which is not supported; known are Transformer, Pooling, Dense, Normalize",
    ),
    "a dense layer without its file": (
        "modules.json",
        modules("Transformer", "Pooling", "Dense"),
        r"2_Dense/config\.json is missing, which says how wide its vectors are",
    ),
    "two poolings": (
        "modules.json",
        modules("Transformer", "Pooling", "Pooling"),
        "has the modules Transformer, Pooling, Pooling; expected",
    ),
    "no pooling": (
        "modules.json",
        modules("Transformer", "Normalize"),
        "has the modules Transformer, Normalize; expected",
    ),
    "no list": ("modules.json", {}, r"modules\.json: holds a JSON dict; expected a list of modules"),
    "no modules": ("modules.json", [3], r"modules\.json: has the module 3; expected its type, and a path inside"),
    "a module outside": (
        "modules.json",
        [*modules("Transformer"), {"path": "../1_Pooling", "type": "Pooling"}],
        r"has the module .*\.\./1_Pooling.*; expected its type, and a path inside",
    ),
    "a network elsewhere": (
        "modules.json",
        modules("Transformer", "Pooling", path="0_Transformer"),
        r"modules\.json: the Transformer lies in '0_Transformer'; expected the folder itself",
    ),
    "an unknown pooling": (POOLING, {"pooling_mode": "sum"}, "pools by sum, which is not supported; expected"),
    "two ways at once": (
        POOLING,
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        "pools by cls_token and mean_tokens, which is not supported; expected one of mean_tokens, max_tokens",
    ),
    "none": (POOLING, {"pooling_mode_cls_token": False}, "pools by nothing, which is not supported"),
    "no object": (POOLING, [], r"1_Pooling/config\.json: holds a JSON list; expected an object"),
    "a prompt that is not there": (
        "config_sentence_transformers.json",
        {"prompts": {"document": "text: "}, "default_prompt_name": "query"},
        "default_prompt_name is 'query'; its prompts are document",
    ),
    "prompts that are no texts": (
        "config_sentence_transformers.json",
        {"prompts": {"document": 3}},
        "prompts is {'document': 3}; expected texts by name",
    ),
    "nothing read": ("sentence_bert_config.json", {"max_seq_length": -1}, r"at most -1 tokens \(max_seq_length\)"),
    "no token types": ("config.json", {"type_vocab_size": 0}, "type_vocab_size: there are no token types; expected 1"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_done_here_is_refused_by_name(what: str, bert: Path) -> None:
    name, content, message = BROKEN[what]
    path = bert / name
    if isinstance(content, dict) and name != POOLING and path.exists() and name != "modules.json":
        content = {**json.loads(path.read_text()), **content}
    written(bert, name, content)
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(bert)


def test_capitals_that_only_sentence_transformers_would_lower(tmp_path: Path) -> None:
    for name, is_refused in (("bert", False), ("roberta", True)):
        folder = as_sentence_transformers(encoder(name, tmp_path / name), "mean_tokens", is_normalised=True)
        written(folder, "sentence_bert_config.json", {"max_seq_length": 8, "do_lower_case": True})
        if is_refused:
            with pytest.raises(
                ModelFormatError, match=r"do_lower_case is true, but its tokenizer\.json keeps capitals"
            ):
                chainrule.load(folder)
        else:
            chainrule.load(folder)


def test_token_types_and_a_pooling_that_are_missing(bert: Path) -> None:
    tensors = dict(load_file(bert / "model.safetensors"))
    save_file({n: array for n, array in tensors.items() if "token_type" not in n}, bert / "model.safetensors")
    with pytest.raises(ModelFormatError, match=r"lacks the tensor 'bert\.embeddings\.token_type_embeddings\.weight'"):
        chainrule.load(bert)
    save_file(tensors, bert / "model.safetensors")
    (bert / POOLING).unlink()
    with pytest.raises(ModelFormatError, match=r"1_Pooling/config\.json is missing"):
        chainrule.load(bert)


def test_a_language_model_is_no_sentence_encoder(tmp_path: Path) -> None:
    folder = save(shaken(CAUSAL["gpt2"]), tmp_path / "hf")
    as_sentence_transformers(folder, "mean_tokens", is_normalised=True)
    with pytest.raises(
        ModelFormatError, match="a sentence encoder of a gpt2; here there are those of bert, distilbert"
    ):
        chainrule.load(folder)
