"""A folder of others that is broken, hostile or beyond us: one clear error that names file and field."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import begun, byte_level

import chainrule
from chainrule import ChainruleError, ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(shaken(CAUSAL["llama"]), tmp_path_factory.mktemp("whole") / "hf")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "hf")
    return tmp_path / "hf"


def with_json(folder: Path, name: str, **changes: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **changes}, indent=2))


def with_tensors(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = dict(load_file(path))
    change(tensors)
    save_file(tensors, path)


def sharded(folder: Path, **changes: Any) -> None:
    """The same tensors in two files and an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"model-{1 + (number % 2)}.safetensors" for number, name in enumerate(names)}
    for shard in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == shard}, folder / shard)
    index = {"metadata": {}, "weight_map": {**places, **changes}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_one_model(whole: Path, folder: Path) -> None:
    sharded(folder)
    assert chainrule.load(folder).score(["the cat"]) == chainrule.load(whole).score(["the cat"])


FIRST = "model.layers.0.mlp.up_proj.weight"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a missing shard": (
        lambda folder: (sharded(folder), (folder / "model-2.safetensors").unlink()),
        r"model-2\.safetensors: is missing; model\.safetensors\.index\.json names it",
    ),
    "a shard outside": (
        lambda folder: sharded(folder, **{FIRST: "../../passwd"}),
        r"index\.json: weight_map names the file '\.\./\.\./passwd'; expected one in the folder",
    ),
    "a tensor that no shard has": (
        lambda folder: sharded(folder, ghost="model-1.safetensors"),
        r"model-1\.safetensors: lacks the tensor 'ghost'",
    ),
    "a tensor in another shard": (
        lambda folder: sharded(folder, **{"lm_head.weight": "model-2.safetensors"}),
        r"weight_map says that 'lm_head\.weight' is in 'model-2\.safetensors', but it is in 'model-1",
    ),
    "a missing tensor": (
        lambda folder: with_tensors(folder, lambda tensors: tensors.pop(FIRST)),
        rf"hf: lacks the tensor '{FIRST}'",
    ),
    "one tensor too many": (
        lambda folder: with_tensors(folder, lambda tensors: tensors.update(extra=np.zeros(2, np.float32))),
        r"hf: has the tensor 'extra', which a llama with the settings of its config\.json does not have",
    ),
    "a wrong shape": (
        lambda folder: with_tensors(folder, lambda tensors: tensors.update({FIRST: np.zeros((3, 16), np.float32)})),
        rf"'{FIRST}' \[3, 16\] do not have the shapes that config\.json asks for",
    ),
    "NaN": (
        lambda folder: with_tensors(folder, lambda tensors: tensors.update({FIRST: tensors[FIRST] * np.nan})),
        rf"model\.safetensors: the tensor '{FIRST}' holds NaN",
    ),
    "whole numbers": (
        lambda folder: with_tensors(folder, lambda tensors: tensors.update({FIRST: np.zeros((24, 16), np.int32)})),
        rf"the tensor '{FIRST}' is int32; expected float32, float16 or bfloat16",
    ),
    "code of its own": (
        lambda folder: with_json(folder, "config.json", auto_map={"AutoModel": "modeling.py"}),
        r"config\.json: auto_map asks for code of the model's own, which is never run",
    ),
    "an unknown architecture": (
        lambda folder: with_json(folder, "config.json", model_type="llama9"),
        r"config\.json: model_type is 'llama9', which is not supported \(config\.json, line \d+\); the nearest is "
        r"llama, which has 12 of its 12 kinds of tensors",
    ),
    "an unknown architecture of other tensors": (
        lambda folder: (
            with_json(folder, "config.json", model_type="x"),
            with_tensors(
                folder, lambda tensors: [tensors.update({f"x.{name}": tensors.pop(name)}) for name in [*tensors]]
            ),
        ),
        r"not supported \(config\.json, line \d+\); what opens here is one of gpt2",
    ),
    "no architecture": (
        lambda folder: (folder / "config.json").write_text('{"num_hidden_layers": 2}'),
        r"config\.json: lacks model_type, as old ones do; write into it which of these it is: gpt2, llama",
    ),
    "an unknown field": (
        lambda folder: with_json(folder, "config.json", residual_multiplier=0.2),
        r"config\.json: residual_multiplier is 0\.2, and its effect in a llama is not known here; if it changes no "
        r"number, take it out of the file \(config\.json, line \d+\)",
    ),
    "an unknown scaling": (
        lambda folder: with_json(folder, "config.json", rope_parameters={"rope_type": "spiral", "factor": 2.0}),
        r"rotary scaling 'spiral' is not supported; known are default, linear, dynamic, llama3, yarn, longrope",
    ),
    "a scaling without a factor": (
        lambda folder: with_json(folder, "config.json", rope_parameters={"rope_type": "llama3", "rope_theta": 1e4}),
        r"config\.json: rope_parameters.*'factor' is missing",
    ),
    "yarn of a base of 1": (
        lambda folder: with_json(
            folder, "config.json", rope_parameters={"rope_type": "yarn", "factor": 2.0, "rope_theta": 1.0}
        ),
        r"config\.json: .*yarn needs a rotary_base above 1, and factors above 0",
    ),
    "divisors for other heads": (
        lambda folder: with_json(
            folder,
            "config.json",
            rope_parameters={"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0], "long_factor": [0.0]},
        ),
        r"rotary_divisors is 1 numbers, or has a zero; expected 2 above 0",
    ),
    "two thetas": (
        lambda folder: with_json(folder, "config.json", rope_theta=5.0),
        r"rope_theta is 5\.0, and 10000\.0 in rope_parameters",
    ),
    "a huge width": (
        lambda folder: with_json(folder, "config.json", hidden_size=10**9),
        r"config\.json: hidden_size is 1000000000; expected 1 or more and less than 65,536",
    ),
    "a width of null": (
        lambda folder: with_json(folder, "config.json", hidden_size=None),
        r"config\.json: hidden_size is null; expected a whole number",
    ),
    "an epsilon that is no number": (
        lambda folder: with_json(folder, "config.json", rms_norm_eps=float("nan")),
        r"config\.json: is no valid JSON: rms_norm_eps is NaN; expected a number",
    ),
    "many layers": (
        lambda folder: with_json(folder, "config.json", num_hidden_layers=900),
        r"config\.json: asks for 900 layers, but has 21 tensors",
    ),
    "another size of vocabulary": (
        lambda folder: with_json(folder, "config.json", vocab_size=10**9),
        r"'model\.embed_tokens\.weight' is \[285, 16\], but vocab_size in config\.json is 1000000000",
    ),
    "an end that is no token": (
        lambda folder: with_json(folder, "generation_config.json", eos_token_id=999),
        r"eos_token_id is 999; expected less than the vocab_size of 285",
    ),
    "an end that is no number": (
        lambda folder: with_json(folder, "generation_config.json", eos_token_id="2"),
        r"generation_config\.json: eos_token_id is '2'; expected an id, or several",
    ),
    "no end": (
        lambda folder: [
            with_json(folder, name, eos_token_id=None) for name in ("config.json", "generation_config.json")
        ],
        r"says of no token that it ends a text; write eos_token_id into its generation_config\.json",
    ),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        r"hf: has no tokenizer\.json, which says how text is tokenized",
    ),
    "a pickle": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        r"pytorch_model\.bin: is a pickle, which can run code when it is opened, so it was not opened\. If you trust",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        r"hf: has no model\.safetensors, and no model\.safetensors\.index\.json",
    ),
    "a header of a petabyte": (
        lambda folder: (folder / "model.safetensors").write_bytes((1 << 50).to_bytes(8, "little") + bytes(1000)),
        r"model\.safetensors: the header claims 1,125,899,906,842,624 bytes",
    ),
    "8-bit numbers": (
        lambda folder: (folder / "model.safetensors").write_bytes(
            (78).to_bytes(8, "little")
            + b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'.ljust(78)
            + bytes(4)
        ),
        r"the array 'a' is of type F8_E4M3, which is not read here",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_an_error_that_says_where_and_what(what: str, folder: Path) -> None:
    breaks, message = BROKEN[what]
    breaks(folder)
    began = time.process_time()
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(folder)
    assert time.process_time() - began < 10  # seconds; what these claim would take hours


def test_more_tokens_than_vectors(folder: Path) -> None:
    big = byte_level()
    big.add_tokens([f"word{number}" for number in range(20)])
    big.save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelFormatError, match=r"its tokenizer numbers 300 tokens, but the model has vectors for 285"):
        chainrule.load(folder)


def test_a_repository_on_the_net_is_not_fetched() -> None:
    with pytest.raises(
        ModelFormatError,
        match=r"HuggingFaceTB/SmolLM2-135M: there is no such folder or file; .*write hf:HuggingFaceTB/S",
    ):
        chainrule.load("HuggingFaceTB/SmolLM2-135M")


def test_all_ends_of_a_list_end_a_text(whole: Path, folder: Path) -> None:
    with_json(folder, "generation_config.json", eos_token_id=[0, 7])
    one, both = (chainrule.load(path) for path in (whole, folder))
    rows = [
        model.language_model.next_log_probs(model.language_model.start([np.array([], np.int32)]))[0]
        for model in (one, both)
    ]
    ours = 1 + 7 + 1  # <unk> before all, and <s> and </s> as they were
    assert np.exp(rows[1][2]) == pytest.approx(np.exp(rows[0][2]) + np.exp(rows[0][ours - 1]), rel=1e-5)
    assert rows[1][ours - 1] == -np.inf
    assert np.exp(rows[1].astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_differing_end_tokens_are_an_error(folder: Path) -> None:
    with_json(folder, "config.json", eos_token_id=5)
    [warning] = chainrule.load(folder).record["warnings"]
    assert "a text ends with [5] in config.json, and with [0] in generation_config.json, which counts" in warning


def test_a_text_begins_with_what_the_post_processor_puts_before_it(whole: Path, folder: Path) -> None:
    with_json(folder, "config.json", bos_token_id=None)
    with_json(folder, "generation_config.json", bos_token_id=None)
    assert chainrule.load(folder).record["hugging_face"]["tokens"]["begin"] is None
    begun(byte_level()).save(str(folder / "tokenizer.json"))
    assert chainrule.load(folder).score(["the cat"]) == chainrule.load(whole).score(["the cat"])


@given(st.data())
def test_any_changed_bytes_are_an_error_or_a_model(whole: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"]))
    broken = whole.parent / "broken"
    shutil.copytree(whole, broken, dirs_exist_ok=True)
    content = bytearray((whole / name).read_bytes())
    reach = min(len(content), 2000) if name == "model.safetensors" else len(content)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, reach - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    (broken / name).write_bytes(content[:cut])
    with suppress(ChainruleError):
        chainrule.load(broken).score(["the cat"])
