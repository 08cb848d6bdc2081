"""Products in four to eight bits: integer arithmetic by NumPy as the oracle; the same bits everywhere."""

from __future__ import annotations

import copy
import hashlib
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from samples import sampled

from chainrule.errors import ModelFormatError
from chainrule.features.open.gguf.file import BLOCK_TYPES
from chainrule.features.open.network.config import opened
from chainrule.neural.build import build
from chainrule.neural.config import TransformerConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.matrix_products import product
from chainrule.neural.packed import block_kernels, layouts
from chainrule.neural.packed.layouts import FORMS, Quantised, Vectors, matrix_of, packed, rows_of, unpacked
from chainrule.neural.packed.reading import ACTIVATIONS, packed_reader
from chainrule.neural.packed.reading_kernels import activate_and_quantise, add_and_layer_norm, norm_joint_heads
from chainrule.neural.saving import from_state, to_state

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {kind.name: kind for kind in BLOCK_TYPES.values()}


def random_rows(name: str, rows: int, columns: int, seed: int = 1) -> Quantised:
    """Random blocks of a form."""
    form, random = FORMS[name], np.random.default_rng(seed)
    heads = columns // (32 * form.blocks)
    halves = random.uniform(1e-3, 1e-2, (2, rows, heads)).astype(np.float16)
    scales = minima = None
    if form.blocks > 1 and form.halved:
        scales = random.integers(-128, 128, (rows, heads, 16), dtype=np.int8)
    elif form.blocks > 1:
        scales, minima = random.integers(0, 64, (2, rows, heads, 8), dtype=np.uint8)
    numbers = random.integers(0, 1 << form.low_bits + form.more_bits, (rows, columns), dtype=np.uint8)
    return Quantised(name, numbers, halves[0], halves[1] if form.has_minima else None, scales, minima)


def matrix(name: str, rows: int = 35, columns: int = 512) -> torch.Tensor:
    return torch.from_numpy(packed(rows, columns, [(name, rows, [random_rows(name, rows, columns)])]))


def vectors(count: int, columns: int = 512, seed: int = 2) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed))


def rounded(x: torch.Tensor) -> np.ndarray:
    """Vectors in eight bits, each block of 32 by its largest number, in float64."""
    blocks = x.numpy().reshape(len(x), -1, 32)
    most = np.abs(blocks).max(2, keepdims=True)
    integers = np.rint(blocks * (np.float32(127) / most))
    return (integers.astype(np.float64) * (most / np.float32(127))).reshape(x.shape)


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", FORMS)
@torch.no_grad()
def test_products_are_those_of_rounded_vectors(name: str) -> None:
    weight, x, bias = matrix(name), vectors(5), vectors(1, 35)[0]
    weights = unpacked(weight).double().numpy()
    expected = rounded(x) @ weights.T
    found = product(x, weight).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(product(x, weight, bias).numpy(), found + bias.numpy())
    exact = x.double().numpy() @ weights.T
    assert np.abs(found - exact).max() < 0.01 * np.abs(exact).max()  # what rounding vectors costs


@pytest.mark.parametrize("name", [name for name in FORMS if name in KINDS])
def test_blocks_of_files_keep_every_bit(name: str) -> None:
    """The weights of random blocks, by the reader of GGUF, which the package gguf is the oracle of."""
    from chainrule.features.open.quantised import StoredMatrix

    kind, random = KINDS[name], np.random.default_rng(3)
    rows, blocks = 37, 512 // kind.weights
    stored = random.integers(0, 256, (rows, blocks, kind.bytes), dtype=np.uint8)
    for begin in [208] if name == "Q6_K" else [0, 2] if FORMS[name].has_minima else [0]:
        halves = random.normal(size=(rows, blocks)).astype("<f2")
        stored[..., begin : begin + 2] = halves[..., None].view(np.uint8)
    order = random.permutation(rows)
    order[5] = -1
    weight = StoredMatrix(((kind, stored),), order).pack()
    assert weight is not None
    assert kind.parts is not None
    expected = kind.parts(stored.reshape(-1, kind.bytes)).weights().reshape(rows, 512)[order]
    expected[5] = 0
    np.testing.assert_array_equal(unpacked(torch.from_numpy(weight)).numpy(), expected)
    some = torch.tensor([[3, 36], [0, 5]])
    np.testing.assert_array_equal(rows_of(torch.from_numpy(weight), some).numpy(), expected[some.numpy()])


SMALLEST = 2.0**-24  # of float16


@pytest.mark.parametrize("largest", [1e-7, 1e-6, 1e-5, 1e-4, 4e-4, 1e-2, 1.0])
@pytest.mark.parametrize(("bits", "most"), [(6, 31), (8, 127)])
def test_no_weight_is_clipped_by_a_scale_that_was_rounded_down(bits: int, most: int, largest: float) -> None:
    """A step is the largest weight / most, rounded to float16: by 2**-12 of itself, or half the smallest one."""
    weight = torch.linspace(-largest, largest, 64 * 32).view(64, 32)
    blocks = weight.abs().amax(1)
    step = np.maximum(blocks.numpy() / most * (1 + 2.0**-11), blocks.numpy() / most + SMALLEST)
    errors = (unpacked(torch.from_numpy(layouts.pack(weight, bits))) - weight).abs().amax(1).numpy()
    assert (errors <= 0.51 * step).all()


@pytest.mark.parametrize("lowest", [0.0, -1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("width", [1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize(("bits", "most"), [(4, 15), (5, 31)])
def test_ranges_that_float16_rounds_are_covered(bits: int, most: int, width: float, lowest: float) -> None:
    """From a minimum that float16 can hold, the range takes `most` steps; the errors of that are the bound."""
    weight = lowest + torch.linspace(0, width, 32)[None] - width / 3
    low, high = float(weight.min()), float(weight.max())
    below = np.nextafter(np.float16(low), np.float16(-np.inf)).astype(float)
    step = (high - below) / most * (1 + 2.0**-10) + SMALLEST
    errors = unpacked(torch.from_numpy(layouts.pack(weight, bits))) - weight
    assert float(errors.square().mean().sqrt()) <= 0.51 * step


@torch.no_grad()
def test_parts_in_different_forms_are_one_matrix() -> None:
    """Queries and keys in Q4_K, values in Q6_K, as many files have them."""
    first, second = random_rows("Q4_K", 48, 256), random_rows("Q6_K", 20, 256)
    both = torch.from_numpy(packed(68, 256, [("Q4_K", 48, [first]), ("Q6_K", 20, [second])]))
    each = [
        torch.from_numpy(packed(len(part.numbers), 256, [(part.name, len(part.numbers), [part])]))
        for part in (first, second)
    ]
    x = vectors(3, 256)
    assert torch.equal(product(x, both), torch.cat([product(x, part) for part in each], 1))
    assert torch.equal(unpacked(both), torch.cat([unpacked(part) for part in each]))
    rows = torch.tensor([50, 2, 67, 47])
    assert torch.equal(rows_of(both, rows), unpacked(both)[rows])


@pytest.mark.parametrize("name", sampled(FORMS, ["Q4_K", "Q8_0"]))
@torch.no_grad()
def test_threads_and_other_vectors_do_not_change_a_bit(name: str) -> None:
    weight, x, before = matrix(name), vectors(70), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = product(x, weight)
        torch.set_num_threads(1)
        assert torch.equal(together, torch.cat([product(vector[None], weight) for vector in x]))
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
def test_numbers_that_are_none_are_seen() -> None:
    x = vectors(4)
    x[0, 40], x[1, 3], x[2] = torch.nan, torch.inf, 0
    found = product(x, matrix("Q4_1"))
    assert found[:2].isnan().all()
    assert not found[2].any()
    assert found[3].isfinite().all()
    tiny = torch.full((1, 512), 1e-42)  # less than the smallest number in full precision
    assert not product(tiny, matrix("Q8_0")).any()


@pytest.mark.parametrize(("bits", "most"), [(4, 0.11), (5, 0.055), (6, 0.03), (8, 0.007)])
def test_weights_are_rounded_to_the_nearest(bits: int, most: float) -> None:
    weight = torch.randn(33, 96, generator=torch.Generator().manual_seed(4))
    weight[2, 32:64] = 0
    weight[3, 32:64] = 0.25
    found = unpacked(torch.from_numpy(layouts.pack(weight, bits)))
    assert ((found - weight).square().mean() / weight.square().mean()).sqrt() < most
    assert torch.equal(found[2:4, 32:64].isfinite(), torch.ones(2, 32, dtype=torch.bool))
    np.testing.assert_allclose(found[3, 32:64], 0.25, atol=1e-3)
    weight[1, 1] = torch.nan
    assert unpacked(torch.from_numpy(layouts.pack(weight, bits)))[1, :32].isnan().any()


def damaged(change: str) -> np.ndarray:
    bytes_ = matrix("Q4_0").numpy().copy()
    head = bytes_[:64].view("<i4")
    if change == "rows":
        head[0] = 64
    elif change == "form":
        head[3] = 289
    elif change == "groups":
        head[4] = 1 << 30
    elif change == "columns":
        head[1] = 500
    return bytes_[:-1] if change == "cut" else bytes_


@pytest.mark.parametrize("change", ["rows", "form", "groups", "columns", "cut"])
def test_damaged_matrices_are_refused(change: str) -> None:
    with pytest.raises(ValueError, match=r"says|has|claims"):
        matrix_of(damaged(change))


PLAIN = TransformerConfig(
    layers=2,
    width=64,
    heads=2,
    key_value_heads=1,
    context=16,
    norm_gain=True,
    feed_forward="swiglu",
    feed_forward_width=96,
    query_key_norm=False,
    embedding_norm=False,
    zero_projections=False,
    tied=True,
)
SIZE = 40


def compacted(config: TransformerConfig = PLAIN, bits: int = 4) -> NeuralModel:
    from chainrule.base.progress import silent
    from chainrule.neural.saving import compact

    torch.manual_seed(1)
    model = compact(NeuralModel(build(config, SIZE)), silent, bits)
    assert isinstance(model, NeuralModel)
    return model


TEXT = np.arange(3, 14, dtype=np.int32)


def stepwise(model: NeuralModel, text: np.ndarray = TEXT) -> list[float]:
    state, found = model.start([np.empty(0, np.int32)]), []
    for token in text:
        found.append(model.next_log_probs(state)[0, token])
        state = model.advance(state, np.array([token], np.int32))
    return found


GEMMA = {
    "window": 5,
    "full_layers": (1,),
    "sublayer_norms": "both",
    "query_key_norm": True,
    "gains_above_one": True,
    "feed_forward": "geglu",
    "window_rotary_base": 1e3,
    "attention_scale": 0.1,
}
GPT2: dict[str, object] = {"norm": "layer", "biases": True, "feed_forward": "gelu", "positions": "learned"}
QUARTER = {"rotary_width": 8}  # of a head's 32 numbers
SHAPES: dict[str, dict[str, object]] = {
    "llama": {},
    "qwen2": {"biases": True, "without_biases": ("attention_out", "feed_forward")},
    "qwen3": {"query_key_norm": True, "head_width": 64},
    "mistral": {"window": 5},
    "gemma2": {**GEMMA, "query_key_norm": False, "window_rotary_base": None, "score_cap": 5.0},
    "gemma3": GEMMA,
    "smollm3": {"unrotated_layers": (1,)},
    "phi3": {"head_width": 64, "rotary_width": 32},
    "granite": {"residual_scale": 0.22, "attention_scale": 0.05, "embedding_scale": 12.0, "logit_scale": 0.1},
    "nanochat": {"query_key_norm": True, "norm_gain": True, "biases": True},
    "gpt2": GPT2,
    "opt": {**GPT2, "feed_forward": "relu"},
    "olmo": {"norm": "layer", "norm_gain": False},
    "olmo2": {"sublayer_norms": "after", "query_key_norm": True, "joint_query_key_norm": True},
    "stablelm": {"norm": "layer", "biases": True, "without_biases": ("attention_out", "feed_forward"), **QUARTER},
    "neox": {
        **GPT2,
        **QUARTER,
        "positions": "rotary",
        "feed_forward": "gelu_exact",
        "parallel": True,
        "shared_norm": False,
    },
    "cohere": {"norm": "layer", "parallel": True, "shared_norm": True},
    "primer": {"feed_forward": "relu_squared", "norm_gain": False},
}


def shaped(name: str, **changes: object) -> NeuralModel:
    """With vectors (gains, biases) that are not those of a fresh network."""
    own = {"context": 64, **SHAPES[name], **changes}
    is_plain = own.keys() <= {field.name for field in fields(PLAIN)}
    model = compacted(replace(PLAIN if is_plain else opened(PLAIN), **own))
    random = torch.Generator().manual_seed(3)
    for name, weight in model.network.encoder.named_parameters():
        if weight.ndim == 1 and weight.is_floating_point():
            weight.data += 0.3 * torch.randn(weight.shape, generator=random)
        if ".gains." in name:  # sharp attention, which depends on them
            weight.data *= 4
    return model


@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_read_what_torch_reads(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks as kernels read them, beside the same products with torch between them."""
    model, texts = shaped(shape), [TEXT, np.array([5, 9, 2], np.int32), np.arange(3, 39, dtype=np.int32)]
    by_kernels = model.score(texts)
    assert model.network.encoder.packed is not None
    monkeypatch.setattr("chainrule.neural.encoders.reading.packed_reader", lambda *_, **__: None)
    for own, expected in zip(by_kernels, model.score(texts), strict=True):
        np.testing.assert_allclose(own, expected, atol=2e-2)  # where rounding of a vector falls on the other side
        assert np.abs(own - expected).mean() < 1e-3


@pytest.mark.parametrize("part", ["", "attention", "feed_forward"])
@pytest.mark.parametrize(
    ("newer", "is_read"),
    [(True, False), (0, False), (torch.nn.Parameter(torch.ones(1)), False), (None, True), (False, True)],
    ids=str,
)
def test_blocks_with_a_part_that_kernels_do_not_know_go_through_torch(newer: Any, is_read: bool, part: str) -> None:
    encoder = shaped("llama").network.encoder
    blocks = encoder.blocks
    assert packed_reader((block.for_kernels() for block in blocks), encoder.norm, None) is not None
    blocks[1].get_submodule(part).newer = newer
    assert (packed_reader((block.for_kernels() for block in blocks), encoder.norm, None) is not None) == is_read


@pytest.mark.parametrize("name", ["weight", "adapter"])
def test_what_a_layer_is_given_within_a_text_is_noticed(name: str) -> None:
    model = shaped("llama")
    state = model.advance(model.start([TEXT]), TEXT[:1])
    layer, reader = model.network.encoder.blocks[1].feed_forward.up, model.network.encoder.packed
    assert reader.holds(is_step=True)
    setattr(
        layer, name, torch.nn.Parameter(layer.weight.clone(), requires_grad=False) if name == "weight" else Adapter()
    )
    assert not reader.holds(is_step=True)
    model.advance(state, TEXT[1:2])
    assert (model.network.encoder.packed is None) == (name == "adapter")
    assert copy.deepcopy(model.network).encoder.packed is None  # whose weights are elsewhere


class Adapter(torch.nn.Module):
    is_on = False


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activations_are_those_of_float64(function: Callable[[torch.Tensor], torch.Tensor], gated: bool) -> None:
    hidden = torch.linspace(-9, 9, 192).reshape(2, 96)[:, torch.randperm(96)]
    hidden = torch.cat([hidden, hidden.flip(0)], 1) if gated else hidden
    hidden[0, 5] = torch.nan
    expected = function(hidden[:, :96].double()) * (hidden[:, 96:].double() if gated else 1)
    out = Vectors.empty(2, 96)
    found = np.empty((2, 96), np.float32)
    activate_and_quantise(hidden.numpy(), ACTIVATIONS[function], found, *out)
    np.testing.assert_allclose(found, expected, atol=4e-6, rtol=1e-6)


def test_layer_norms_and_joint_norms_are_those_of_float64() -> None:
    x, added = torch.randn(3, 96) + 5, torch.randn(3, 96)
    gain, bias = torch.randn(2, 96)
    summed, out = (x.clone().numpy() for _ in range(2))
    add_and_layer_norm(summed, added.numpy(), torch.stack([gain, bias]).numpy(), 1e-5, out)
    expected = F.layer_norm((x + added).double(), (96,), gain.double(), bias.double(), 1e-5)
    np.testing.assert_array_equal(summed, x + added)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    heads = x.clone().numpy()  # two queries of 32 numbers, and half a key; what is left are values
    norm_joint_heads(heads, gain[None, :80].numpy(), 64, 1e-6)
    queries, keys = (F.rms_norm(part.double(), part.shape[1:], eps=1e-6) for part in (x[:, :64], x[:, 64:80]))
    np.testing.assert_allclose(heads[:, :64], queries * gain[:64], atol=1e-5)
    np.testing.assert_allclose(heads[:, 64:80], keys * gain[64:80], atol=1e-5)
    np.testing.assert_array_equal(heads[:, 80:], x[:, 80:])


@torch.no_grad()
def test_adapters_beside_packed_weights_are_read() -> None:
    """Kernels know none; a network that was read by kernels before has one added, and taken away."""
    from chainrule.neural.adapters import add_adapters, remove_adapters

    model = compacted()
    before = model.score([TEXT])[0]
    add_adapters(model.network, 2, 4.0)
    for name, weight in model.network.named_parameters():
        if "adapter" in name:
            weight.fill_(0.3)
    assert np.abs(model.score([TEXT])[0] - before).max() > 0.01
    remove_adapters(model.network)
    np.testing.assert_array_equal(model.score([TEXT])[0], before)


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("shape", ["llama", "gemma3", "gpt2", "olmo2", "neox"])
def test_figures_depend_on_nothing_else(shape: str, bits: int | None) -> None:
    """Steps, passes, other rows, drafts: the same bits, with keys and values in eight bits, too."""
    model = shaped(shape, context=16)
    model.network.encoder.set_cache_bits(bits)
    alone = model.score([TEXT], end=False)[0]
    np.testing.assert_allclose(stepwise(model), alone, atol=1e-6)  # whose softmax is summed up in another way
    state = model.start([np.empty(0, np.int32)])
    for token in TEXT:
        state = model.advance(state, np.array([token], np.int32))
    assert torch.equal(state.next.hidden, model.start([TEXT]).next.hidden)
    np.testing.assert_array_equal(model.score([np.arange(20, 29, dtype=np.int32), TEXT, TEXT[:4]], end=False)[1], alone)
    state = model.start([TEXT[:3]])
    ahead = [model.next_log_probs(part)[0] for part in model.read_ahead(state, TEXT[3:8])]
    for token, found in zip(TEXT[3:8], ahead, strict=True):
        state = model.advance(state, np.array([token], np.int32))
        np.testing.assert_array_equal(model.next_log_probs(state)[0], found)
    three = np.array([3, 4, 5], np.int32)
    rows = model.advance(model.select(model.start([TEXT[:4]]), np.zeros(3, np.int32)), three)
    for row, token in zip(model.next_log_probs(rows), three, strict=True):
        np.testing.assert_array_equal(row, model.next_log_probs(model.start([[*TEXT[:4], token]]))[0])
    rows = model.start([TEXT[:2], TEXT[:6]])
    np.testing.assert_array_equal(model.next_log_probs(rows)[1], model.next_log_probs(model.start([TEXT[:6]]))[0])


@pytest.mark.parametrize("bits", [None, 8])
def test_a_window_that_has_moved_is_read_on_from_in_one_call(bits: int | None) -> None:
    model = shaped("llama", window=5)
    model.network.encoder.set_cache_bits(bits)
    text = np.arange(3, 27, dtype=np.int32)
    state, steps = model.read([text[10:]], model.read([text[:10]])), model.read([text[:1]])
    for token in text[1:]:
        steps = model.advance(steps, np.array([token], np.int32))
    assert torch.equal(state.next.hidden, steps.next.hidden)


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    "changes", [{}, {"norm": "layer"}, {"query_key_norm": True}, {"window": 5}, {"positions": "learned"}]
)
@pytest.mark.parametrize("bits", [4, 5, 6, 8])
def test_every_network_is_near_its_unpacked_form(bits: int, changes: dict[str, object]) -> None:
    from chainrule.base.progress import silent
    from chainrule.neural.saving import unpack

    model = compacted(replace(PLAIN, **changes), bits)
    assert "activations:int8" in model.stream_signature
    exact = unpack(model, silent)
    assert "weights" not in exact.stream_signature
    np.testing.assert_allclose(model.score([TEXT])[0], exact.score([TEXT])[0], atol=0.1)
    settings, arrays = to_state(model)
    again = from_state(settings, arrays, SIZE, [TransformerConfig])
    np.testing.assert_array_equal(again.score([TEXT])[0], model.score([TEXT])[0])
    np.testing.assert_allclose(stepwise(model), model.score([TEXT], end=False)[0], atol=0.02)


def test_an_array_that_holds_another_matrix_is_refused() -> None:
    settings, arrays = to_state(compacted())
    name = "encoder.blocks.0.feed_forward.down.weight"
    for broken, message in (
        (arrays[name][:-5], "damaged"),
        (arrays["encoder.blocks.0.attention.out.weight"], "expected"),
    ):
        with pytest.raises(ModelFormatError, match=rf"{name}.*{message}"):
            from_state(settings, {**arrays, name: broken}, SIZE, [TransformerConfig])


@torch.no_grad()
def digest() -> str:
    """Of products in every form, and of what a network says, to the last bit."""
    found = [product(vectors(11), matrix(name)).numpy().tobytes() for name in FORMS]
    found += [compacted(bits=bits).score([TEXT])[0].tobytes() for bits in (4, 8)]
    model = shaped("neox")
    found += [model.score([TEXT])[0].tobytes(), model.start([TEXT]).next.hidden.numpy().tobytes()]
    model = shaped("gemma3")
    model.network.encoder.set_cache_bits(8)
    found += [model.score([TEXT])[0].tobytes(), model.start([TEXT]).next.hidden.numpy().tobytes()]
    return hashlib.sha256(b"".join(found)).hexdigest()


@pytest.mark.parametrize("processor", sampled(["generic", "haswell"], []))
def test_processors_without_some_instructions_give_the_same_bits(processor: str, tmp_path: Path) -> None:
    """generic: plain integers; haswell: AVX2 without VNNI."""
    features = {"generic": "", "haswell": "+avx,+avx2,+fma,+f16c,+sse4.1,+sse4.2,+ssse3,+bmi,+bmi2,+popcnt"}
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": features[processor],
        "CHAINRULE_CACHE": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    program = "from test_packed_products import digest; print(digest())"
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == digest(), found.stderr


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_a_product_is_compiled_once_for_all_processes(name: str, parallel: bool) -> None:
    """Numba finds what it has kept by what a closure holds: numbers are the same everywhere, intrinsics are not."""
    closure = block_kernels.multiplication(FORMS[name], parallel=parallel).py_func.__closure__  # type: ignore[attr-defined]
    assert {type(cell.cell_contents) for cell in closure} <= {int, bool}
