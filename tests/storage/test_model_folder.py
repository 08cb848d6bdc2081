"""Model folders: what is written comes back, and whatever goes wrong, one whole model stays."""

import errno
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chainrule
from chainrule.api.model import Model
from chainrule.errors import EstimationError, ModelFormatError, OutputError
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import check_target, open_model, save_model, verify_model

ARRAYS = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3), "text": np.arange(9, dtype=np.uint8)}
OTHER_ARRAYS = {"numbers": np.arange(8, dtype=np.float32)}
fast = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def save(folder: Path, arrays: dict[str, np.ndarray] = ARRAYS, *, overwrite: bool = False, **record: Any) -> None:
    save_model(
        folder,
        family="ngram",
        settings={"order": 3, "discounts": None},
        tokenizer=TokenizerEntry(kind="word", markers="skip", unicode="14.0.0"),
        arrays=arrays,
        record=record,
        card="# A card\n",
        overwrite=overwrite,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def a_copy_of(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.parent / "copy", dirs_exist_ok=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "lm", note="first")
    return tmp_path / "lm"


def test_what_was_saved_is_opened_and_verified(folder: Path) -> None:
    entry, arrays, *_ = open_model(folder)
    assert (entry.family, entry.settings, entry.record) == ("ngram", {"order": 3, "discounts": None}, {"note": "first"})
    assert entry.tokenizer.model_dump() == {"kind": "word", "markers": "skip", "normalise": (), "unicode": "14.0.0"}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert verify_model(folder) == entry


def test_a_folder_holds_a_config_a_card_and_one_data_file_named_by_its_content(folder: Path) -> None:
    entry, *_ = open_model(folder)
    data = entry.files["arrays.safetensors"]
    assert sorted(contents(folder)) == sorted(["README.md", "config.json", f"arrays-{data.sha256[:16]}.safetensors"])
    digest = hashlib.sha256(b"# A card\n").hexdigest()
    assert (folder / "README.md").read_text() == f"# A card\n\n<!-- SHA-256 of the above: {digest} -->\n"
    assert (folder / data.name).stat().st_size == data.bytes


@pytest.mark.parametrize(
    "value",
    [math.inf, [1, 2.5, None, True], {"ä": "日本\n"}, 2**60, "\0", ""],
    ids=["infinity", "list", "object", "large", "nul", "empty"],
)
def test_a_record_comes_back_as_it_was(tmp_path: Path, value: Any) -> None:
    save(tmp_path / "lm", value=value)
    assert open_model(tmp_path / "lm")[0].record == {"value": value}


def test_a_file_name_that_is_no_utf8_can_be_recorded(tmp_path: Path) -> None:
    save(tmp_path / "lm", command=[os.fsdecode(b"caf\xe9.txt")])
    assert verify_model(tmp_path / "lm").record == {"command": ["caf?.txt"]}


def test_folders_above_are_made(tmp_path: Path) -> None:
    save(tmp_path / "a" / "b" / "lm")
    verify_model(tmp_path / "a" / "b" / "lm")


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    save(tmp_path / "lm")
    verify_model(tmp_path / "lm")


def test_a_model_is_not_replaced_unless_that_is_said(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(OutputError, match="there is a model already; use overwrite=True"):
        save(folder, OTHER_ARRAYS)
    assert contents(folder) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="this folder has other files in it and is no model"):
        save(tmp_path, overwrite=overwrite)
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["file", "file/lm"])
def test_a_file_in_the_way_is_left_alone(tmp_path: Path, overwrite: bool, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="file"):
        save(tmp_path / name, overwrite=overwrite)
    assert contents(tmp_path) == {"file": b"x"}


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(OutputError, match=f"lm: cannot be written: no permission to write to {tmp_path}"):
        check_target(tmp_path / "a" / "lm", overwrite=False)


def test_a_name_that_no_folder_can_have_is_an_error_of_ours(tmp_path: Path) -> None:
    name = tmp_path / ("x" * 300)
    with pytest.raises(OutputError, match="File name too long"):
        check_target(name, overwrite=False)
    with pytest.raises(ModelFormatError, match="there is no such folder"):
        open_model(name)


@pytest.mark.parametrize("arrays", [ARRAYS, OTHER_ARRAYS], ids=["same", "other"])
def test_overwriting_leaves_the_new_model_alone_in_its_folder(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    (folder / "notes.txt").write_text("mine")
    save(folder, arrays, overwrite=True, note="second")
    entry, found, *_ = open_model(folder)
    assert entry.record == {"note": "second"}
    assert found.keys() == arrays.keys()
    assert sorted(contents(folder)) == sorted(
        ["README.md", "config.json", "notes.txt", entry.files["arrays.safetensors"].name]
    )


def test_arrays_that_are_in_use_can_be_overwritten_by_themselves(folder: Path) -> None:
    _, arrays, *_ = open_model(folder)
    save(folder, arrays, overwrite=True)
    verify_model(folder)
    np.testing.assert_array_equal(arrays["numbers"], ARRAYS["numbers"])


class Faults:
    """Counts what is done to the disk, and makes one of these actions fail."""

    def __init__(self, patch: pytest.MonkeyPatch, *actions: str) -> None:
        self.log: list[str] = []
        self.place = -1
        self.after = False
        self.error: BaseException = KeyboardInterrupt()
        for name in actions:
            patch.setattr(os, name, self.watched(name, getattr(os, name)))
        really_open = open
        patch.setattr("builtins.open", lambda path, mode="r", **kw: self.opened(really_open, path, mode, **kw))

    def watched(self, name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            self.log.append(f"{name} {Path(args[-1]).name}" if name == "replace" else name)
            fails = len(self.log) - 1 == self.place
            if fails and not self.after:
                raise self.error
            result = action(*args, **kwargs)
            if fails:
                raise self.error
            return result

        return act

    @contextmanager
    def opened(self, really_open: Callable[..., Any], path: Path, mode: str, **kwargs: Any) -> Iterator[Any]:
        if "w" not in mode:
            with really_open(path, mode, **kwargs) as file:
                yield file
            return
        with self.watched("open", really_open)(path, mode, **kwargs) as file:
            yield WatchedFile(file, self)


class WatchedFile:
    def __init__(self, file: Any, faults: Faults) -> None:
        self.fileno, self.flush = file.fileno, file.flush
        self.write = faults.watched("write", file.write)


FAILURES = [
    pytest.param(error, after, id=f"{name} {'after' if after else 'before'}")
    for name, error in [
        ("disk full", OSError(errno.ENOSPC, "No space left on device")),
        ("Ctrl-C", KeyboardInterrupt()),
    ]
    for after in (False, True)
]


@pytest.mark.parametrize(("error", "after"), FAILURES)
@pytest.mark.parametrize("arrays", [ARRAYS, OTHER_ARRAYS], ids=["same", "other"])
def test_a_failure_at_any_moment_leaves_the_old_model_or_the_new_one(
    folder: Path, tmp_path: Path, error: BaseException, after: bool, arrays: dict[str, np.ndarray]
) -> None:
    before = contents(folder)
    place = 0
    while True:
        target = tmp_path / "target"
        shutil.copytree(folder, target)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, "open", "replace", "fsync")
            faults.place, faults.after, faults.error = place, after, error
            try:
                save(target, arrays, overwrite=True, note="second")
            except (OutputError, KeyboardInterrupt) as raised:
                failed: BaseException | None = raised
            else:
                failed = None
        if failed is None:
            assert len(faults.log) == place > 15  # it went through, since there was no such moment
            break
        assert isinstance(failed, OutputError if isinstance(error, OSError) else KeyboardInterrupt)
        committed = "replace config.json" in (faults.log if after else faults.log[:-1])
        assert verify_model(target).record == {"note": "second" if committed else "first"}
        if not committed:
            assert contents(target) == before
        if isinstance(error, OSError):
            outcome = "the model was saved" if committed else "nothing was changed"
            assert f"cannot be written: No space left on device; {outcome}" in str(failed)
        assert not [name for name in contents(target) if name.endswith(".tmp")]
        shutil.rmtree(target)
        place += 1


@pytest.mark.parametrize(("error", "after"), FAILURES)
def test_a_failure_at_any_moment_of_a_first_save_leaves_nothing_or_a_model(
    tmp_path: Path, error: BaseException, after: bool
) -> None:
    place = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, "open", "replace", "fsync", "mkdir")
            faults.place, faults.after, faults.error = place, after, error
            with suppress(OutputError, KeyboardInterrupt):
                save(tmp_path / "a" / "lm")
        if len(faults.log) == place:
            break
        committed = "replace config.json" in (faults.log if after else faults.log[:-1])
        if committed:
            verify_model(tmp_path / "a" / "lm")
            assert not [name for name in contents(tmp_path / "a" / "lm") if name.endswith(".tmp")]
            shutil.rmtree(tmp_path / "a")
        assert list(tmp_path.iterdir()) == []
        place += 1
    assert place > 15
    verify_model(tmp_path / "a" / "lm")


def test_a_failure_in_a_folder_that_was_there_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    with pytest.raises(TypeError):
        save(tmp_path / "lm", record={"no": {"json"}})
    assert contents(tmp_path / "lm") == {}


TEXTS = {"tokenizer.json": b'{"kind": "subword"}'}


def with_texts(folder: Path, arrays: dict[str, np.ndarray] = ARRAYS, **settings: Any) -> Path:
    """A model with a data file beside its arrays."""
    tokenizer = TokenizerEntry(kind="subword", markers="skip", unicode="14.0.0")
    save_model(
        folder,
        family="ngram",
        settings={"order": 1e-05},
        tokenizer=tokenizer,
        arrays=arrays,
        record={"note": 'in "quotes": ""', "control": "\x1f"},
        card="# A card\n",
        texts=TEXTS,
        **settings,
    )
    return folder


def test_further_data_files_come_back_and_are_named_by_their_content(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    entry, _, texts, _ = open_model(folder)
    assert texts == TEXTS
    digest = hashlib.sha256(TEXTS["tokenizer.json"]).hexdigest()
    assert entry.files["tokenizer.json"].name == f"tokenizer-{digest[:16]}.json"
    assert len(contents(folder)) == 4
    with_texts(folder, OTHER_ARRAYS, overwrite=True)
    assert len(contents(folder)) == 4
    save(folder, overwrite=True)  # by a model that needs no such file
    assert len(contents(folder)) == 3
    assert open_model(folder)[2] == {}


def test_a_data_file_that_a_model_folder_does_not_have_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no data files \['merges.txt'\]"):
        save_model(
            tmp_path / "new",
            family="ngram",
            settings={},
            tokenizer=TokenizerEntry(kind="word", markers="skip", unicode="14.0.0"),
            arrays=ARRAYS,
            record={},
            card="",
            texts={"merges.txt": b""},
        )
    assert not (tmp_path / "new").exists()
    rewrite_config(folder, lambda config: config["files"].update(more=config["files"]["arrays.safetensors"]))
    with pytest.raises(ModelFormatError, match=r"files\.more is unknown; expected arrays\.safetensors or"):
        open_model(folder)


def test_a_further_data_file_is_checked_each_time(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    (path,) = folder.glob("tokenizer-*.json")
    path.write_bytes(path.read_bytes().upper())
    with pytest.raises(ModelFormatError, match=f"{path.name}: its SHA-256 is .* the file has changed"):
        open_model(folder)


def test_every_flipped_bit_of_every_file_is_found(tmp_path: Path) -> None:
    """Of each byte, two or three bits: each of the eight in every eighth byte."""
    folder = with_texts(tmp_path / "lm")
    verify_model(folder)
    for path in folder.iterdir():
        whole = path.read_bytes()
        for bit in range(0, 8 * len(whole), 3):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
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
    (folder / "README.md").unlink()
    verify_model(folder)


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
        (lambda c: c.update(familly=c.pop("family")), "family: Field required"),
        (lambda c: c.update(extra=1), "extra: Extra inputs are not permitted"),
        (lambda c: c["tokenizer"].update(normaliser="nfc"), r"tokenizer\.normaliser: Extra"),
        (lambda c: c["files"]["arrays.safetensors"].update(md5="0"), r"files\.arrays\.safetensors\.md5: Extra"),
        (lambda c: c.update(format=2), "format: Input should be 1, found '2'"),
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
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
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


def test_a_folder_that_is_no_model_is_told_apart_from_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="there is no such folder"):
        open_model(tmp_path / "lm")
    with pytest.raises(ModelFormatError, match=r"this folder is no model, since it has no config\.json"):
        open_model(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelFormatError, match=r"config\.json: cannot be read"):
        open_model(tmp_path)


def test_a_data_file_that_is_no_tensors_file_is_a_format_error_that_names_it(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    path.write_bytes(bytes([255]) * path.stat().st_size)
    with pytest.raises(ModelFormatError, match=f"{path.name}: the header claims"):
        open_model(folder)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write beyond that many bytes of any file fails, as on a full disk, in the system and not in a mock."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX limits")
def test_a_disk_that_is_full_at_any_byte_leaves_the_old_model_and_nothing_else(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    before = contents(folder)
    size, saved, said = 0, False, set[str]()
    while not saved:
        try:
            with files_of_at_most(size):
                with_texts(folder, OTHER_ARRAYS, overwrite=True)
            saved = True
        except OutputError as error:
            said.add(str(error))
            if contents(folder) != before:
                raise
        size += 1
    assert said == {f"{folder}: cannot be written: File too large; nothing was changed"}
    verify_model(folder)
    assert size > 600  # its largest file


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX limits")
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz", "lm"])
def test_a_disk_that_is_full_while_a_model_is_saved_over_leaves_the_old_one(tmp_path: Path, name: str) -> None:
    old = chainrule.train(chainrule.Lines(["a b c"] * 5), chainrule.NGramConfig(order=1))
    new = chainrule.train(chainrule.Lines(["a b c d e"] * 5), chainrule.NGramConfig(order=3))
    path = tmp_path / name
    old.save(path)
    before = contents(path if path.is_dir() else tmp_path)
    for size in [0, 1, 10, 50, 100, 200]:
        with pytest.raises(OutputError, match="nothing was changed"), files_of_at_most(size):
            new.save(path, overwrite=True)
        assert contents(path if path.is_dir() else tmp_path) == before
    new.save(path, overwrite=True)
    assert chainrule.load(path).language_model.order == 3


KILLED_AT_EVERY_MOMENT = """
import os, signal, sys
from pathlib import Path
import numpy as np
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import open_model, save_model, verify_model

moment = -1  # which of the next actions kills this process, before it is done

def watched(action):
    def act(*args, **kwargs):
        global moment
        moment -= 1
        if moment == -1:
            os.kill(os.getpid(), signal.SIGKILL)
        return action(*args, **kwargs)
    return act

class Watched:
    def __init__(self, file):
        self.file, self.fileno, self.flush, self.write = file, file.fileno, watched(file.flush), watched(file.write)
    def __enter__(self):
        return self
    def __exit__(self, *args):
        self.file.close()

def save(i):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(1000, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=str(i), overwrite=True,
        texts={"tokenizer.json": str(i).encode()},
    )

save(0)
last = killed = 0
while True:
    child = os.fork()
    if child == 0:
        really_open = open
        import builtins
        def opened(path, mode="r", *args, **kwargs):
            file = really_open(path, mode, *args, **kwargs)
            return Watched(file) if "w" in mode else file
        builtins.open = watched(opened)
        for name in ("replace", "fsync", "unlink", "open", "mkdir"):
            setattr(os, name, watched(getattr(os, name)))
        moment = killed + 1
        save(last + 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = verify_model(Path(sys.argv[1])).record["i"]
    assert found in (last, last + 1), (found, last)
    assert open_model(Path(sys.argv[1]))[2] == {"tokenizer.json": str(found).encode()}
    last = found
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
print(killed, len(os.listdir(sys.argv[1])))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_save_that_is_killed_before_any_of_its_actions_leaves_a_whole_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_MOMENT, str(tmp_path / "lm")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    killed, files = map(int, result.stdout.split())
    assert killed > 25
    assert files == 4  # what was left behind has been swept


SAVES_FOREVER = """
import sys, numpy as np
from pathlib import Path
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model
for i in range(10**9):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(10**5, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=str(i), overwrite=True,
    )
    print(i, flush=True)
"""


def test_a_save_that_is_killed_at_any_moment_leaves_a_whole_model_that_can_be_saved_over(tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    moments = np.random.default_rng(0).uniform(0, 0.03, 8)
    for moment in moments:
        with subprocess.Popen(
            [sys.executable, "-c", SAVES_FOREVER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            saved = int(child.stdout.readline())
            time.sleep(moment)
            child.kill()
            saved += len(child.stdout.readlines())
        entry = verify_model(folder)
        assert entry.record["i"] in (saved, saved + 1)
        assert np.all(open_model(folder)[1]["a"] == entry.record["i"])
    save(folder, ARRAYS, overwrite=True)
    assert len(list(folder.iterdir())) == 3


def test_what_a_killed_first_save_left_behind_is_swept_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    folder.mkdir()
    for name in ("arrays.safetensors.0123abcd.tmp", "config.json.0123abcd.tmp", "README.md.0123abcd.tmp"):
        (folder / name).write_text("half")
    (folder / "arrays-0123456789abcdef.safetensors").write_text("whole, but never committed")
    save(folder, ARRAYS)
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["README.md", "arrays", "config.json"]


SAVES_A_WHILE = """
import sys, numpy as np
from pathlib import Path
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model
for i in range(40):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(1000, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=sys.argv[2], overwrite=True,
    )
"""


def test_two_processes_that_save_into_one_folder_and_one_that_reads_never_meet_half_a_model(folder: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", SAVES_A_WHILE, str(folder), name]) for name in ("one", "two")]
    while any(writer.poll() is None for writer in writers):
        entry, arrays, *_ = open_model(folder)
        assert "a" not in arrays or np.all(arrays["a"] == entry.record["i"])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(list(folder.iterdir())) == 3


def test_what_is_no_number_is_not_saved(tmp_path: Path) -> None:
    """Of any family: n-grams hide their numbers in records."""
    from random_networks import MODERN, random_model

    ngrams = chainrule.train(chainrule.Lines(["a b", "b a"]), chainrule.NGramConfig(order=2))
    ngrams.language_model.table.nodes["log_prob"][4] = np.nan
    network = random_model(MODERN, ngrams.vocabulary_size)
    network.network.embedding.weight.data[3, 3] = np.nan
    neural = Model("transformer", network, ngrams.tokenizer, {}, ngrams.speller)
    for model in (ngrams, neural):
        with pytest.raises(EstimationError, match=r"has NaN in its .* not saved"):
            model.save(tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_or_a_device_is_said_to_be_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelFormatError, match="is a pipe or a device; expected a model"):
            chainrule.load(path)
