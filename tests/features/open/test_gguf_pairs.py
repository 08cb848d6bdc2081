"""GGUF files of T5 score, write and go back as the models of transformers that they were made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tiny_models import PAIRS, save, shaken
from tiny_tokenizers import SOURCES, TEXTS, framed, unigrams

import chainrule
from chainrule import ModelFormatError, SettingError
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path

_NORMAL, _UNKNOWN, _CONTROL, _UNUSED = 1, 2, 3, 5


def write(path: Path, model: Any, *, twice: bool = False) -> Path:
    """A file as llama.cpp's converter writes it. twice: with a tied output, too, as old checkpoints have it."""
    config, writer = model.config, gguf.GGUFWriter(path, "t5")
    writer.add_context_length(512)
    writer.add_embedding_length(config.d_model)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_block_count(config.num_layers)
    writer.add_decoder_block_count(config.num_decoder_layers)
    writer.add_head_count(config.num_heads)
    writer.add_key_length(config.d_kv)
    writer.add_value_length(config.d_kv)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    writer.add_decoder_start_token_id(config.decoder_start_token_id)
    described = json.loads(unigrams().to_str())["model"]
    pieces, scores = map(list, zip(*described["vocab"], strict=True))
    unused = config.vocab_size - len(pieces)
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*pieces, *(f"[PAD{number}]" for number in range(len(pieces), config.vocab_size))])
    writer.add_token_scores([*scores, *[-10000.0] * unused])
    kinds = {"<pad>": _CONTROL, "</s>": _CONTROL, "<unk>": _UNKNOWN}
    writer.add_token_types([*(kinds.get(piece, _NORMAL) for piece in pieces), *[_UNUSED] * unused])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_pad_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, max(config.num_layers, config.num_decoder_layers))
    is_tied = model.lm_head.weight is model.shared.weight
    for name, tensor in model.state_dict().items():
        if not (name.endswith("embed_tokens.weight") or (name.startswith("lm_head") and is_tied and not twice)):
            writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def build(name: str) -> Any:
    """A tiny T5; 1.1 with an output of its own, which transformers 5 makes only of a file that has one."""
    model = shaken(PAIRS[name])
    if name == "t5 1.1":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.flip(0) * 0.3)
    return model


@pytest.mark.parametrize(("name", "twice"), [("t5", False), ("t5", True), ("t5 1.1", False)])
def test_a_t5_in_gguf_scores_as_transformers_does(name: str, twice: bool, tmp_path: Path) -> None:
    theirs = build(name)
    ours = chainrule.load(write(tmp_path / "tiny.gguf", theirs, twice=twice), chainrule.Seq2SeqModel)
    tokens = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    for source, target in zip(SOURCES, TEXTS, strict=True):
        sides = [unigrams().encode(text).ids for text in (source, target)]  # with </s>
        own = ours.sources([source])[0], ours.target.encode_texts([target]).ids
        assert [tokens.theirs()[ids].tolist() for ids in own] == [sides[0][:-1], sides[1]]
        with torch.no_grad():
            inputs, outputs = torch.tensor([sides[0]]), torch.tensor([[0, *sides[1][:-1]]])
            logits = theirs(input_ids=inputs, decoder_input_ids=outputs).logits[0].double()
        tolerance = 1e-5 * max(1.0, float(logits.abs().max()))
        logits[:, 0] = -torch.inf  # the start is never predicted
        expected = logits.log_softmax(-1)[torch.arange(len(sides[1])), sides[1]].numpy()
        [found] = ours.model.given([own[0]]).score([own[1][:-1]])
        np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", ["t5", "t5 1.1"])
def test_a_t5_becomes_the_folder_that_it_was_made_of(name: str, tmp_path: Path) -> None:
    theirs = build(name)
    theirs.save_pretrained(tmp_path / "theirs")
    path = write(tmp_path / "tiny.gguf", theirs)
    chainrule.convert(path, tmp_path / "hf", to="hugging-face")
    came, went = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "hf"))
    assert came.keys() == went.keys()
    for tensor, array in came.items():
        np.testing.assert_array_equal(went[tensor], array, err_msg=tensor)
    chainrule.convert(path, tmp_path / "lm")
    texts = [chainrule.load(tmp_path / folder).write(SOURCES)[0] for folder in ("hf", "lm", "tiny.gguf")]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.filterwarnings("ignore:.*does not scale the tied output")
@pytest.mark.parametrize("name", ["t5", "t5 1.1"])
def test_a_gguf_file_is_written_as_llama_cpp_s_converter_writes_it(name: str, tmp_path: Path) -> None:
    source, again = write(tmp_path / "tiny.gguf", build(name)), tmp_path / "again.gguf"
    chainrule.convert(source, again)
    theirs, ours = (gguf.GGUFReader(path) for path in (source, again))
    tensors = {tensor.name: tensor.data for tensor in ours.tensors}
    assert tensors.keys() == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        np.testing.assert_array_equal(tensors[tensor.name], tensor.data, err_msg=tensor.name)
    for key, field in theirs.fields.items():
        if key.startswith("t5."):
            assert ours.fields[key].contents() == field.contents(), key
    assert chainrule.load(again).write(SOURCES) == chainrule.load(source).write(SOURCES)


def test_a_gguf_file_of_other_pairs_is_not_written(tmp_path: Path) -> None:
    save(shaken(PAIRS["bart"]), tmp_path / "hf", framed("bart"))
    with pytest.raises(SettingError, match=r"llama\.cpp has no bart"):
        chainrule.convert(tmp_path / "hf", tmp_path / "x.gguf")


LACKING = {  # a field or a tensor, under a name of the same length, and what is said of its lack
    b"t5.block_count": (b"t5.blocks_nows", r"t5\.block_count is None; expected a number above 0"),
    b"t5.attention.key_length": (b"t5.attention.key_widths", r"t5\.attention\.key_widths is 6, which is not supported"),
    b"tokenizer.ggml.scores": (b"tokenizer.ggml.points", r"tokens has 60 values; expected as many"),
    b"dec.blk.0.cross_attn_norm": (
        b"dec.blk.0.cross_attn_nnnn",
        r"tensor 'dec\.blk\.0\.cross_attn_nnnn\.weight', which a t5",
    ),
    b"dec.blk.1.ffn_up": (b"dec.blk.7.ffn_up", r"layer\.2\.DenseReluDense\.wi\.weight"),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_a_file_lacks_is_told(name: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", shaken(PAIRS["t5"]))
    other, message = LACKING[name]
    path.write_bytes(path.read_bytes().replace(name, other))
    with pytest.raises(ModelFormatError, match=message) as raised:
        chainrule.load(path)
    assert "tiny.gguf" in str(raised.value)
