"""GGUF files that are written have what llama.cpp's converter puts there, and give the numbers of the folder."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tiny_files import write_gguf
from tiny_models import CAUSAL, DELTA, HYBRID, LATENT, MASKED, OF_MAMBA2, ROUTED, YARN, nemotron_h, save, shaken, tiny
from tiny_tokenizers import TEXTS, byte_level, tokenizer_of, word_pieces

import chainrule
from chainrule import SettingError
from chainrule.features.open.gguf.tokenizer import definition_of_gguf
from chainrule.features.open.gguf.vocabulary import vocabulary_metadata
from chainrule.neural.saving import arrays_of

# Of each way in which llama.cpp's converter changes tensors, one kind.
AS_CONVERTED = ["llama3", "gemma", "qwen3", "gpt2", "gpt_neox", "falcon, new", "mixtral", "gpt_oss", "mamba2"]
AS_CONVERTED += ["qwen3_5", "lfm2, unadjusted", "phi3, longrope", "granite", "gemma4, wide", "olmo3"]
# Kinds for which the tests have no other converter.
ALONE = ["arcee", "seed_oss", "nemotron", "ministral3", "olmoe", "granite 4", "granite 4, positions", "glm4_moe"]
ALONE += ["falcon_mamba", "nemotron_h", "nemotron_h, experts", "smollm3", "command", "granite 4, experts"]
ALONE += ["deepseek_v2", "deepseek_v3", "falcon_h1", "hunyuan, longer", "granitemoe", "granitemoeshared"]
ALONE += ["gpt_bigcode", "gpt_bigcode, each head with keys", "lfm2_moe", "glm4_moe_lite", "qwen3_5_moe", "qwen3_next"]
KINDS = {
    **CAUSAL,
    "command": CAUSAL["cohere"],
    "olmoe": lambda: tiny("olmoe", num_experts=4, num_experts_per_tok=2, num_key_value_heads=4),
    "nemotron_h": lambda: nemotron_h("M-*-"),
    "nemotron_h, experts": lambda: nemotron_h("M*E"),
    "granite 4, experts": lambda: tiny("granitemoehybrid", **OF_MAMBA2, **HYBRID, num_local_experts=4),
    "deepseek_v3": lambda: tiny(
        "deepseek_v3",
        **LATENT,
        **ROUTED,
        q_lora_rank=6,
        n_group=2,
        rope_parameters={**YARN, "mscale": 0.9, "mscale_all_dim": 0.9},
    ),
    "deepseek_v2": lambda: tiny("deepseek_v2", **LATENT, **ROUTED, q_lora_rank=6, topk_method="greedy"),
    "falcon_h1": CAUSAL["falcon_h1, norm last"],
    "lfm2_moe": lambda: CAUSAL["lfm2_moe"](routed_scaling_factor=1.0),
    **{
        name: partial(CAUSAL[name], linear_value_head_dim=DELTA["linear_key_head_dim"])
        for name in ("qwen3_5", "qwen3_5_moe", "qwen3_next")
    },
}


def contents(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return {tensor.name: np.array(tensor.data) for tensor in reader.tensors}, fields


@pytest.mark.spread(6)
@pytest.mark.filterwarnings("ignore:.*no windows of attention")
@pytest.mark.parametrize("name", AS_CONVERTED)
def test_a_file_is_what_llama_cpp_s_converter_makes(name: str, tmp_path: Path) -> None:
    theirs = shaken(KINDS[name])
    expected, said = contents(write_gguf(tmp_path / "theirs.gguf", theirs, byte_level()))
    chainrule.convert(save(theirs, tmp_path / "hf"), tmp_path / "ours.gguf")
    found, fields = contents(tmp_path / "ours.gguf")
    assert found.keys() == expected.keys()
    for tensor, array in expected.items():
        np.testing.assert_allclose(found[tensor], array, rtol=1e-6, atol=1e-7, err_msg=tensor)
    for key, value in said.items():
        if (
            value
            and key in fields
            and not key.endswith(("token_type", "tokens", "bos_token_id", "rope.dimension_sections"))
        ):
            assert fields[key] == pytest.approx(value), key
    assert {key for key, value in said.items() if value} - fields.keys() <= {
        "tokenizer.ggml.unknown_token_id",
        "gpt-oss.attention.sliding_window_pattern",  # which llama.cpp knows
    }


def test_keys_and_values_of_latent_attention_are_apart_by_head(tmp_path: Path) -> None:
    """As llama.cpp multiplies them: keys by what the heads share, (H, r, k), and values from it, (H, v, r)."""
    theirs = shaken(KINDS["deepseek_v3"])
    chainrule.convert(save(theirs, tmp_path / "hf"), tmp_path / "x.gguf")
    found, fields = contents(tmp_path / "x.gguf")
    rows = theirs.model.layers[0].self_attn.kv_b_proj.weight.detach().numpy().reshape(4, 6 + 5, 10)
    np.testing.assert_array_equal(found["blk.0.attn_k_b.weight"], rows[:, :6].transpose(0, 2, 1))
    np.testing.assert_array_equal(found["blk.0.attn_v_b.weight"], rows[:, 6:])
    assert fields["deepseek2.rope.scaling.yarn_log_multiplier"] == pytest.approx(0.09)
    assert fields["deepseek2.attention.key_length"] == 10 + 4


def test_factors_of_falcon_h1_are_in_its_weights(tmp_path: Path) -> None:
    theirs = shaken(KINDS["falcon_h1"])
    chainrule.convert(save(theirs, tmp_path / "hf"), tmp_path / "x.gguf")
    found, _ = contents(tmp_path / "x.gguf")
    layer, config = theirs.model.layers[0], theirs.config
    keys = layer.self_attn.k_proj.weight.detach().numpy() * config.attention_in_multiplier**2 * config.key_multiplier
    np.testing.assert_allclose(found["blk.0.attn_k.weight"], keys, rtol=1e-6)
    steps = layer.mamba.in_proj.weight.detach().numpy()[-4:] * config.ssm_in_multiplier * config.ssm_multipliers[4]
    np.testing.assert_allclose(found["blk.0.ssm_in.weight"][-4:], steps, rtol=1e-6)


def test_windows_that_llama_cpp_ignores_are_named(tmp_path: Path) -> None:
    model = chainrule.load(save(shaken(CAUSAL["mistral"]), tmp_path / "hf"))
    with pytest.warns(UserWarning, match="no windows of attention for llama: after 5 tokens"):
        model.save(tmp_path / "x.gguf")
    np.testing.assert_allclose(chainrule.load(tmp_path / "x.gguf").score(TEXTS), model.score(TEXTS), rtol=1e-5)


def test_logits_of_gemma_4_without_a_cap_have_none_there(tmp_path: Path) -> None:
    """llama.cpp takes 30 where a file does not say it."""
    chainrule.convert(save(shaken(CAUSAL["gemma4, wide"]), tmp_path / "hf"), tmp_path / "x.gguf")
    assert contents(tmp_path / "x.gguf")[1]["gemma4.final_logit_softcapping"] == 0


@pytest.mark.spread(8)
@pytest.mark.parametrize("name", ALONE)
def test_a_file_gives_the_numbers_of_the_folder(name: str, tmp_path: Path) -> None:
    model = chainrule.load(save(shaken(KINDS[name]), tmp_path / "hf"))
    model.save(tmp_path / "x.gguf")
    again = chainrule.load(tmp_path / "x.gguf")
    np.testing.assert_allclose(again.score(TEXTS), model.score(TEXTS), rtol=1e-5)
    with pytest.raises(chainrule.OutputError, match="exists"):
        model.save(tmp_path / "x.gguf")


@pytest.mark.parametrize("name", ["gpt_bigcode", "granitemoeshared", "qwen3_next"])
def test_a_folder_made_of_a_file_opens_in_transformers(name: str, tmp_path: Path) -> None:
    model = shaken(KINDS[name])
    chainrule.convert(save(model, tmp_path / "theirs"), tmp_path / "x.gguf")
    chainrule.convert(tmp_path / "x.gguf", tmp_path / "hf", to="hugging-face")
    again, ids = type(model).from_pretrained(tmp_path / "hf").eval(), torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "modernbert", "nomic_bert", "eurobert"])
def test_an_encoder_gives_its_vectors(name: str, tmp_path: Path) -> None:
    model = chainrule.load(save(shaken(MASKED[name]).base_model, tmp_path / "hf", tokenizer_of(name)))
    chainrule.convert(tmp_path / "hf", tmp_path / "x.gguf")
    np.testing.assert_allclose(chainrule.load(tmp_path / "x.gguf").embed(TEXTS), model.embed(TEXTS), atol=1e-6)


def test_a_mask_may_have_any_name(tmp_path: Path) -> None:
    save(shaken(MASKED["eurobert"]).base_model, tmp_path / "hf", tokenizer_of("eurobert"))
    definition, config = (tmp_path / "hf" / name for name in ("tokenizer.json", "tokenizer_config.json"))
    definition.write_text(definition.read_text().replace("[MASK]", "<|fill|>"))
    config.write_text(json.dumps({"mask_token": "<|fill|>"}))
    model = chainrule.load(tmp_path / "hf")
    chainrule.convert(tmp_path / "hf", tmp_path / "x.gguf")
    np.testing.assert_allclose(chainrule.load(tmp_path / "x.gguf").embed(TEXTS), model.embed(TEXTS), atol=1e-6)


@pytest.mark.parametrize("bits", [4, 8])
def test_blocks_of_a_compact_model_are_those_of_the_file(bits: int, tmp_path: Path) -> None:
    """Rows of queries and keys are reordered in a file of a llama, and stay in their blocks."""
    size = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "tie_word_embeddings": True}
    save(shaken(lambda: tiny("llama", **size), spread=0.1), tmp_path / "hf")
    for target in ("lm", "x.gguf"):
        chainrule.convert(tmp_path / "hf", tmp_path / target, compact=True, bits=bits)
    own, file = chainrule.load(tmp_path / "lm"), chainrule.load(tmp_path / "x.gguf")
    assert file.engine.stream_signature == own.engine.stream_signature
    assert file.score(TEXTS).tolist() == own.score(TEXTS).tolist()
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    assert kinds["blk.0.attn_q.weight"] == {4: "Q4_1", 8: "Q8_0"}[bits]
    assert (kinds["token_embd.weight"], kinds["blk.0.attn_norm.weight"]) == ("Q8_0", "F32")
    data = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors}["blk.0.attn_v.weight"]
    weights = gguf.quants.dequantize(data.data, data.tensor_type)
    exact = shaken(lambda: tiny("llama", **size), spread=0.1).model.layers[0].self_attn.v_proj.weight
    assert np.abs(weights - exact.detach().numpy()).max() < {4: 0.05, 8: 0.003}[bits]


def test_columns_in_another_order_are_rounded_anew(tmp_path: Path) -> None:
    """llama.cpp has Qwen 3.5's heads of values in another order, which no order of a matrix's rows gives."""
    size = {**DELTA, **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8), "hidden_size": 64}
    model = shaken(lambda: tiny("qwen3_5_text", **size, num_hidden_layers=4), spread=0.1)
    chainrule.convert(save(model, tmp_path / "hf"), tmp_path / "x.gguf", compact=True, bits=4)
    own = arrays_of(chainrule.load(tmp_path / "x.gguf", exact=True).engine.network)
    exact = model.model.layers[0].linear_attn.out_proj.weight.detach().numpy()
    np.testing.assert_allclose(own["encoder.blocks.0.recurrence.out.weight"], exact, atol=0.05)


def test_six_bits_are_refused(tmp_path: Path) -> None:
    save(shaken(lambda: tiny("llama", hidden_size=64, intermediate_size=96)), tmp_path / "hf")
    with pytest.raises(SettingError, match=r"has no weights of 6 bits .* quantise to 4, 5 or 8 bits"):
        chainrule.convert(tmp_path / "hf", tmp_path / "x.gguf", compact=True, bits=6)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("helium", "llama.cpp has no helium"),
        ("gemma3, scaled", r"a GGUF file of a gemma3 cannot have full_layers=\(2, 5\)"),
        ("qwen2, windows", "a GGUF file of a qwen2 cannot have window=5"),
        ("ernie4_5", "llama.cpp has no ernie4_5 with biases"),
        ("nemotron_h", "no nemotron_h_moe with feed-forward layers beside those of experts"),
        ("nemotron_h, without experts", "no nemotron_h with biases of Mamba's products"),
        ("lfm2_moe", r"a GGUF file of a lfm2moe cannot have routed_scale=1\.7"),
        ("lfm2, biased", "no lfm2 with biases of its convolutions"),
        ("qwen3_next, dense", "no qwen3next whose heads of keys and of values differ in width"),
        ("exaone4", "no exaone4 with windows, but of 64 layers"),
        ("olmoe", "no olmoe with fewer heads of keys than of queries"),
        ("deepseek_v2", "no deepseek2 without a vector of queries, but of 26 or 27 layers"),
        ("deepseek_v2, in groups", "no deepseek2 whose groups of experts are chosen by the best one"),
        ("falcon_h1", "no falcon-h1 with a norm before the gate"),
        ("gemma4", "no gemma4 whose shared keys are not those of the last two layers before"),
    ],
)
def test_what_a_file_cannot_say_is_refused_by_name(name: str, reason: str, tmp_path: Path) -> None:
    save(shaken(CAUSAL[name]), tmp_path / "hf")
    with pytest.raises(SettingError, match=reason):
        chainrule.convert(tmp_path / "hf", tmp_path / "x.gguf")
    assert not (tmp_path / "x.gguf").exists()


@pytest.mark.parametrize("build", [byte_level, word_pieces])
def test_a_tokenizer_comes_back(build: Any) -> None:
    tokenizer = build()
    metadata = vocabulary_metadata(tokenizer.to_str().encode(), 300, {"bos_token_id": 1, "eos_token_id": 0}, "text")
    back = type(tokenizer).from_str(definition_of_gguf(Path("x.gguf"), metadata).decode())
    for text in [*TEXTS, "Straße  mit\nZeilen", "12,345"]:
        assert back.encode(text, add_special_tokens=False).ids == tokenizer.encode(text, add_special_tokens=False).ids
