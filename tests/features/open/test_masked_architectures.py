"""Masked models of others fill in, score and embed as transformers does on the same weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from tiny_models import MASKED, save, shaken, transformers
from tiny_tokenizers import TEXTS, tokenizer_of
from tokenizers import Tokenizer

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.network.distances import deberta_buckets
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.config import MaskedConfig

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray


class Pair:
    """A model of transformers, and the same one opened here."""

    def __init__(self, name: str, folder: Path) -> None:
        self.theirs, self.tokenizer = shaken(MASKED[name]), tokenizer_of(name)
        self.folder = save(self.theirs, folder, self.tokenizer)
        self.ours = chainrule.load(self.folder)
        self.numbering = TokenIdMap(**self.ours.record["hugging_face"]["tokens"])
        self.cls, self.sep = self.tokenizer.encode("").ids
        [self.mask] = {self.tokenizer.token_to_id(name) for name in ("[MASK]", "<mask>")} - {None}

    def ids(self, text: str) -> list[int]:
        """Of the text alone."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def read(self, *ids: int) -> torch.Tensor:
        """What their network reads for a text."""
        return torch.tensor([[self.cls, *ids, self.sep]])

    @torch.inference_mode()
    def logits(self, ids: list[int]) -> ndarray:
        """Theirs at each token of a text, without those before and after it: (T, their V)."""
        array: ndarray = self.theirs(self.read(*ids)).logits[0, 1:-1].double().numpy()
        return array

    def tolerance(self) -> float:
        """1e-5 of the largest logit."""
        return 1e-5 * float(np.abs(self.logits(self.ids(TEXTS[2]))).max())


@pytest.fixture(scope="module", params=list(MASKED))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(request.param, tmp_path_factory.mktemp("model"))


def log_softmax(logits: ndarray, *never: int) -> ndarray:
    logits = logits.copy()
    logits[..., list(never)] = -np.inf
    return np.asarray(logits - np.logaddexp.reduce(logits, -1, keepdims=True))


@pytest.mark.spread(7)
def test_a_ragged_batch_has_their_pseudo_log_likelihoods(pair: Pair) -> None:
    ours, rows = pair.numbering.ours(), [pair.ids(text) for text in TEXTS]
    scores = pair.ours.scorer.score([ours[row].astype(np.int32) for row in rows])
    for row, score in zip(rows, scores, strict=True):
        for position, (token, own) in enumerate(zip(row, score, strict=False)):
            masked = [*row[:position], pair.mask, *row[position + 1 :]]
            expected = log_softmax(pair.logits(masked)[position], pair.mask)[token]
            assert own == pytest.approx(expected, abs=pair.tolerance())


def test_masks_in_a_text_are_filled_in_as_they_do(pair: Pair) -> None:
    filled = pair.ours.fill("the [MASK] bit the [MASK]", top=5)
    ids = pair.ids("the [MASK] bit the [MASK]".replace("[MASK]", pair.tokenizer.id_to_token(pair.mask)))
    gaps = [position for position, number in enumerate(ids) if number == pair.mask]
    expected = log_softmax(pair.logits(ids)[gaps], pair.mask, pair.cls)
    names, ours = pair.ours.tokenizer.vocabulary.tokens(), pair.numbering.ours()
    assert len(filled) == 2
    for gap, row in zip(filled, expected, strict=True):
        best = row.argsort()[::-1][:5]
        np.testing.assert_allclose(
            np.log([probability for _, probability in gap]), row[best], atol=pair.tolerance(), rtol=0
        )
        assert [token.strip() for token, _ in gap] == [names[token].decode().strip() for token in ours[best]]


@pytest.mark.spread(14)
@torch.inference_mode()
@pytest.mark.parametrize("layer", [1, 2])
def test_a_ragged_batch_has_their_hidden_states(pair: Pair, layer: int) -> None:
    ours, rows = pair.numbering.ours(), [pair.ids(text) for text in TEXTS]
    vectors = pair.ours.embedder.vectors([ours[row].astype(np.int32) for row in rows], layer)
    for row, own in zip(rows, vectors, strict=True):
        states = pair.theirs(pair.read(*row), output_hidden_states=True).hidden_states
        expected = states[layer][0, 1:-1].numpy()
        np.testing.assert_allclose(own, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


@pytest.mark.spread(7)
def test_what_comes_in_goes_out_as_it_was(pair: Pair, tmp_path: Path) -> None:
    chainrule.convert(pair.folder, tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")
    came, went = (load_file(folder / "model.safetensors") for folder in (pair.folder, tmp_path / "out"))
    assert came.keys() == went.keys()
    for name, array in came.items():
        np.testing.assert_array_equal(array, went[name], err_msg=name)
    assert (pair.folder / "tokenizer.json").read_bytes() == (tmp_path / "out" / "tokenizer.json").read_bytes()
    same = pair.theirs.config._attn_implementation
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out", attn_implementation=same)
    ids = pair.read(*pair.ids(TEXTS[0]))
    torch.testing.assert_close(again(ids).logits, pair.theirs(ids).logits, atol=0, rtol=0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer(TEXTS[0]).input_ids == ids[0].tolist()
    assert (tokenizer.mask_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id) == (pair.mask, pair.cls, pair.sep)


@pytest.mark.parametrize(("buckets", "limit"), [(256, 512), (256, 1024), (8, 32), (4, 6)])
def test_distances_are_in_the_buckets_that_transformers_has(buckets: int, limit: int) -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    expected = make_log_bucket_position(torch.arange(limit), buckets, limit).long().tolist()
    assert deberta_buckets(buckets, limit, limit - 1) == expected


def test_old_files_call_gains_gamma_and_have_heads_that_are_not_read(tmp_path: Path) -> None:
    pair = Pair("bert", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors: dict[str, Any] = {}
    for name, array in load_file(file).items():
        renamed = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[renamed] = array
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    tensors["cls.seq_relationship.weight"] = tensors["bert.pooler.dense.weight"] = np.ones((2, 16), np.float32)
    save_file(tensors, file)
    tokens = [pair.numbering.ours()[pair.ids(TEXTS[0])].astype(np.int32)]
    np.testing.assert_array_equal(chainrule.load(tmp_path).scorer.score(tokens), pair.ours.scorer.score(tokens))


@pytest.mark.parametrize("lstrip", [False, True])
def test_the_space_before_a_mask_stays_if_the_tokenizer_says_so(lstrip: bool, tmp_path: Path) -> None:
    pair = Pair("roberta", tmp_path)
    described = json.loads((tmp_path / "tokenizer.json").read_text())
    [mask] = [token for token in described["added_tokens"] if token["content"] == "<mask>"]
    mask["lstrip"] = lstrip
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    ours, tokenizer = chainrule.load(tmp_path), Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "the [MASK] bit the man[MASK]"
    ids = tokenizer.encode(text.replace("[MASK]", "<mask>"), add_special_tokens=False).ids
    spaces = [tokenizer.id_to_token(number) for number in ids].count("\u0120")
    assert spaces == (0 if lstrip else 1)
    gaps = [place for place, number in enumerate(ids) if number == pair.mask]
    expected = np.exp(log_softmax(pair.logits(ids)[gaps], pair.mask, pair.cls))
    filled = ours.fill(text, top=3)
    np.testing.assert_allclose(
        [[probability for _, probability in gap] for gap in filled], np.sort(expected)[:, :-4:-1], rtol=1e-4
    )
    with pytest.raises(SettingError, match="there is no"):
        ours.fill("the dog")


def test_architectures_that_are_no_list_are_refused(tmp_path: Path) -> None:
    config = Pair("bert", tmp_path).folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "architectures": 3}))
    with pytest.raises(ModelFormatError, match=r"config\.json: architectures is 3; expected a list"):
        chainrule.load(tmp_path)


def test_what_a_masked_model_needs_is_asked_for(tmp_path: Path) -> None:
    folder = Pair("bert", tmp_path / "in").folder
    config = folder / "config.json"
    text = config.read_text()
    for field, value, message in (
        ("is_decoder", "true", "is_decoder"),
        ("tie_word_embeddings", "false", r"lacks the tensor 'cls\.predictions\.decoder\.weight'"),
    ):
        start = text.index(f'"{field}": ')
        config.write_text(text[:start] + f'"{field}": {value},' + text[text.index("\n", start) :])
        with pytest.raises(ModelFormatError, match=message):
            chainrule.load(folder)
    config.write_text(text)
    tokenizer = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokenizer.replace('"[MASK]"', '"[GAP]"'))
    with pytest.raises(ModelFormatError, match="has no mask token"):
        chainrule.load(folder)
    (folder / "tokenizer_config.json").write_text('{"mask_token": "[GAP]"}')
    assert chainrule.load(folder).family == "masked"


def trained(folder: Path, config: MaskedConfig, tokenizer: str = "bpe") -> chainrule.Model:
    """A network of two steps, each of its numbers moved after them; saved as lm/."""
    (folder / "text.txt").write_text("\n".join(TEXTS * 5) + "\n")
    model = chainrule.train(
        folder / "text.txt",
        config,
        tokenizer=chainrule.TokenizerConfig(kind=tokenizer, vocabulary_size=280),
        training=chainrule.TrainingConfig(steps=2, batch=2),
    )
    network: torch.nn.Module = model.engine.network
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    model.save(folder / "lm")
    return model


def ours_as_bert(**changes: Any) -> MaskedConfig:
    config = chainrule.preset("bert", layers=2, width=16, heads=2, context=32, **changes)
    assert isinstance(config, MaskedConfig)
    return config


@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece", "unigram"])
def test_a_masked_model_of_ours_is_a_bert_to_transformers(tokenizer: str, tmp_path: Path) -> None:
    model = trained(tmp_path, ours_as_bert(feed_forward="gelu" if tokenizer == "bpe" else "gelu_exact"), tokenizer)
    chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")
    theirs, loading = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(loading.values())
    theirs_cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text, mask = f"the {theirs_cut.mask_token} sat on the mat", theirs_cut.mask_token_id
    assert (theirs_cut.mask_token, theirs_cut.cls_token) == ("[MASK]", "[CLS]")
    ids: list[int] = theirs_cut(TEXTS[2]).input_ids
    assert ids[0] == theirs_cut.cls_token_id
    own = model.tokenizer.encode_texts([TEXTS[2]]).ids[:-1]
    names = [model.tokenizer.vocabulary.token(number) for number in own]
    assert names == theirs_cut.convert_ids_to_tokens(ids[1:])
    with torch.inference_mode():
        masked = theirs_cut(text, return_tensors="pt").input_ids
        gaps = masked[0] == mask
        logits = theirs(masked).logits[0, gaps].double().numpy()
    expected = log_softmax(logits, mask, theirs_cut.cls_token_id)
    [gap] = model.fill(text, top=20)
    best = expected[0].argsort()[::-1][: len(gap)]
    tolerance = 1e-5 * float(np.abs(logits).max())
    np.testing.assert_allclose(np.log([share for _, share in gap]), expected[0][best], atol=tolerance, rtol=0)
    tokens = [theirs_cut.unk_token if token == "<unk>" else token for token, _ in gap]
    assert tokens == theirs_cut.convert_ids_to_tokens(best)


def test_a_masked_model_of_ours_comes_back_and_goes_out_again(tmp_path: Path) -> None:
    model = trained(tmp_path, ours_as_bert())
    for source, target in (("lm", "hf"), ("again", "twice")):
        chainrule.convert(tmp_path / source, tmp_path / target, to="hugging-face")
        if target == "hf":
            chainrule.convert(tmp_path / "hf", tmp_path / "again")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("hf", "twice"))
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        came, went = (json.loads((tmp_path / folder / name).read_bytes()) for folder in ("hf", "twice"))
        assert came == went
    again = chainrule.load(tmp_path / "hf")
    np.testing.assert_allclose(again.score(TEXTS), model.score(TEXTS), rtol=1e-5)  # <s> is its own row there
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))


def test_a_masked_model_that_is_no_bert(tmp_path: Path) -> None:
    trained(tmp_path, MaskedConfig(layers=1, width=16, heads=2, context=16))
    with pytest.raises(SettingError, match=r"nearest is bert, which cannot have .*norm='rms'"):
        chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")


def test_a_bert_that_reads_texts_with_their_neighbours(tmp_path: Path) -> None:
    trained(tmp_path, ours_as_bert(memory="stream"))
    with pytest.raises(SettingError, match="bert reads each text by itself, so it cannot have memory='stream'"):
        chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")


def test_a_nomic_bert_of_older_files_has_the_names_of_gpt_2(tmp_path: Path) -> None:
    pair = Pair("nomic_bert", tmp_path)
    names = {
        "num_hidden_layers": "n_layer",
        "hidden_size": "n_embd",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
        "layer_norm_eps": "layer_norm_epsilon",
    }
    config = json.loads((tmp_path / "config.json").read_text())
    old = {names.get(name, name): value for name, value in config.items() if name not in ("hidden_act", "head_dim")}
    base = old.pop("rope_parameters")["rope_theta"]
    (tmp_path / "config.json").write_text(
        json.dumps({**old, "activation_function": "swiglu", "rotary_emb_base": base, "prenorm": False})
    )
    tokens = [pair.numbering.ours()[pair.ids(TEXTS[0])].astype(np.int32)]
    np.testing.assert_array_equal(chainrule.load(tmp_path).scorer.score(tokens), pair.ours.scorer.score(tokens))
    (tmp_path / "config.json").write_text(json.dumps({**old, "activation_function": "swiglu", "prenorm": True}))
    with pytest.raises(ModelFormatError, match="prenorm is True, which is not supported; expected False"):
        chainrule.load(tmp_path)
