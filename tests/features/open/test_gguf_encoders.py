"""GGUF files of encoders embed as their models of transformers do, with tokenizers of BERT's kind and of T5's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tiny_models import shaken, transformers
from tiny_tokenizers import TEXTS, masked_byte_level, unigrams, word_pieces

import chainrule
from chainrule import ModelFormatError
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

_SIZE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 66,
}
_CONTROL, _NORMAL = 3, 1


def _framed() -> Tokenizer:
    """Unigrams with XLM-R's tokens around a text; <s> and <mask> come after the pieces."""
    described = json.loads(unigrams().to_str())
    numbers = {piece: number for number, (piece, _) in enumerate(described["model"]["vocab"])}
    for token in ("<s>", "<mask>"):
        numbers[token] = len(described["model"]["vocab"])
        described["model"]["vocab"].append([token, 0.0])
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        described["added_tokens"].append({"id": numbers[token], "content": token, **flags, "special": True})
    described["post_processor"] = {
        "type": "RobertaProcessing",
        "cls": ["<s>", numbers["<s>"]],
        "sep": ["</s>", numbers["</s>"]],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    return type(unigrams()).from_str(json.dumps(described))


def build(kind: str) -> tuple[Any, Tokenizer]:
    """A model without an output, and its tokenizer."""
    if kind == "bert":
        return shaken(
            lambda: transformers.BertModel(transformers.BertConfig(**_SIZE, vocab_size=60, pad_token_id=0))
        ), word_pieces()
    if kind == "roberta":
        config = transformers.RobertaConfig(**_SIZE, vocab_size=285, pad_token_id=1, type_vocab_size=1)
        return shaken(lambda: transformers.RobertaModel(config)), masked_byte_level()
    if kind.startswith("modern"):
        size = {**_SIZE, "num_hidden_layers": 4, "local_attention": 4, "vocab_size": 285, "pad_token_id": 1}
        act = "silu" if "silu" in kind else "gelu"
        tokens = {"cls_token_id": 0, "sep_token_id": 2, "bos_token_id": 0, "eos_token_id": 2}
        config = transformers.ModernBertConfig(**size, **tokens, hidden_activation=act, attn_implementation="eager")
        return shaken(lambda: transformers.ModernBertModel(config)), masked_byte_level()
    tokenizer = _framed()
    config = transformers.XLMRobertaConfig(
        **_SIZE, vocab_size=tokenizer.get_vocab_size(), pad_token_id=0, type_vocab_size=1
    )
    return shaken(lambda: transformers.XLMRobertaModel(config)), tokenizer


def _add_tokenizer(writer: gguf.GGUFWriter, kind: str, tokenizer: Tokenizer) -> None:
    """As llama.cpp's converter writes it."""
    described = json.loads(tokenizer.to_str())
    special = {token["content"] for token in described["added_tokens"]}
    numbers = tokenizer.get_vocab()
    pieces = sorted(numbers, key=numbers.__getitem__)
    types = [_CONTROL if piece in special else _NORMAL for piece in pieces]
    if kind == "bert":
        pieces = [
            piece if piece in special else piece[2:] if piece.startswith("##") else f"\u2581{piece}" for piece in pieces
        ]
    if kind.startswith(("roberta", "modern")):
        pieces += [f"<unused{number}>" for number in range(len(pieces), 285)]
        types += [5] * (len(pieces) - len(types))
        writer.add_token_merges([" ".join(merge) for merge in described["model"]["merges"]])
    if kind == "xlm-roberta":
        writer.add_token_scores([score for _, score in described["model"]["vocab"]])
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
        types[described["model"]["unk_id"]] = 2
    models = {"bert": ("bert", "jina-v2-en"), "roberta": ("gpt2", "gpt-2"), "xlm-roberta": ("t5", "default")}
    model, pre = models.get(kind, ("gpt2", "modern-bert"))
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    before, after = tokenizer.encode("").ids
    (writer.add_add_bos_token if kind == "bert" else writer.add_add_eos_token)(True)
    writer.add_bos_token_id(before)
    writer.add_eos_token_id(after)
    writer.add_sep_token_id(after)


def write(path: Path, kind: str, model: Any, tokenizer: Tokenizer, **changes: Any) -> Path:
    """A file as llama.cpp's converter writes it: positions without the rows up to that of padding."""
    offset = 0 if kind == "bert" or kind.startswith("modern") else 1 + model.config.pad_token_id
    config, layers = model.config, model.config.num_hidden_layers
    architecture = gguf.MODEL_ARCH.MODERN_BERT if kind.startswith("modern") else gguf.MODEL_ARCH.BERT
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_block_count(layers)
    writer.add_context_length(66 - offset)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(24)
    writer.add_head_count(4)
    writer.add_causal_attention(False)
    if kind.startswith("modern"):
        writer.add_layer_norm_eps(config.norm_eps)
        writer.add_sliding_window(config.local_attention)
        writer.add_sliding_window_pattern(3)
        full, sliding = (config.rope_parameters[kind] for kind in ("full_attention", "sliding_attention"))
        writer.add_rope_freq_base(full["rope_theta"])
        writer.add_rope_freq_base_swa(sliding["rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_vocab_size(config.vocab_size)
        writer.add_string("modern-bert.hidden_activation", config.hidden_activation)
    else:
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_token_type_count(config.type_vocab_size)
    if "pooling" in changes:
        writer.add_pooling_type(changes["pooling"])
    _add_tokenizer(writer, kind, tokenizer)
    writer.add_pad_token_id(model.config.pad_token_id)
    names = gguf.get_tensor_name_map(architecture, layers)
    for name, tensor in model.state_dict().items():
        if name.startswith("pooler") or name.endswith(("position_ids", "token_type_ids")):
            continue
        array = tensor.numpy()[offset:] if "position_embeddings" in name else tensor.numpy()
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "modernbert", "modernbert, silu"])
@pytest.mark.parametrize("pooling", [None, gguf.PoolingType.CLS])
def test_an_encoder_in_gguf_embeds_as_transformers_does(kind: str, pooling: Any, tmp_path: Path) -> None:
    theirs, tokenizer = build(kind)
    path = write(tmp_path / "tiny.gguf", kind, theirs, tokenizer, **({} if pooling is None else {"pooling": pooling}))
    ours = chainrule.load(path)
    assert ours.family == "text-encoder"
    found = ours.embed(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        with torch.inference_mode():
            states = theirs(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        expected = (states.mean(0) if pooling is None else states[0]).numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-5 * np.abs(states.numpy()).max(), rtol=0)


@pytest.mark.parametrize("kind", ["modernbert", "modernbert, silu"])
def test_a_modernbert_becomes_the_folder_that_it_was_made_of(kind: str, tmp_path: Path) -> None:
    theirs, tokenizer = build(kind)
    chainrule.convert(write(tmp_path / "tiny.gguf", kind, theirs, tokenizer), tmp_path / "hf", to="hugging-face")
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    assert tensors.keys() == theirs.state_dict().keys()
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(tensors[name], tensor.numpy(), err_msg=name)
    vectors = [chainrule.load(tmp_path / name).embed(TEXTS) for name in ("hf", "tiny.gguf")]
    np.testing.assert_array_equal(*vectors)
    with torch.no_grad():
        ids = torch.tensor([[0, 9, 8, 7, 6, 5, 4, 2]])
        again = transformers.ModernBertModel.from_pretrained(tmp_path / "hf")(ids).last_hidden_state
        np.testing.assert_allclose(again, theirs(ids).last_hidden_state, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_texts_have_the_tokens_of_the_tokenizer_it_was_made_of(kind: str, tmp_path: Path) -> None:
    theirs, tokenizer = build(kind)
    ours = chainrule.load(write(tmp_path / "tiny.gguf", kind, theirs, tokenizer))
    theirs_of = TokenIdMap(**ours.record["hugging_face"]["tokens"]).theirs()
    for text in (*TEXTS, "The Cat, on-the mat!", "dogs  mat"):
        own = ours.tokenizer.encode_texts([text]).ids[:-1]
        assert theirs_of[own].tolist() == tokenizer.encode(text, add_special_tokens=False).ids


def test_a_marker_that_is_not_there_is_told(tmp_path: Path) -> None:
    theirs, tokenizer = build("bert")
    path = write(tmp_path / "tiny.gguf", "bert", theirs, tokenizer)
    data = path.read_bytes().replace(b"tokenizer.ggml.bos_token_id", b"tokenizer.ggml.bos_tokem_id")
    path.write_bytes(data.replace(b"\x05\0\0\0\0\0\0\0[CLS]", b"\x05\0\0\0\0\0\0\0[ALS]"))
    with pytest.raises(ModelFormatError, match=r"tiny\.gguf: tokenizer\.ggml\.cls_token_id is None"):
        chainrule.load(path)
