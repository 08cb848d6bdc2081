"""Adapters: peft's numbers step by step, its folders read and written, small folders of ours, and merging."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from safetensors.numpy import load_file, save_file
from tiny_files import write_gguf
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import TEXTS, byte_level

import chainrule
from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.adapters import LowRank, adapter_arrays, adapter_matrices, adapters_of, without_adapters
from chainrule.neural.config import llama
from chainrule.neural.layers.attention import attend
from chainrule.neural.layers.masks import AttentionMask
from chainrule.neural.layers.matrix_products import linear, pack, product, unpack
from chainrule.neural.packed.layouts import pack as pack_in_blocks

PEFT = Path(__file__).parents[2] / "fixtures" / "peft"
STEPS = chainrule.TrainingConfig(steps=4, batch=4, row_tokens=8, learning_rate=0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a text, and a tiny model in hf/."""
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20))
    save(shaken(CAUSAL["llama3"]).float(), tmp_path / "hf")
    return tmp_path


def own_base(folder: Path) -> Path:
    """A network of ours whose matrices can be quantised."""
    config = chainrule.TransformerConfig(layers=2, width=32, heads=2, context=32)
    model = chainrule.train(folder / "text.txt", config, training=chainrule.TrainingConfig(steps=2, batch=2))
    model.save(folder / "own")
    return folder / "own"


@pytest.mark.parametrize("name", ["llama3", "gpt2"])
def test_losses_are_those_of_peft_step_by_step(name: str, tmp_path: Path) -> None:
    save(shaken(CAUSAL[name]).float(), tmp_path / "hf")
    shutil.copytree(PEFT / name, tmp_path / "adapter")
    (tmp_path / "adapter" / "adapter_config.json").write_text(
        (PEFT / name / "adapter_config.json").read_text().replace('"hf"', json.dumps(str(tmp_path / "hf")))
    )
    expected = json.loads((PEFT / "losses.json").read_text())
    model = chainrule.load(tmp_path / "adapter", chainrule.CausalNetwork)
    network = model.engine.network
    ours = TokenIdMap(**model.record["hugging_face"]["tokens"]).ours()
    optimiser = torch.optim.AdamW(adapter_matrices(network), lr=0.02, betas=(0.9, 0.95), weight_decay=0.0)
    losses = []
    for batch in expected["tokens"]:
        tokens = torch.from_numpy(ours[np.array(batch)])
        hidden, _ = network.read(tokens[:, :-1])
        loss = network.output.loss(hidden, tokens[:, 1:]) / tokens[:, 1:].numel()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    np.testing.assert_allclose(losses, expected[name], rtol=2e-5)


def test_a_small_folder_gives_the_scores_of_what_was_trained(folder: Path) -> None:
    adapted = chainrule.adapt(folder / "hf", folder / "text.txt", lora=2, training=STEPS)
    base = chainrule.load(folder / "hf")
    assert adapted.perplexity(folder / "text.txt") < base.perplexity(folder / "text.txt")
    adapted.save(folder / "adapted")
    assert sum(path.stat().st_size for path in (folder / "adapted").glob("*.safetensors")) < 8_000
    again, other = (chainrule.load(folder / "adapted") for _ in range(2))
    assert again.score(TEXTS).tolist() == adapted.score(TEXTS).tolist()
    one, two = (model.engine.network.embedding.weight.data_ptr() for model in (again, other))
    assert one == two  # the weights of the base are there once
    with without_adapters(again.engine.network):
        assert again.score(TEXTS).tolist() == base.score(TEXTS).tolist()
    (folder / "moved").mkdir()
    for name in ("hf", "adapted"):  # both together: found beside it
        shutil.move(folder / name, folder / "moved" / name)
    assert chainrule.load(folder / "moved" / "adapted").score(TEXTS).tolist() == adapted.score(TEXTS).tolist()


def test_merging_adds_the_product(folder: Path) -> None:
    adapted = chainrule.adapt(folder / "hf", folder / "text.txt", lora=2, lora_alpha=5, lora_layers=1, training=STEPS)
    adapted.save(folder / "adapted")
    arrays = adapter_arrays(adapted.engine.network)
    assert {name.split(".")[2] for name in arrays} == {"1"}  # the last of two blocks
    merged = chainrule.convert(folder / "adapted", folder / "merged")
    np.testing.assert_allclose(merged.score(TEXTS), adapted.score(TEXTS), rtol=1e-5)
    before = chainrule.load(folder / "hf").engine.network.state_dict()
    after = merged.engine.network.state_dict()
    name = "encoder.blocks.1.feed_forward.up"
    a, b = arrays[f"{name}.adapter.a"], arrays[f"{name}.adapter.b"]
    gate, up = b[:24] @ a[:2], b[24:] @ a[2:]  # of 24 rows each
    expected = before[f"{name}.weight"].float().numpy() + 5 / 2 * np.concatenate([gate, up])
    np.testing.assert_allclose(after[f"{name}.weight"].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert before.keys() == after.keys()
    chainrule.convert(folder / "adapted", folder / "back", to="hugging-face")
    np.testing.assert_allclose(chainrule.load(folder / "back").score(TEXTS), adapted.score(TEXTS), rtol=1e-5)
    assert "adapter" not in merged.record


def test_peft_folders_go_back_and_forth(folder: Path) -> None:
    adapted = chainrule.adapt(folder / "hf", folder / "text.txt", lora=2, training=STEPS)
    adapted.save(folder / "adapted")
    chainrule.convert(folder / "adapted", folder / "peft", to="peft")
    assert chainrule.load(folder / "peft").score(TEXTS).tolist() == adapted.score(TEXTS).tolist()
    tensors = load_file(folder / "peft" / "adapter_model.safetensors")
    assert tensors["base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"].shape == (16, 2)
    with pytest.raises(OutputError, match="overwrite=True"):
        chainrule.convert(folder / "adapted", folder / "peft", to="peft")
    only = {name: tensor for name, tensor in tensors.items() if ".q_proj." in name}  # others have no adapter there
    save_file(only, folder / "peft" / "adapter_model.safetensors")
    some = adapter_arrays(chainrule.load(folder / "peft").engine.network)
    assert sorted(some) == [
        f"encoder.blocks.{layer}.attention.query_key_value.adapter.{each}" for layer in (0, 1) for each in "ab"
    ]
    assert not some["encoder.blocks.0.attention.query_key_value.adapter.b"][32:].any()


def test_ranks_and_scales_may_differ_by_module(folder: Path) -> None:
    adapted = chainrule.adapt(folder / "hf", folder / "text.txt", lora=2, training=STEPS)
    adapted.save(folder / "adapted")
    chainrule.convert(folder / "adapted", folder / "peft", to="peft")
    path = folder / "peft" / "adapter_config.json"
    said: dict[str, Any] = json.loads(path.read_text())
    tensors = load_file(folder / "peft" / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.mlp.down_proj.lora_"
    tensors[f"{name}A.weight"] = np.concatenate([tensors[f"{name}A.weight"], np.ones((1, 24), np.float32)])
    tensors[f"{name}B.weight"] = np.pad(tensors[f"{name}B.weight"], ((0, 0), (0, 1)))
    save_file(tensors, folder / "peft" / "adapter_model.safetensors")
    path.write_text(
        json.dumps(said | {"rank_pattern": {"down_proj": 3}, "alpha_pattern": {"layers.1.mlp.down_proj": 6.0}})
    )
    np.testing.assert_allclose(chainrule.load(folder / "peft").score(TEXTS), adapted.score(TEXTS), rtol=1e-5)
    chainrule.convert(folder / "peft", folder / "again", to="peft")
    np.testing.assert_allclose(chainrule.load(folder / "again").score(TEXTS), adapted.score(TEXTS), rtol=1e-5)


@pytest.mark.parametrize("form", ["int8", "blocks"])
def test_gradients_go_through_frozen_weights_of_any_kind(form: str) -> None:
    weight, x = torch.randn(48, 64), torch.randn(5, 64, requires_grad=True)
    packed = pack(weight) if form == "int8" else torch.from_numpy(pack_in_blocks(weight, 4))
    frozen = torch.nn.Parameter(packed, requires_grad=False)
    factors = torch.randn(5, 48)
    (product(x, frozen) * factors).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, factors @ unpack(packed))


@pytest.mark.parametrize("form", ["float32", "int8", "blocks"])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_product_with_an_adapter_has_the_gradients_of_its_formula(form: str, *, bfloat16: bool) -> None:
    torch.manual_seed(0)
    layer, given = torch.nn.Linear(32, 48), torch.randn(2, 5, 64, requires_grad=True)
    layer.requires_grad_(False)
    wide = layer.weight
    if form != "float32":
        packed = pack(wide) if form == "int8" else torch.from_numpy(pack_in_blocks(wide, 4))
        layer.weight, wide = torch.nn.Parameter(packed, requires_grad=False), unpack(packed)
    layer.adapter = LowRank(32, [16, 32], 3, 1.5)  # two matrices, with an A each
    a, b = layer.adapter.a, layer.adapter.b
    torch.nn.init.normal_(b)
    factors = torch.randn(2, 5, 48)

    def gated(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x[..., :32]) * x[..., 32:]

    x = gated(given)
    added = torch.cat([x @ a[:3].t() @ b[:16].t(), x @ a[3:].t() @ b[16:].t()], -1)
    expected = x @ wide.t() + layer.bias + 1.5 * added
    gradients = torch.autograd.grad((expected * factors).sum(), [given, a, b])
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        y = linear(given, layer, gated)
    found = torch.autograd.grad((y * factors).sum(), [given, a, b])
    assert y.dtype == (torch.bfloat16 if bfloat16 else torch.float32)
    bounds = {"rtol": 0.05, "atol": 0.1} if bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    for own, other in zip([y.float(), *found], [expected, *gradients], strict=True):
        torch.testing.assert_close(own, other, **bounds)


def test_keys_that_queries_share_have_the_gradients_of_repeated_ones() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 7, 8, requires_grad=True) for heads in (6, 2, 2))
    scores = torch.einsum("bhtd,bhsd->bhts", query, key.repeat_interleave(3, 1)) / 8**0.5
    weights = scores.masked_fill(~torch.ones(7, 7, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    expected = weights @ value.repeat_interleave(3, 1)
    found = attend(query, key, value, AttentionMask(None, causal=True))
    torch.testing.assert_close(found, expected)
    both = (torch.autograd.grad(y.square().sum(), [query, key, value]) for y in (found, expected))
    for own, other in zip(*both, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


def test_kernels_of_packed_blocks_do_not_pass_adapters_over(folder: Path) -> None:
    """LLaMA's blocks in four bits are read by kernels, which know no adapters."""
    config = replace(llama(), layers=2, width=64, heads=2, context=32)
    model = chainrule.train(folder / "text.txt", config, training=chainrule.TrainingConfig(steps=2, batch=2))
    model.compact(bits=4).save(folder / "small")
    base = chainrule.load(folder / "small")
    before = base.score(TEXTS)  # after which the base has a reader
    adapted = chainrule.adapt(folder / "small", folder / "text.txt", lora=4, training=STEPS)
    adapted.save(folder / "adapted")
    assert np.abs(adapted.score(TEXTS) - before).min() > 0.01
    assert chainrule.load(folder / "adapted").score(TEXTS).tolist() == adapted.score(TEXTS).tolist()
    exact = chainrule.load(folder / "adapted", exact=True)
    merged = chainrule.convert(folder / "adapted", folder / "merged")  # in float32
    np.testing.assert_allclose(exact.score(TEXTS), merged.score(TEXTS), rtol=1e-5)
    assert exact.score(TEXTS).tolist() != adapted.score(TEXTS).tolist()


def test_a_gguf_file_is_adapted_as_it_is(folder: Path) -> None:
    path = write_gguf(folder / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level())
    adapted = chainrule.adapt(path, folder / "text.txt", lora=2, training=STEPS)
    adapted.save(folder / "adapted")
    again = chainrule.load(folder / "adapted")
    assert again.score(TEXTS).tolist() == adapted.score(TEXTS).tolist()
    assert adapted.perplexity(folder / "text.txt") < chainrule.load(path).perplexity(folder / "text.txt")
    counted = chainrule.train(folder / "text.txt", chainrule.NGramConfig(order=2), tokenizer=str(path))
    assert counted.tokenizer.vocabulary.tokens() == adapted.tokenizer.vocabulary.tokens()


@pytest.mark.parametrize("bits", [None, 4])
def test_a_quantised_base_is_adapted_and_stays(bits: int | None, folder: Path) -> None:
    base = chainrule.load(own_base(folder)).compact(bits=bits)
    base.save(folder / "small")
    adapted = chainrule.adapt(folder / "small", folder / "text.txt", lora=4, training=STEPS)
    assert adapted.perplexity(folder / "text.txt") < base.perplexity(folder / "text.txt")
    assert adapted.record["parameters"] > 20_000  # weights, not bytes
    adapted.save(folder / "adapted")
    again = chainrule.load(folder / "adapted")
    assert again.score(TEXTS).tolist() == adapted.score(TEXTS).tolist()
    merged = chainrule.convert(folder / "adapted", folder / "merged", compact=True, bits=bits)
    assert merged.is_compact
    np.testing.assert_allclose(merged.score(TEXTS), adapted.score(TEXTS), rtol=0.02)
    with pytest.raises(SettingError, match="cannot be trained"):
        chainrule.adapt(folder / "small", folder / "text.txt", training=STEPS)


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(folder: Path) -> None:
    training = chainrule.TrainingConfig(steps=6, batch=4, row_tokens=8, save_every=2, validate_every=3)

    def stop(report: Any) -> None:
        if report.step == 3:
            raise KeyboardInterrupt

    whole = chainrule.adapt(folder / "hf", folder / "text.txt", lora=2, training=training)
    options: dict[str, Any] = {"lora": 2, "training": training, "folder": folder / "run"}
    with pytest.raises(KeyboardInterrupt):
        chainrule.adapt(folder / "hf", folder / "text.txt", on_report=stop, **options)
    with pytest.raises(SettingError, match="lora was 2 and is 3"):
        chainrule.adapt(folder / "hf", folder / "text.txt", resume=True, **{**options, "lora": 3})
    saved = sum(path.stat().st_size for path in (folder / "run").rglob("*.safetensors"))
    assert saved < 60_000  # of the adapter alone; the base has more
    resumed = chainrule.adapt(folder / "hf", folder / "text.txt", resume=True, **options)
    one, two = (adapter_arrays(model.engine.network) for model in (whole, resumed))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    text = folder / "text.txt"
    with pytest.raises(SettingError, match="lora is 0; expected 1 or more"):
        chainrule.adapt(folder / "hf", text, lora=0)
    with pytest.raises(SettingError, match="lora_alpha is for adapters"):
        chainrule.adapt(folder / "hf", text, lora_alpha=3)
    with pytest.raises(SettingError, match="lora_layers is 3, but the network has 2 blocks"):
        chainrule.adapt(folder / "hf", text, lora=2, lora_layers=3, training=STEPS)
    recurrent = chainrule.RecurrentConfig(layers=1, width=8)
    chainrule.train(text, recurrent, training=chainrule.TrainingConfig(steps=1, batch=2)).save(folder / "rnn")
    with pytest.raises(SettingError, match="this network has none; leave lora out"):
        chainrule.adapt(folder / "rnn", text, lora=2, training=STEPS)
    adapted = chainrule.adapt(folder / "hf", text, lora=2, training=STEPS)
    adapted.save(folder / "adapted")
    with pytest.raises(SettingError, match="is an adapter"):
        chainrule.adapt(folder / "adapted", text, training=STEPS)
    save(shaken(CAUSAL["llama"]).float(), folder / "other")
    with pytest.raises(ModelFormatError, match="another model than this base"):
        chainrule.convert(folder / "other", folder / "out", adapter=folder / "adapted")
    chainrule.convert(folder / "adapted", folder / "peft", to="peft")
    with pytest.raises(ModelFormatError, match="the adapter is for another base"):
        chainrule.convert(folder / "other", folder / "out", adapter=folder / "peft")
    with pytest.raises(SettingError, match="has no adapter"):
        chainrule.convert(folder / "hf", folder / "out", to="peft")
    shutil.rmtree(folder / "hf")
    for name in ("adapted", "peft"):
        with pytest.raises(ModelFormatError, match="chainrule convert BASE OUTPUT --adapter"):
            chainrule.load(folder / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'; expected 'LORA'"),
        ({"r": 0}, "r is 0; expected a number above 0"),
        ({"use_dora": True}, "use_dora is True, which is not supported"),
        ({"bias": "all"}, "bias is 'all'"),
        *[
            ({"init_lora_weights": way}, f"init_lora_weights is '{way}', which is not supported; expected True or")
            for way in ("pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga")
        ],
        ({"alora_invocation_tokens": [5, 6]}, r"alora_invocation_tokens is \[5, 6\], .*; expected it to be missing"),
        ({"arrow_config": {"top_k": 1}}, "arrow_config is"),
        ({"of_the_future": 1}, "of_the_future is 1, which is not supported"),
    ],
)
def test_other_kinds_of_adapters_are_refused_by_name(changes: dict[str, Any], message: str, folder: Path) -> None:
    shutil.copytree(PEFT / "llama3", folder / "adapter")
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.convert(folder / "hf", folder / "out", adapter=folder / "adapter")


@pytest.mark.parametrize("changes", [{"init_lora_weights": "gaussian"}, {"init_lora_weights": False}, {"new": None}])
def test_settings_that_change_no_number_are_taken(changes: dict[str, Any], folder: Path) -> None:
    shutil.copytree(PEFT / "llama3", folder / "adapter")
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    adapted = chainrule.convert(folder / "hf", folder / "out", adapter=folder / "adapter")
    plain = chainrule.convert(folder / "hf", folder / "plain", adapter=PEFT / "llama3")
    np.testing.assert_array_equal(adapted.score(TEXTS), plain.score(TEXTS))


def test_damaged_tensors_are_refused(folder: Path) -> None:
    shutil.copytree(PEFT / "llama3", folder / "adapter")
    path = folder / "adapter" / "adapter_model.safetensors"
    whole, tensors = path.read_bytes(), load_file(path)
    first = sorted(tensors)[0]
    missing = {name: tensor for name, tensor in tensors.items() if name != first}
    infinite = {**tensors, first: np.full_like(tensors[first], np.inf)}
    for wrong, message in (
        (missing, "do not belong together"),
        (infinite, "NaN or infinity"),
        ({}, "holds no tensors"),
    ):
        save_file(wrong, path)
        with pytest.raises(ModelFormatError, match=message):
            chainrule.convert(folder / "hf", folder / "out", adapter=folder / "adapter")
    for size in (0, 5, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFormatError):
            chainrule.convert(folder / "hf", folder / "out", adapter=folder / "adapter")
    assert len(adapters_of(chainrule.load(folder / "hf").engine.network)) == 0


@pytest.mark.parametrize("name", ["llama3", "gpt2", "qwen3", "phi3", "mistral"])
def test_gguf_adapters_go_back_and_forth(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20))
    save(shaken(CAUSAL[name]).float(), tmp_path / "hf")
    adapted = chainrule.adapt(tmp_path / "hf", tmp_path / "text.txt", lora=2, lora_alpha=6, training=STEPS)
    adapted.save(tmp_path / "adapted")
    chainrule.convert(tmp_path / "adapted", tmp_path / "a.gguf", to="gguf-adapter")
    back = chainrule.convert(tmp_path / "hf", tmp_path / "merged", adapter=tmp_path / "a.gguf")
    np.testing.assert_allclose(back.score(TEXTS), adapted.score(TEXTS), rtol=1e-5)
    read = GGUFReader(tmp_path / "a.gguf")  # llama.cpp's own
    fields = {field.name: field.contents() for field in read.fields.values()}
    assert (fields["general.type"], fields["adapter.type"], fields["adapter.lora.alpha"]) == ("adapter", "lora", 6.0)
    tensors = {tensor.name: tensor.data for tensor in read.tensors}
    if name != "llama3":
        return
    own = adapter_arrays(adapted.engine.network)
    a, b = (own[f"encoder.blocks.1.attention.query_key_value.adapter.{each}"] for each in "ab")
    np.testing.assert_array_equal(tensors["blk.1.attn_q.weight.lora_a"], a[:2])
    # ggml rotates neighbours: rows 0, 4, 1, 5 and so on of each head of eight.
    expected = b[:32].reshape(4, 2, 4, 2).transpose(0, 2, 1, 3).reshape(32, 2)
    np.testing.assert_array_equal(tensors["blk.1.attn_q.weight.lora_b"], expected)
    with pytest.raises(ModelFormatError, match="--adapter"):
        chainrule.load(tmp_path / "a.gguf")
    save(shaken(CAUSAL["gpt2"]).float(), tmp_path / "other")
    with pytest.raises(ModelFormatError, match="an adapter of a llama, but the base is a gpt2"):
        chainrule.convert(tmp_path / "other", tmp_path / "out", adapter=tmp_path / "a.gguf")
    whole = (tmp_path / "a.gguf").read_bytes()
    for size in (6, 100, len(whole) // 2, len(whole) - 40):
        (tmp_path / "a.gguf").write_bytes(whole[:size])
        with pytest.raises(ModelFormatError):
            chainrule.convert(tmp_path / "hf", tmp_path / "out", adapter=tmp_path / "a.gguf")
