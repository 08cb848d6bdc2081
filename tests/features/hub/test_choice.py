"""Which files of a repository are chosen, by names and sizes alone."""

from __future__ import annotations

import pytest

from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.hub.choice import Choice, choose

FOLDER = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
)
BESIDE = ("README.md", ".gitattributes", "training_args.bin", "optimizer.pt", "trainer_state.json", "onnx/model.onnx")
PARTS = tuple(f"Q8_0/x-Q8_0-0000{number}-of-00003.gguf" for number in (1, 2, 3))


def chosen(*files: str, file: str = "", index: bytes = b"{}", is_whole: bool = True, pickles: bool = False) -> Choice:
    sizes = {name: 1000 + number for number, name in enumerate(files)}
    return choose("hf:a/b", sizes, file, lambda _: index, allow_pickle=pickles, is_whole=is_whole)


def test_settings_tokenizer_and_one_set_of_weights() -> None:
    weights = ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "x-Q8_0.gguf")
    assert chosen(*FOLDER, *BESIDE, *weights) == Choice((*FOLDER, "model.safetensors"))
    assert chosen(*FOLDER, *BESIDE, *weights, is_whole=False) == Choice(("config.json",))
    assert chosen(*FOLDER, *BESIDE, *weights, file="model.safetensors") == Choice((*FOLDER, "model.safetensors"))
    assert chosen(*FOLDER, "pytorch_model.bin", pickles=True) == Choice((*FOLDER, "pytorch_model.bin"))
    assert chosen("config.json", "pytorch_model.bin", "x.gguf") == Choice(("x.gguf",), "x.gguf")


def test_the_shards_that_an_index_names() -> None:
    index = b'{"weight_map": {"a": "s-2.safetensors", "b": "s-1.safetensors", "c": "s-2.safetensors"}}'
    name, shards = "model.safetensors.index.json", ("s-1.safetensors", "s-2.safetensors")
    assert chosen(*FOLDER, name, *shards, "s-3.safetensors", index=index) == Choice((*FOLDER, name, *shards))
    with pytest.raises(
        ModelFormatError, match=r"s-2\.safetensors is missing, one of 2 files that model\.safetensors\.ind"
    ):
        chosen(*FOLDER, name, "s-1.safetensors", index=index)


def test_parts_of_sentence_encoders_and_translators_and_adapters() -> None:
    folders = ("1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors")
    own = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "config.json")
    more = ("openvino/config.json", "onnx/model.safetensors")
    assert set(chosen(*own, *folders, *more, "model.safetensors").files) == {*own, *folders, "model.safetensors"}
    marian = ("config.json", "source.spm", "target.spm", "vocab.json", "model.safetensors")
    assert set(chosen(*marian, "README.md").files) == set(marian)
    adapter = ("adapter_config.json", "adapter_model.safetensors")
    assert chosen("README.md", *adapter) == Choice(adapter)


def test_a_file_in_parts_is_one() -> None:
    assert chosen("README.md", *PARTS) == Choice(PARTS, PARTS[0])
    assert chosen(*PARTS, "x-Q4_0.gguf", file="Q8_0") == Choice(PARTS, PARTS[0])
    with pytest.raises(
        SettingError, match=r"2 files fit; choose one, .*: Q8_0/x-Q8_0-00001-of-00003\.gguf \(3\.0 kB\), x-Q4"
    ):
        chosen(*PARTS, "x-Q4_0.gguf")


def test_a_part_of_a_name_is_whole_and_rather_at_its_end() -> None:
    assert chosen("x-Q4_K.gguf", "x-Q4_K_M.gguf", file="q4_k") == Choice(("x-Q4_K.gguf",), "x-Q4_K.gguf")
    assert chosen("x-IQ4_K.gguf", "x-Q4_K_M.gguf", file="Q4_K") == Choice(("x-Q4_K_M.gguf",), "x-Q4_K_M.gguf")
    assert chosen("a/lm.arpa", "x.gguf", file="*.arpa") == Choice(("a/lm.arpa",), "a/lm.arpa")
