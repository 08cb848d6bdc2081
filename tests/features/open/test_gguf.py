"""GGUF files: every type of block as the package gguf reads it, and a tiny llama as transformers has it."""

from __future__ import annotations

import gc
import json
import struct
import time
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from samples import sampled
from tiny_files import write_gguf, written_anew
from tiny_models import CAUSAL, gpt2, save, shaken, tiny
from tiny_tokenizers import TEXTS, byte_level
from tokenizers import Tokenizer

import chainrule
from chainrule import ModelFormatError
from chainrule.base.bfloat16 import widen
from chainrule.features.open.gguf.file import BLOCK_TYPES, dequantise, open_gguf
from chainrule.features.open.gguf.tokenizer import definition_of_gguf
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.saving import arrays_of


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_every_type_of_block_is_what_the_package_gguf_has(number: int) -> None:
    kind = BLOCK_TYPES[number]
    random = np.random.default_rng(number)
    blocks = random.integers(0, 256, (40, kind.bytes), dtype=np.uint8)
    if not kind.is_quantised:
        blocks = random.normal(size=40).astype("<f4").view(np.uint8).reshape(40, 4)[:, 4 - kind.bytes :].copy()
        if kind.name == "F16":
            blocks = random.normal(size=40).astype("<f2").view(np.uint8).reshape(40, 2)
    elif kind.name == "MXFP4":  # the exponent of a power of two
        blocks[:, 0] = random.integers(100, 150, 40)
    else:  # scales that are numbers
        halves = {"Q6_K": [208]}.get(kind.name, [0, 2] if kind.name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else [0])
        for begin in halves:
            blocks[:, begin : begin + 2] = random.normal(size=40).astype("<f2").view(np.uint8).reshape(40, 2)
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(number))
    np.testing.assert_allclose(widen(dequantise(kind, blocks.reshape(-1))), expected.reshape(-1), rtol=1e-6, atol=1e-6)


IN_GGUF = [
    *(
        "llama",
        "llama3",
        "llama, linear",
        "llama, yarn",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2, usual",
        "gemma3, scaled",
    ),
    *("smollm3", "phi", "phi3", "phi3, longrope", "olmo", "olmo2", "olmo3", "exaone4", "granite", "starcoder2"),
    *("stablelm", "stablelm, parallel", "cohere", "cohere2", "glm4", "ernie4_5", "mixtral", "qwen3_moe"),
    *("lfm2, unadjusted", "mamba", "mamba2", "qwen3_5", "gpt_oss", "gpt_oss, without attention's biases"),
    *("gemma4", "gemma4, wide", "gemma4, experts", "gemma4, keys as values, without vectors for blocks"),
    *("gpt2", "gpt_neox", "gpt_neox, one after the other", "bloom"),
    *("falcon", "falcon, new"),
]


@pytest.mark.spread(14)
@pytest.mark.parametrize("name", IN_GGUF)
def test_a_model_in_gguf_gives_what_transformers_gives(name: str, tmp_path: Path) -> None:
    theirs = shaken(CAUSAL[name])
    ours = chainrule.load(write_gguf(tmp_path / "tiny.gguf", theirs, byte_level()))
    numbering = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    ids = byte_level().encode(TEXTS[2]).ids
    encoded = ours.tokenizer.encode_texts([TEXTS[2]]).ids[:-1]
    assert numbering.theirs()[encoded].tolist() == ids
    with torch.no_grad():
        logits = theirs(torch.tensor([[1, *ids]])).logits[0, :-1].double()
    tolerance = 1e-5 * float(logits.abs().max())
    logits[:, 1] = -torch.inf
    expected = logits.log_softmax(-1)[torch.arange(len(ids)), ids].numpy()
    np.testing.assert_allclose(ours.language_model.score([encoded], end=False)[0], expected, atol=tolerance, rtol=0)


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", sampled(IN_GGUF, IN_GGUF[::3]))
def test_a_file_becomes_the_folder_that_it_was_made_of(name: str, tmp_path: Path) -> None:
    theirs = shaken(CAUSAL[name])
    theirs.save_pretrained(tmp_path / "theirs")
    chainrule.convert(write_gguf(tmp_path / "tiny.gguf", theirs, byte_level()), tmp_path / "hf", to="hugging-face")
    came, went = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "hf"))
    assert came.keys() == went.keys()
    for tensor, array in came.items():  # but for 1 + w and exp of a log
        np.testing.assert_allclose(went[tensor], array, rtol=1e-5, atol=2e-7, err_msg=tensor)
    model, same = chainrule.load(tmp_path / "hf"), chainrule.load(tmp_path / "tiny.gguf")
    np.testing.assert_allclose(model.score(TEXTS), same.score(TEXTS), rtol=1e-5)


def test_angles_divided_as_in_llama_3_are_its_rule(tmp_path: Path) -> None:
    """The file holds divisors alone; a model of transformers has the rule's numbers."""
    rope = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 5e5}
    build = partial(tiny, "llama", rope_parameters={**rope, "original_max_position_embeddings": 8192}, head_dim=16)
    theirs = shaken(build)
    ours = chainrule.load(write_gguf(tmp_path / "tiny.gguf", theirs, byte_level()))
    config = ours.engine.network.config
    assert config.rotary_scaling == "llama3"
    assert (config.rotary_factor, config.rotary_trained_context) == (32.0, 8192)
    assert (config.rotary_low_factor, config.rotary_high_factor) == (1.0, 4.0)


def quantised(path: Path, names: tuple[str, ...]) -> Path:
    """The file with some matrices in Q8_0, as `llama-quantize` writes them."""

    def changed(tensor: Any) -> tuple[Any, Any]:
        data = np.array(tensor.data)
        if not any(name in tensor.name for name in names):
            return data, None
        return gguf.quants.quantize(
            data.astype(np.float32), gguf.GGMLQuantizationType.Q8_0
        ), gguf.GGMLQuantizationType.Q8_0

    target = path.with_suffix(".q8.gguf")
    architecture = gguf.GGUFReader(path).fields["general.architecture"].contents()
    written_anew(path, gguf.GGUFWriter(target, architecture), changed)
    return target


def test_blocks_of_a_gpt_2_stay_as_they_are(tmp_path: Path) -> None:
    """Its file has matrices as products take them, Hugging Face's terms have them transposed, and ours not."""
    model = shaken(partial(gpt2, n_embd=64))
    plain = write_gguf(tmp_path / "tiny.gguf", model, byte_level())
    path = quantised(plain, ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"))
    exact, packed = chainrule.load(path, exact=True), chainrule.load(path)
    assert "weights:Q8_0" in packed.engine.stream_signature
    arrays = arrays_of(packed.engine.network)
    matrices = [name for name in arrays if "blocks" in name and arrays[name].dtype == np.uint8]
    assert len(matrices) == 8
    chainrule.convert(path, tmp_path / "small", compact=True)
    small = chainrule.load(tmp_path / "small")
    again = arrays_of(small.engine.network)
    for name in matrices:  # not rounded a second time
        np.testing.assert_array_equal(again[name], arrays[name], name)
    np.testing.assert_allclose(packed.score(TEXTS), exact.score(TEXTS), rtol=2e-2)  # activations are rounded


def test_norms_of_a_file_in_16_bits_keep_their_bits_in_transformers(tmp_path: Path) -> None:
    model = shaken(partial(tiny, "llama"))
    chainrule.convert(
        write_gguf(tmp_path / "tiny.gguf", model, byte_level(), half=True), tmp_path / "hf", to="hugging-face"
    )
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["dtype"] == "float32"
    theirs = type(model).from_pretrained(tmp_path / "hf")
    norm = next(weight for name, weight in theirs.named_parameters() if name.endswith("input_layernorm.weight"))
    assert torch.equal(norm, model.model.layers[0].input_layernorm.weight)


def test_a_phi_3_has_no_padding_beyond_its_vocabulary(tmp_path: Path) -> None:
    model = shaken(CAUSAL["phi3"])
    chainrule.convert(write_gguf(tmp_path / "tiny.gguf", model, byte_level()), tmp_path / "hf", to="hugging-face")
    theirs = type(model).from_pretrained(tmp_path / "hf").eval()  # transformers' own default is 32,000
    assert theirs.config.pad_token_id is None
    ids = torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, model(ids).logits)


_TRAINED = {"original_max_position_embeddings": 16}
_DEFAULT = {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize(
    ("scaling", "rope"),
    [
        ({"type": "linear"}, _DEFAULT),  # llama.cpp takes a factor of 1
        ({"factor": 4.0}, {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}),
        ({"factor": 0.0}, _DEFAULT),
        ({"type": "none", "factor": 4.0}, _DEFAULT),
        (
            {"type": "linear", "factor": 4.0, "yarn_beta_fast": 9.0, "yarn_ext_factor": 0.0, "attn_factor": 1.0},
            {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
        ),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 16, "attn_factor": 0.5, "yarn_ext_factor": 1.0},
            # ggml's rope_yarn: cosines and sines times attn_factor (1 + 0.1 ln(factor))
            {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500.0, "attention_factor": 0.569314718, **_TRAINED},
        ),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 16, "yarn_beta_fast": 8.0},
            {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500.0, "beta_fast": 8.0, **_TRAINED},
        ),
    ],
)
def test_angles_are_scaled_as_in_llama_cpp(scaling: dict[str, Any], rope: dict[str, Any], tmp_path: Path) -> None:
    plain = shaken(partial(tiny, "llama", rope_parameters=_DEFAULT))
    found = chainrule.load(write_gguf(tmp_path / "tiny.gguf", plain, byte_level(), scaling=scaling))
    theirs = shaken(partial(tiny, "llama", rope_parameters=rope))
    expected = chainrule.load(save(theirs, tmp_path / "hf"))
    np.testing.assert_allclose(found.score(TEXTS), expected.score(TEXTS), rtol=1e-6)


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"type": "yarn", "factor": 4.0, "yarn_ext_factor": 0.5}, r"rope\.scaling\.yarn_ext_factor is 0\.5"),
        ({"type": "linear", "factor": 4.0, "yarn_ext_factor": 1.0}, r"rope\.scaling\.yarn_ext_factor is 1\.0"),
        ({"type": "yarn", "factor": 4.0, "yarn_log_multiplier": 0.1}, r"rope\.scaling\.yarn_log_multiplier is 0\.1"),
        ({"type": "linear", "factor": 4.0, "attn_factor": 0.5}, r"attn_factor is 0\.5, .*of the type linear"),
        ({"attn_factor": 0.5}, r"attn_factor is 0\.5, .*of the type none"),
        ({"alpha": 2.0}, r"rope\.scaling\.alpha is 2\.0"),
        ({"type": "spiral"}, r"type is 'spiral'; expected one of none, linear, yarn, longrope"),
        ({"factor": "many"}, r"factor is 'many'"),
    ],
)
def test_scalings_that_are_not_done_are_refused_by_name(scaling: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = shaken(partial(tiny, "llama", rope_parameters=_DEFAULT))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(write_gguf(tmp_path / "tiny.gguf", model, byte_level(), scaling=scaling))


def test_several_ends_of_a_file_are_one(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level(), turn_end=7)
    ours = chainrule.load(path)
    numbering = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    assert (numbering.end, tuple(numbering.other_ends)) == (0, (7,))


WORDS = "It's 12345 o'clock, naïve CAFÉS!\n\n  x=y+1;"
CUTS = {  # by hand, from the pattern of each rule
    "qwen2": [
        "It",
        "'s",
        " ",
        "1",
        "2",
        "3",
        "4",
        "5",
        " o",
        "'clock",
        ",",
        " naïve",
        " CAFÉS",
        "!\n\n",
        " ",
        " x",
        "=y",
        "+",
        "1",
        ";",
    ],
    "llama-bpe": [
        "It",
        "'s",
        " ",
        "123",
        "45",
        " o",
        "'clock",
        ",",
        " naïve",
        " CAFÉS",
        "!\n\n",
        " ",
        " x",
        "=y",
        "+",
        "1",
        ";",
    ],
    "gpt-2": [
        "It",
        "'s",
        " 12345",
        " o",
        "'",
        "clock",
        ",",
        " naïve",
        " CAFÉS",
        "!",
        "\n\n ",
        " x",
        "=",
        "y",
        "+",
        "1",
        ";",
    ],
    "default": [
        "It",
        "'",
        "s",
        " ",
        "123",
        "45",
        " o",
        "'",
        "clock",
        ",",
        " naïve",
        " CAFÉS",
        "!",
        "\n\n ",
        " x",
        "=",
        "y",
        "+",
        "1",
        ";",
    ],
    "tekken": [
        "It",
        "'s",
        " ",
        "1",
        "2",
        "3",
        "4",
        "5",
        " o",
        "'clock",
        ",",
        " naïve",
        " CAFÉS",
        "!\n\n",
        " ",
        " x",
        "=y",
        "+",
        "1",
        ";",
    ],
}

CUTS["hunyuan-dense"] = CUTS["llama-bpe"]  # of this text


def test_pieces_of_gemma_4_are_merged_in_order_and_never_over_line_ends() -> None:
    """By hand: a space is ▁; the first merge goes before the second; a character without a piece becomes bytes."""
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "▁", "a", "b", "▁a", "ab", "\n", "\n\n", "a\n"]
    pieces += [f"<0x{byte:02X}>" for byte in range(256)]
    named = {"model": "gemma4", "tokens": pieces, "merges": ["▁ a", "a b", "\n \n", "a \n"], "unknown_token_id": 3}
    metadata = {f"tokenizer.ggml.{name}": value for name, value in named.items()}
    metadata["tokenizer.ggml.token_type"] = [3, 3, 3, 2, *[1] * 8, *[6] * 256]
    tokenizer = Tokenizer.from_str(definition_of_gguf(Path("gemma.gguf"), metadata).decode())
    text = "a ab ab\n\nb é\nab"
    expected = ["a", "▁a", "b", "▁a", "b", "\n\n", "b", "▁", "<0xC3>", "<0xA9>", "\n", "ab"]
    assert tokenizer.encode(text).tokens == expected
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize("rule", CUTS)
def test_texts_are_cut_into_words_by_the_rule_that_is_named(rule: str, tmp_path: Path) -> None:
    ours = chainrule.load(write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level(), pre=rule))
    definition = json.loads(ours.tokenizer.splitter.definition)
    cutter = Tokenizer.from_str(json.dumps({**definition, "added_tokens": []})).pre_tokenizer
    cuts = [WORDS[begin:end] for _, (begin, end) in cutter.pre_tokenize_str(WORDS)]
    assert cuts == CUTS[rule]


def test_a_token_that_a_user_defined_is_one_wherever_it_stands(tmp_path: Path) -> None:
    pieces = dict.fromkeys(["▁", "a", "b", "▁a", "[", "]"], 1) | {"[tool]": 4, "ab": 4, "ab[": 4}
    ours = chainrule.load(write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level(), scored=pieces))
    for text, expected in {
        "a[tool]b": ["▁a", "[tool]", "▁", "b"],
        "a ab b": ["▁a", "▁", "ab", "▁", "▁", "b"],
        "ab[tool] ab[a": ["ab[", "▁", *(f"<0x{byte:02X}>" for byte in b"tool"), "]", "▁", "ab[", "▁a"],
    }.items():
        ids = ours.tokenizer.encode_texts([text]).ids[:-1]
        assert [ours.tokenizer.vocabulary.token(number) for number in ids] == expected


def test_half_precision_stays_so_in_a_folder_of_ours(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level(), half=True)
    chainrule.convert(source, tmp_path / "lm")
    network = chainrule.load(tmp_path / "lm").engine.network
    assert network.encoder.blocks[0].feed_forward.up.weight.dtype == torch.float16
    before, after = (chainrule.load(path).score(TEXTS) for path in (source, tmp_path / "lm"))
    assert before.tolist() == after.tolist()


def test_what_opening_took_is_given_back(tmp_path: Path) -> None:
    model = chainrule.load(write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level()))
    maps = Path("/proc/self/maps")
    gc.collect()
    assert not maps.exists() or str(tmp_path) not in maps.read_text()  # of small arrays
    assert "numbers" not in vars(model.tokenizer.splitter)
    assert byte_level().get_vocab().items() <= model.tokenizer.splitter.numbers.items()


def test_other_architectures_and_cutters_are_refused_by_name(tmp_path: Path) -> None:
    model = shaken(CAUSAL["llama"])
    with pytest.raises(ModelFormatError, match=r"general.architecture is 'rwkv6'"):
        chainrule.load(write_gguf(tmp_path / "a.gguf", model, byte_level(), architecture="rwkv6"))
    with pytest.raises(ModelFormatError, match=r"tokenizer.ggml.pre is 'odd'; expected one of gpt-2"):
        chainrule.load(write_gguf(tmp_path / "b.gguf", model, byte_level(), pre="odd"))


@pytest.mark.parametrize("name", ["fake.gguf", "fake.GGUF"])
def test_a_text_that_is_named_as_a_gguf_file_is_told(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("this is a text\n")
    for read in (
        lambda: chainrule.load(path),
        lambda: chainrule.train(chainrule.Lines(["a text"]), tokenizer=str(path)),
    ):
        with pytest.raises(
            ModelFormatError, match=rf"{name}: is named .gguf, and begins with b'this', not with GGUF's"
        ):
            read()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; get it again"),
        (b"GGUF", "ends within its header, at byte 4; it is cut off; get it again"),
        (
            struct.pack("<4sIQQQ20s", b"GGUF", 3, 0, 1, 1, b"\xff"),
            "its text at byte 32 is no UTF-8; the file is damaged",
        ),
    ],
    ids=["empty", "short", "no text"],
)
def test_a_file_without_a_whole_header_is_told(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "short.gguf").write_bytes(content)
    with pytest.raises(ModelFormatError, match=f"short.gguf: {told}"):
        chainrule.load(tmp_path / "short.gguf")


def test_a_header_that_claims_a_petabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.gguf"
    claims = {
        "tensors": struct.pack("<4sIQQ", b"GGUF", 3, 1 << 50, 0),
        "metadata": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 50),
        "a name": struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 50),
        "an array": struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"a", 9, 4, 1 << 50),
    }
    for header in claims.values():
        path.write_bytes(header + bytes(1000))
        began = time.process_time()
        with pytest.raises(ModelFormatError, match=r"huge.gguf: its header claims 1,125,899,906,842,624 values"):
            chainrule.load(path)
        assert time.process_time() - began < 10  # seconds: it would take hours


def test_every_cut_of_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    data = write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level()).read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [*range(4, 2000, 97), *range(2000, len(data), 5003), len(data) - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(ModelFormatError, match=r"cut\.gguf: "):
            open_gguf(cut)
