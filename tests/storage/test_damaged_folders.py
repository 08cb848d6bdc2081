"""Damaged model folders: errors that name the file and the field."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples
from saved_folders import ARRAYS, a_copy_of, rewrite_config, with_texts

import chainrule
from chainrule.errors import ModelFormatError
from chainrule.storage.hugging_face import open_folder
from chainrule.storage.model_folder import open_model, verify_model
from chainrule.storage.safetensors import write_tensors

fast = examples(2)


def test_a_further_data_file_is_checked_each_time(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    (path,) = folder.glob("tokenizer-*.json")
    path.write_bytes(path.read_bytes().upper())
    with pytest.raises(ModelFormatError, match=f"{path.name}: its SHA-256 is .* the file has changed"):
        open_model(folder)


def test_verify_finds_every_flipped_bit(tmp_path: Path) -> None:
    """Of every byte one bit: each of the eight in turn."""
    folder = with_texts(tmp_path / "lm")
    verify_model(folder)
    for path in folder.iterdir():
        whole = path.read_bytes()
        for place in range(len(whole)):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(ModelFormatError, match=path.name):
                verify_model(folder)
        path.write_bytes(whole)
    verify_model(folder)


def test_all_files_that_have_changed_are_named_at_once(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    for path in folder.iterdir():
        path.write_bytes(
            path.read_bytes()
            .replace(b"note", b"nope")
            .replace(b"subword", b"subwort")
            .replace(b"card", b"cart")
            .replace(b"\0\1\2", b"\0\1\3")
        )
    with pytest.raises(ModelFormatError) as error:
        verify_model(folder)
    assert str(error.value).count("; also ") == 3
    assert all(path.name in str(error.value) for path in folder.iterdir())


def test_a_configuration_that_was_edited_is_opened_and_verify_says_what_to_do(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"skip"', '"keep"'))
    assert open_model(folder)[0].tokenizer.markers == "keep"
    with pytest.raises(ModelFormatError, match=r"was edited or damaged .* If the edit is yours, chainrule convert"):
        verify_model(folder)


def test_a_card_that_is_gone_is_no_error(folder: Path) -> None:
    whole = verify_model(folder)
    (folder / "README.md").unlink()
    assert verify_model(folder) == whole


@pytest.mark.parametrize("change", [-1, 1])
def test_a_data_file_of_another_size_is_refused_with_both_sizes(folder: Path, change: int) -> None:
    (path,) = folder.glob("*.safetensors")
    whole = path.read_bytes()
    path.write_bytes((whole + b"\0")[: len(whole) + change])
    for look in (open_model, verify_model):
        with pytest.raises(ModelFormatError, match=f"has {len(whole) + change:,} bytes, expected {len(whole):,}"):
            look(folder)


def test_a_missing_data_file_is_an_error_that_names_it(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    path.unlink()
    for look in (open_model, verify_model):
        with pytest.raises(ModelFormatError, match=rf"{path.name}: cannot be opened: No such file.*incomplete"):
            look(folder)


@pytest.mark.parametrize(
    "name", ["../other", "/etc/passwd", "sub/file", "", ".", "..", "a\0b", "x" * 300, "config.json/"], ids=repr
)
def test_a_data_file_outside_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder.parent / "other").write_bytes(b"x")
    rewrite_config(folder, lambda config: config["files"]["arrays.safetensors"].update(name=name))
    for look in (open_model, verify_model):
        with pytest.raises(ModelFormatError, match=r"must name a file in the folder|File name too long"):
            look(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.update(familly=c.pop("family")), "family: Field required; undo"),
        (lambda c: c.update(extra=1), "extra: Extra inputs are not permitted"),
        (lambda c: c["tokenizer"].update(normaliser="nfc"), r"tokenizer\.normaliser: Extra"),
        (lambda c: c["files"]["arrays.safetensors"].update(md5="0"), r"files\.arrays\.safetensors\.md5: Extra"),
        (lambda c: c.update(format=2), "has format 2, which a newer chainrule writes"),
        (
            lambda c: c["files"]["arrays.safetensors"].update(bytes="12"),
            r"files\.arrays\.safetensors\.bytes: .*integer, found '12'",
        ),
        (lambda c: c["tokenizer"].update(markers="sikp"), r"tokenizer\.markers: .*found 'sikp'"),
        (lambda c: c.update(settings=[]), "settings: .*object"),
        (lambda c: c["files"].clear(), r"files\.arrays\.safetensors must name a file"),
        (lambda c: c.pop("record"), "record: Field required"),
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(
    folder: Path, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    rewrite_config(folder, change)
    with pytest.raises(ModelFormatError, match=rf"config\.json: {named}"):
        open_model(folder)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"null", b"[]", b"\xff\xfe{}", b"[" * 100_000, b'{"format": ' + b"9" * 5000 + b"}"],
    ids=["empty", "cut", "null", "list", "not UTF-8", "nested", "digits"],
)
def test_a_config_that_is_no_json_object_is_a_format_error(folder: Path, text: bytes) -> None:
    (folder / "config.json").write_bytes(text)
    with pytest.raises(ModelFormatError, match=r"config\.json: .{10}"):
        open_model(folder)


@fast
@given(st.data())
def test_a_config_with_changed_characters_is_a_format_error_or_some_model(folder: Path, data: st.DataObject) -> None:
    text = bytearray((folder / "config.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789-[]{}",:e./\\u'))
    broken = a_copy_of(folder)
    (broken / "config.json").write_bytes(text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))])
    with suppress(ModelFormatError):
        assert open_model(broken)[1].keys() == ARRAYS.keys()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(st.text("ab", max_size=3), inner), max_size=3).map(dict)
    ),
    max_leaves=5,
)


@fast
@given(st.sampled_from(["format", "family", "settings", "tokenizer", "files", "record", "new"]), json_values)
def test_a_field_of_any_value_is_a_format_error_or_some_model(folder: Path, field: str, value: Any) -> None:
    broken = a_copy_of(folder)
    rewrite_config(broken, lambda config: config.update({field: value}))
    with suppress(ModelFormatError):
        assert open_model(broken)[1].keys() == ARRAYS.keys()
        assert field in ("format", "family", "settings", "record")


def test_a_folder_that_is_no_model_and_a_missing_folder_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="there is no such folder"):
        open_model(tmp_path / "lm")
    with pytest.raises(ModelFormatError, match=r"this folder is not a model, since it has no config\.json"):
        open_model(tmp_path)
    for file, message in [
        ("log.jsonl", "stopped before its first checkpoint, so there is no model; train again"),
        ("phrases/checkpoints/checkpoint.json", "no model yet; repeat it with resume=True"),
        ("checkpoints/checkpoint.json", "no model yet; repeat it with resume=True"),
    ]:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        with pytest.raises(ModelFormatError, match=message):
            open_model(tmp_path)
    (tmp_path / "arrays-0.safetensors").write_text("")
    with pytest.raises(ModelFormatError, match=r"not ended, so there is no model yet"):
        open_model(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    shutil.rmtree(tmp_path / "phrases")
    with pytest.raises(ModelFormatError, match=r"its config\.json is missing, without which its arrays are no model"):
        open_model(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelFormatError, match=r"config\.json: cannot be read"):
        open_model(tmp_path)


def test_a_data_file_that_is_no_tensors_file_is_a_format_error_that_names_it(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    path.write_bytes(bytes([255]) * path.stat().st_size)
    with pytest.raises(ModelFormatError, match=f"{path.name}: the header claims"):
        open_model(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_or_a_device_is_an_error_that_says_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelFormatError, match="is a pipe or a device; expected a model"):
            chainrule.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("file", ["config.json", "arrays"])
def test_a_pipe_or_a_device_in_a_folder_is_refused_and_not_read(folder: Path, file: str) -> None:
    """config.json was waited for, or read without bound."""
    path = folder / file if file == "config.json" else next(folder.glob("arrays-*"))
    for kind in ("pipe", "device"):
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        for opened in (chainrule.load, chainrule.info, chainrule.verify):
            with pytest.raises(ModelFormatError, match=f"it is a {kind}|has 0 bytes, expected"):
                opened(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    "file", ["tokenizer.json", "generation_config.json", "model.safetensors", "chat_template.jinja"]
)
def test_a_pipe_in_a_folder_of_hugging_face_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    write_tensors(tmp_path / "model.safetensors", ARRAYS)
    (tmp_path / file).unlink(missing_ok=True)
    os.mkfifo(tmp_path / file)
    with pytest.raises(ModelFormatError, match=f"{file}: .* it is a pipe; expected a regular file"):
        open_folder(tmp_path)


@pytest.mark.parametrize("key", ["settings.network.dropout", "record.train.minutes", "settings.parts.1"])
def test_nan_in_a_configuration_is_refused_with_its_file_and_key(folder: Path, key: str) -> None:
    """Python's reader of JSON takes NaN for a number, and `info` showed it."""
    part, name, inner = key.split(".")

    def add(config: dict[str, Any]) -> None:
        config[part][name] = [1, float("nan")] if inner == "1" else {inner: float("nan")}

    rewrite_config(folder, add)
    with pytest.raises(ModelFormatError, match=rf"config\.json: {re.escape(key)} is NaN; expected a number"):
        open_model(folder)


def test_nan_in_a_folder_of_hugging_face_is_refused_with_its_file_and_key(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "layer_norm_epsilon": NaN}')
    with pytest.raises(ModelFormatError, match=r"config\.json: .*layer_norm_epsilon is NaN"):
        open_folder(tmp_path)
