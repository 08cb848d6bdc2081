"""Models by their names at the Hub, which is a small server here: what is fetched, kept, and said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from huggingface_hub import constants
from tiny_files import write_gguf
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import byte_level

import chainrule as cr
from chainrule.errors import ModelFormatError, ServerError, SettingError, WrongModelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hub_server import Hub

NAME, TEXTS = "hf:maker/tiny", ["the cat sat"]
NEEDED = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}


@pytest.fixture
def local(checkpoint: dict[str, bytes], tmp_path: Path) -> Path:
    """The same model, in a folder."""
    folder = tmp_path / "local"
    folder.mkdir()
    for name in checkpoint.keys() & (NEEDED | {"tokenizer_config.json"}):
        (folder / name).write_bytes(checkpoint[name])
    return folder


def test_a_whole_model_is_fetched_once_and_only_what_it_needs(
    hub: Hub,
    checkpoint: dict[str, bytes],
    local: Path,
    cache: Path,
    again: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    model = cr.load(NAME)
    np.testing.assert_array_equal(model.score(TEXTS), cr.load(local).score(TEXTS))
    assert set(hub.sent()) - {"tokenizer_config.json"} == NEEDED & checkpoint.keys()
    assert len(hub.sent()) == len(set(hub.sent()))
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"{NAME}: fetching ")
    assert f"of commit {commit[:8]} to {cache}: model.safetensors (" in err
    assert model.record["read_from"] == model.record["opened_from"] == f"{NAME}@{commit}"
    again()
    hub.requests.clear()
    assert cr.info(NAME).record["read_from"] == f"{NAME}@{commit}"
    assert [own.path for own in hub.requests] == ["/api/models/maker/tiny/revision/main"]
    assert capsys.readouterr().err == ""


def test_verbs_take_names(hub: Hub, checkpoint: dict[str, bytes], local: Path, tmp_path: Path, chainrule: Any) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    (tmp_path / "a.txt").write_text("the cat sat\non the mat\n")
    shown = chainrule("info", NAME)
    assert re.search(rf"^read from +{NAME}@{commit}$", shown.out, re.MULTILINE)
    for verb in (["evaluate"], ["score"], ["score", "--words"]):
        ours, theirs = (chainrule(*verb, model, tmp_path / "a.txt") for model in (NAME, local))
        assert ours.status == theirs.status == 0
        assert ours.out.replace(NAME, str(local)) == theirs.out
    also = ["--words", "--also", NAME, "--output", tmp_path / "table.csv"]
    assert chainrule("score", local, tmp_path / "a.txt", *also).status == 0
    assert chainrule("next", NAME, "the").status == 0
    assert chainrule("generate", NAME, "the", "--seed", "1", "--max-tokens", "3").status == 0
    assert chainrule("compare", NAME, local, "--text", tmp_path / "a.txt").status == 0
    assert chainrule("convert", NAME, tmp_path / "ours").status == 0
    assert cr.load(tmp_path / "ours").record["opened_from"] == f"{NAME}@{commit}"
    assert "continues texts" in chainrule("fill", NAME, "the [MASK] sat").error


def test_a_kind_that_a_verb_does_not_take_is_refused_before_weights_are_fetched(
    hub: Hub, checkpoint: dict[str, bytes], local: Path
) -> None:
    config = {**json.loads(checkpoint["config.json"]), "model_type": "marian"}
    hub.add("maker/pair", {**checkpoint, "config.json": json.dumps(config).encode()})
    with pytest.raises(WrongModelError, match="hf:maker/pair: a model of family 'conditional' writes"):
        cr.load("hf:maker/pair", cr.CausalModel)
    assert hub.sent() == ["config.json"]


def test_revisions_are_named_after_an_at_sign_or_by_keyword(
    hub: Hub, checkpoint: dict[str, bytes], again: Callable[[], None], chainrule: Any
) -> None:
    old = hub.add("maker/tiny", checkpoint, "v1")
    new = hub.add("maker/tiny", {**checkpoint, "README.md": b"# new"})
    assert cr.load(f"{NAME}@v1").record["read_from"] == f"{NAME}@{old}"
    assert cr.load(NAME, revision="v1").record["read_from"] == f"{NAME}@{old}"
    assert cr.load(f"{NAME}@{old}").record["read_from"] == f"{NAME}@{old}"
    hub.requests.clear()
    assert cr.load(NAME).record["read_from"] == f"{NAME}@{new}"
    assert hub.sent() == []  # the files are the same
    assert chainrule("next", f"{NAME}@v9", "the").error == f"{NAME}@v9: has no revision v9; it has main, v1"
    with pytest.raises(SettingError, match="takes no revision and file; they are for names such as hf:owner/name"):
        cr.load(f"{NAME}@v1", revision="v2")
    with pytest.raises(SettingError, match="lm/: takes no revision and file"):
        cr.load("lm/", revision="v1", file="x")


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("gguf")
    data = write_gguf(folder / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level()).read_bytes()
    names = ("tiny-Q4_K_M.gguf", "tiny-Q4_K_S.gguf", "sub/tiny-Q8_0.gguf", "mmproj-tiny.gguf")
    return {"config.json": b"{}", "README.md": b"", **{name: data + bytes(i) for i, name in enumerate(names)}}


@pytest.mark.parametrize("file", ["*Q4_K_M.gguf", "Q4_K_M", "q4_k_m", "tiny-Q4_K_M.gguf"])
def test_one_gguf_file_of_several(hub: Hub, quantised: dict[str, bytes], file: str) -> None:
    commit = hub.add("maker/q", quantised)
    model = cr.load("hf:maker/q", file=file)
    assert hub.sent() == ["tiny-Q4_K_M.gguf"]
    assert model.record["read_from"] == f"hf:maker/q@{commit}:tiny-Q4_K_M.gguf"
    assert cr.load(f"hf:maker/q:{file}").record["read_from"] == model.record["read_from"]
    assert cr.load(model.record["read_from"]).score(TEXTS) == model.score(TEXTS)


def test_of_several_files_that_fit_all_are_listed(hub: Hub, quantised: dict[str, bytes], chainrule: Any) -> None:
    hub.add("maker/q", quantised)
    sizes = [f"{len(quantised[name]) / 1000:.1f} kB" for name in quantised]
    assert chainrule("next", "hf:maker/q", "the").error == (
        "hf:maker/q: 3 files fit; choose one, as in hf:maker/q:tiny-Q4_K_M.gguf: sub/tiny-Q8_0.gguf "
        f"({sizes[4]}), tiny-Q4_K_S.gguf ({sizes[3]}), tiny-Q4_K_M.gguf ({sizes[2]})"
    )
    assert "2 files fit Q4_K; choose one" in chainrule("next", "hf:maker/q:Q4_K", "the").error
    assert "has no file Q2_K; it has " in chainrule("next", "hf:maker/q:Q2_K", "the").error
    assert hub.sent() == []


def test_shards_and_a_missing_one(hub: Hub, tmp_path: Path, local: Path) -> None:
    folder = save(shaken(CAUSAL["gpt2"]), tmp_path / "sharded", max_shard_size="10KB")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    shards = [name for name in files if name.startswith("model-")]
    assert len(shards) > 1
    hub.add("maker/shards", {**files, "other.safetensors": b"other"})
    assert cr.load("hf:maker/shards").score(TEXTS) == cr.load(folder).score(TEXTS)
    assert "other.safetensors" not in hub.sent()
    hub.add("maker/holes", {name: data for name, data in files.items() if name != shards[0]})
    with pytest.raises(ModelFormatError, match=rf"hf:maker/holes: {shards[0]} is missing, one of {len(shards)} files"):
        cr.load("hf:maker/holes")


def test_a_broken_transfer_goes_on_where_it_ended(
    hub: Hub, checkpoint: dict[str, bytes], local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)  # bytes; what comes after the last whole chunk is lost
    hub.add("maker/tiny", checkpoint)
    hub.broken["model.safetensors"] = [1000, 500]
    assert cr.load(NAME).score(TEXTS) == cr.load(local).score(TEXTS)
    ranges = [own.range for own in hub.requests if own.method == "GET" and own.path.endswith("model.safetensors")]
    assert ranges == [None, "bytes=1000-", "bytes=1500-"]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_wrong_checksum_and_a_wrong_size(
    hub: Hub, checkpoint: dict[str, bytes], local: Path, name: str, cache: Path, again: Callable[[], None]
) -> None:
    hub.add("maker/tiny", checkpoint)
    data = checkpoint[name]
    hub.wrong[name] = bytes([data[0] ^ 1]) + data[1:]
    with pytest.raises(ModelFormatError, match=rf"{NAME}: {name} came with the checksum .* it was deleted"):
        cr.load(NAME)
    hub.wrong.clear()
    assert cr.load(NAME).score(TEXTS) == cr.load(local).score(TEXTS)
    [link] = cache.rglob(f"snapshots/*/{name}")
    with link.resolve().open("r+b") as file:
        file.truncate(100)
    again()
    hub.requests.clear()
    assert cr.load(NAME).score(TEXTS) == cr.load(local).score(TEXTS)
    assert hub.sent() == [name]


def test_gated_private_and_missing_models(
    hub: Hub, checkpoint: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, chainrule: Any, again: Callable[[], None]
) -> None:
    hub.add("maker/tiny", checkpoint)
    hub.gated.add("maker/tiny")
    terms = f"{NAME}: is gated: its terms have to be accepted on {hub.url}/maker/tiny; "
    assert chainrule("next", NAME, "the").error == f"{terms}then log in with `hf auth login`, or set HF_TOKEN"
    assert chainrule("next", "hf:maker/nothing", "the").error == (
        f"hf:maker/nothing: is no model on {hub.url}; check the name. Or it is private, then log in with "
        "`hf auth login`, or set HF_TOKEN"
    )
    monkeypatch.setenv("HF_TOKEN", "other")
    assert chainrule("next", NAME, "the").error == f"{terms}whoever owns the token that was sent has not done so"
    monkeypatch.setenv("HF_TOKEN", "good")
    assert chainrule("next", NAME, "the").status == 0
    assert hub.requests[-1].authorization == "Bearer good"


def test_offline_the_cache_is_opened(
    hub: Hub,
    checkpoint: dict[str, bytes],
    quantised: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    again: Callable[[], None],
) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    hub.add("maker/q", quantised)
    expected = cr.load(NAME).score(TEXTS)
    cr.load("hf:maker/q:Q4_K_M")
    again()
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = cr.load(NAME)
    assert model.score(TEXTS) == expected
    assert model.record["read_from"] == f"{NAME}@{commit}"
    assert cr.load("hf:maker/q").record["read_from"].endswith(":tiny-Q4_K_M.gguf")
    with pytest.raises(SettingError, match=r"has no file Q8_0; it has .*This is what the cache has, since HF_HUB_OFF"):
        cr.load("hf:maker/q:Q8_0")
    with pytest.raises(
        ServerError, match=rf"hf:maker/other: HF_HUB_OFFLINE is set, and the cache {cache} does not hav"
    ):
        cr.load("hf:maker/other")
    assert hub.requests == []


def test_a_hub_that_is_away_is_told_and_the_cache_is_opened(
    hub: Hub, checkpoint: dict[str, bytes], again: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    expected = cr.load(NAME).score(TEXTS)
    again()
    hub.status = 503
    capsys.readouterr()
    assert cr.load(NAME).score(TEXTS) == expected
    said = f"{NAME}: {hub.url} answers with status 503: try again later; commit {commit[:8]} of the cache is opened\n"
    assert capsys.readouterr().err == said
    with pytest.raises(ServerError, match=r"hf:maker/x: http://.* answers with status 503: try again later, and the c"):
        cr.load("hf:maker/x")


def test_nothing_listens(hub: Hub, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        ServerError, match=r"http://127\.0\.0\.1:9 cannot be reached \(.*\): check the network and HF_END"
    ):
        cr.load(NAME)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"README.md": b"#"},
            r"has no weights that open here: .*it has README\.md \(1 bytes\)\. A file of another kind",
        ),
        ({}, "has no weights that open here: .*it is empty"),
        (
            {"config.json": b'{"model_type": "gpt2"}', "pytorch_model.bin": b""},
            "its weights are pickles, .*so they were not fetched",
        ),
        ({"model.safetensors": b""}, r"has model\.safetensors, and no config\.json"),
    ],
)
def test_models_without_weights(hub: Hub, files: dict[str, bytes], message: str) -> None:
    hub.add("maker/none", files)
    with pytest.raises(ModelFormatError, match=f"hf:maker/none: {message}"):
        cr.load("hf:maker/none")
    assert set(hub.sent()) <= {"config.json"}


def test_pickles_are_fetched_where_that_is_said(
    hub: Hub, checkpoint: dict[str, bytes], local: Path, tmp_path: Path, chainrule: Any
) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(local / "model.safetensors"), tmp_path / "pytorch_model.bin")
    files = {name: data for name, data in checkpoint.items() if not name.endswith((".safetensors", ".gguf"))}
    hub.add("maker/old", {**files, "pytorch_model.bin": (tmp_path / "pytorch_model.bin").read_bytes()})
    refused = chainrule("convert", "hf:maker/old", tmp_path / "lm").error
    assert "with --allow-pickle: chainrule convert hf:maker/old lm/ --allow-pickle" in refused
    assert chainrule("convert", "hf:maker/old", tmp_path / "lm", "--allow-pickle").status == 0
    assert cr.load("hf:maker/old", allow_pickle=True).score(TEXTS) == cr.load(local).score(TEXTS)


def test_models_of_ours_and_single_files(hub: Hub, tmp_path: Path, chainrule: Any) -> None:
    model = cr.train(cr.Lines(["the cat sat", "the dog sat"]), cr.NGramConfig(order=2))
    model.save(tmp_path / "lm")
    cr.convert(tmp_path / "lm", tmp_path / "lm.arpa")
    files = {path.name: path.read_bytes() for path in (tmp_path / "lm").iterdir()}
    commit = hub.add("maker/words", {**files, "lm.arpa": (tmp_path / "lm.arpa").read_bytes()})
    assert cr.load("hf:maker/words").score(TEXTS) == model.score(TEXTS)
    assert "lm.arpa" not in hub.sent()
    assert chainrule("verify", "hf:maker/words").status == 0
    opened = cr.load("hf:maker/words", file="lm.arpa", tokenizer="word")
    assert opened.record["read_from"] == f"hf:maker/words@{commit}:lm.arpa"
    np.testing.assert_allclose(opened.score(TEXTS), model.score(TEXTS), rtol=1e-5)


def test_adapters_on_a_model_of_the_hub(
    hub: Hub, checkpoint: dict[str, bytes], tmp_path: Path, again: Callable[[], None], chainrule: Any
) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 40)
    model = cr.adapt(NAME, tmp_path / "a.txt", lora=1, training=cr.TrainingConfig(steps=1))
    assert model.record["adapter"]["base"] == f"{NAME}@{commit}"
    model.save(tmp_path / "adapted")
    again()
    opened = cr.load(tmp_path / "adapted")
    np.testing.assert_allclose(opened.score(TEXTS), model.score(TEXTS), rtol=1e-6)


def test_names_that_are_none(hub: Hub, chainrule: Any) -> None:
    assert "hf:: is no name of a model of the Hub; expected hf:owner/name" in chainrule("info", "hf:").error
    assert "is no name of a model of the Hub" in chainrule("info", "hf:a/b/c").error
    assert "is no name of a model of the Hub" in chainrule("info", "hf:a..b/c").error
    assert chainrule("info", "owner/name").error == (
        "owner/name: there is no such folder or file; a model is a folder with a config.json in it, or a file. To "
        "fetch the model of this name, write hf:owner/name"
    )
    assert hub.requests == []


def test_without_the_library_it_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "chainrule.features.hub.answers", raising=False)  # where no test was before
    monkeypatch.delattr("chainrule.features.hub.answers", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        SettingError, match=r"^hf:maker/tiny: models of the Hub need huggingface_hub: pip install .*hub"
    ):
        cr.load(NAME)


def test_the_environment_says_where_the_hub_and_the_cache_are(
    hub: Hub, checkpoint: dict[str, bytes], tmp_path: Path
) -> None:
    commit = hub.add("maker/tiny", checkpoint)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "HF_TOKEN": "good"}
    environment = {name: value for name, value in environment.items() if name not in ("HF_HUB_CACHE", "HF_HUB_OFFLINE")}
    command = [sys.executable, "-m", "chainrule", "info", NAME]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{NAME}@{commit}" in done.stdout
    assert f"to {tmp_path / 'home' / 'hub'}: model.safetensors" in done.stderr
    assert {own.authorization for own in hub.requests if "maker" in own.path} == {"Bearer good"}
