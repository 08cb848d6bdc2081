"""Whatever goes wrong is told in one line, with a status that says of which kind it was, and leaves nothing behind."""

from __future__ import annotations

import builtins
import errno
import gzip
import os
import shutil
import struct
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import chainrule as library
from chainrule.base.files import NGRAM_FILE_SUFFIXES, FolderPath
from chainrule.cli import main as command
from chainrule.errors import TextError, installing
from chainrule.storage.model_folder import check_target

if TYPE_CHECKING:
    from collections.abc import Callable


def test_extras_are_installed_from_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installing("neural") == "pip install 'chainrule[neural]'"  # which pip finds, since it is installed

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert installing("neural") == f"pip install '{Path(library.__file__).parents[2]}[neural]'"


TEXT_VERBS = {
    "train ngram": lambda model, text, target: ["train", "ngram", text, "-o", target],
    "train uniform": lambda model, text, target: ["train", "uniform", text, "-o", target],
    "evaluate": lambda model, text, target: ["evaluate", model, text],
    "score": lambda model, text, target: ["score", model, text],
    "compare": lambda model, text, target: ["compare", text, "-o", target],
    "compare --heldout": lambda model, text, target: ["compare", model / "README.md", "--heldout", text, "-o", target],
}
MODEL_VERBS = {
    "evaluate": lambda model, text, target: ["evaluate", model, text],
    "score": lambda model, text, target: ["score", model, text],
    "next": lambda model, text, target: ["next", model, "ka"],
    "generate": lambda model, text, target: ["generate", model, "ka"],
    "convert": lambda model, text, target: ["convert", model, target],
    "verify": lambda model, text, target: ["verify", model],
}


BAD_TEXTS = {
    "missing": (None, "there is no such file"),
    "a folder": ("folder", "there is no text in this folder, only 0 files of other kinds"),
    "binary": (
        b"\x7fELF\x02\x01\x01\0\0\0\xd0\xff",
        "line 1: byte 0xd0 at offset 10 is not UTF-8; it looks like a",
    ),
    "Latin-1": ("é\nè\n".encode("latin-1"), "line 1: byte 0xe9 at offset 0 is not UTF-8; convert it to UTF-8 first"),
    "a cut character": ("é".encode()[:-1], "line 1: byte 0xc3 at offset 0 is not UTF-8"),
    "markers": (
        b"a b\nc </s> d\n",
        "line 2: </s> occurs in the text, but is a marker of the model. Remove it, or set --markers",
    ),
}


@pytest.mark.parametrize("verb", TEXT_VERBS)
@pytest.mark.parametrize("kind", BAD_TEXTS)
def test_a_text_that_cannot_be_read_is_named_with_the_place(
    verb: str, kind: str, refused, model: Path, tmp_path: Path
) -> None:
    content, message = BAD_TEXTS[kind]
    path = tmp_path / "text.txt"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content + b"\n" + b"x y\n" * 30 if b"</s>" in content else content)
    told = refused(1, TEXT_VERBS[verb](model, path, tmp_path / "target"))
    assert told.startswith(str(path))
    assert message in told


@pytest.mark.parametrize("verb", ["train ngram", "train uniform", "evaluate", "compare", "compare --heldout"])
@pytest.mark.parametrize("name", ["empty.txt", "empty.txt.gz"])
def test_an_empty_text_is_refused(verb: str, name: str, refused, model: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    told = refused(1, TEXT_VERBS[verb](model, path, tmp_path / "target"))
    assert told == f"{path}: there is no text in it; at least one document is needed"


@pytest.mark.parametrize("verb", TEXT_VERBS)
def test_a_text_that_is_not_compressed_as_it_says_is_refused(verb: str, refused, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a b\n" * 1000)[:30])
    told = refused(1, TEXT_VERBS[verb](model, path, tmp_path / "target"))
    assert told.startswith(f"{path}: cannot be read: ")


BAD_MODELS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (shutil.rmtree, "there is no such folder"),
    "no settings": (lambda folder: (folder / "config.json").unlink(), "its config.json is missing, without which"),
    "no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        "config.json: is cut off or damaged: Invalid JSON",
    ),
    "binary": (lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"), "config.json: cannot be read"),
    "another version": (
        lambda folder: replaced(folder / "config.json", '"format": 1', '"format": 2'),
        "config.json: has format 2, which a newer chainrule writes; this one reads up to 1: install a newer one",
    ),
    "a misspelt field": (
        lambda folder: replaced(folder / "config.json", '"family"', '"famliy"'),
        "config.json: family: Field required; undo",
    ),
}
LOADING = {verb: arguments for verb, arguments in MODEL_VERBS.items() if verb != "verify"}


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("verb", MODEL_VERBS)
@pytest.mark.parametrize("kind", BAD_MODELS)
def test_a_model_that_cannot_be_opened_is_named_with_the_place(
    verb: str, kind: str, refused, model: Path, heldout: Path, tmp_path: Path
) -> None:
    spoil, message = BAD_MODELS[kind]
    path = shutil.copytree(model, tmp_path / "lm")
    spoil(path)
    told = refused(1, MODEL_VERBS[verb](path, heldout, tmp_path / "target"))
    assert told.startswith(str(path))
    assert message in told


@pytest.mark.parametrize("verb", LOADING)
def test_a_family_of_another_version_is_refused(verb: str, refused, model: Path, heldout: Path, tmp_path: Path) -> None:
    path = shutil.copytree(model, tmp_path / "lm")
    replaced(path / "config.json", '"family": "ngram",\n  "settings"', '"family": "rnn",\n  "settings"')
    assert "family 'rnn' is not known" in refused(1, LOADING[verb](path, heldout, tmp_path / "target"))


@pytest.mark.parametrize("verb", LOADING)
def test_a_damaged_arpa_file_is_named_with_the_line(verb: str, refused, heldout: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.arpa"
    path.write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<unk>\n0\t<s>\nx\t</s>\n-1\ta\n\n\\end\\\n")
    told = refused(1, LOADING[verb](path, heldout, tmp_path / "target"))
    assert told.startswith(f"{path}, line 7: ")


def test_a_file_that_is_no_arpa_is_no_model(refused, heldout: Path) -> None:
    told = refused(1, ["evaluate", heldout, heldout])
    suffixes = ".arpa, .arpa.gz, .arpa.zst, .arpa.xz, .arpa.bz2"
    files = f"a file whose name ends in {suffixes}, a binary of KenLM's, a GGUF file, one of llama2.c, "
    files += "the .safetensors file of a ResNet or a file of word vectors"
    assert told == f"{heldout}: a model is a folder, {files}"


BAD_TARGETS = {
    "lm": "there is a model already; use --overwrite to replace it, or choose another folder",
    "lm/": "there is a model already; use --overwrite to replace it, or choose another folder",
    "file": "a file is in the way; a model is a folder, so choose another name",
    "file/lm": "cannot be written, since {folder}/file is a file and not a folder",
    "full": "this folder holds other files and no model; choose a new folder",
    "file/lm.arpa": "there is no folder {folder}/file to write it in; create it first",
    "new.txt": "a model is a folder, and this is the name of a file; leave out .txt, or, for an n-gram "
    "model as an ARPA file, choose a name that ends in .arpa or .arpa.gz; or end a folder's name with a slash",
    "taken.arpa": "exists already; use --overwrite to replace it, or choose another name",
}


@pytest.mark.parametrize("name", BAD_TARGETS)
def test_a_model_does_not_replace_other_files(name: str, refused, model: Path, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "lm")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken.arpa").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    told = refused(1, ["train", "ngram", corpus, "-o", f"{tmp_path}/{name}"])
    assert told == f"{tmp_path / name}: {BAD_TARGETS[name].format(folder=tmp_path)}"


def test_a_slash_at_the_end_makes_any_name_that_of_a_folder(chainrule, corpus: Path, tmp_path: Path) -> None:
    for name in ("a.txt", "b.gz", "c.arpa", "d.combined"):
        assert chainrule("train", "uniform", corpus, "-o", f"{tmp_path}/{name}/").status == 0
        library.load(tmp_path / name).save(f"{tmp_path}/again-{name}/")
        assert (tmp_path / f"again-{name}" / "config.json").is_file()
        assert chainrule("convert", f"{tmp_path}/{name}/", f"{tmp_path}/converted-{name}/").status == 0
        assert (tmp_path / f"converted-{name}" / "config.json").is_file()
        with pytest.raises(
            library.ChainruleError, match="with a slash" if "." + name[2:] in {".txt", ".gz"} else "save a model folder"
        ):
            library.load(tmp_path / name).save(f"{tmp_path}/third-{name}")


@pytest.mark.parametrize("kind", ["ngram", "uniform", "recurrent"])
def test_empty_lines_are_no_text_to_train_on(kind: str, chainrule, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n\n")
    result = chainrule("train", kind, tmp_path / "empty.txt", "-o", tmp_path / "lm")
    assert result.error.endswith("empty.txt: all of its documents, 3, are empty; at least one token is needed")
    assert not (tmp_path / "lm").exists()


def test_a_report_is_written_to_no_file(refused, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file; a report is a folder" in refused(1, ["compare", corpus, "-o", tmp_path / "file"])
    assert "file is a file" in refused(1, ["compare", corpus, "-o", tmp_path / "file/report"])


def test_an_unwritable_folder_is_an_error_before_the_work(
    refused, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    access = os.access  # root may write everywhere, so the mode of the folder would not do
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and access(path, mode))
    for arguments in (["train", "ngram"], ["compare"]):
        assert "no permission to write to" in refused(1, [*arguments, corpus, "-o", tmp_path / "closed/new"])


def test_a_message_stays_one_line_whatever_a_file_is_called(refused, tmp_path: Path) -> None:
    told = refused(1, ["train", "ngram", f"{tmp_path}/no\nsuch\x1b[31m\udcff語", "-o", tmp_path / "lm"])
    assert told == f"{tmp_path}/no\\nsuch\\x1b[31m\\udcff語: there is no such file"


def test_debug_shows_the_traceback(chainrule, model: Path) -> None:
    with pytest.raises(TextError, match="there is no such file"):
        chainrule("--debug", "evaluate", model, "missing.txt")


@pytest.mark.parametrize("target", ["lm", "lm.arpa", "lm.arpa.gz"])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    target: str, chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = chainrule("train", "ngram", corpus, "-o", tmp_path / target, "--order", 2)
    assert result.status == 1
    assert result.error == f"{tmp_path / target}: cannot be written: No space left on device; nothing was changed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["train", "compare"])
def test_a_file_that_cannot_be_created_is_an_error_and_leaves_nothing(
    verb: str, chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = builtins.open

    def closed(file: object, mode: str = "r", *rest: object, **named: object) -> object:
        if str(file).startswith(str(tmp_path)) and mode != "r":
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return really_open(file, mode, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(builtins, "open", closed)
    monkeypatch.setattr("io.open", closed)
    arguments = {"train": ["train", "ngram"], "compare": ["compare", "--order", 1]}[verb]
    result = chainrule(*arguments, corpus, "-o", tmp_path / "new")
    assert result.status == 1
    written = tmp_path / "new" / ("table.md" if verb == "compare" else "")
    assert result.error == f"{written}: cannot be written: Disk quota exceeded; nothing was changed"
    assert list(tmp_path.iterdir()) == []


def test_overwriting_on_a_full_disk_leaves_the_old_model(
    chainrule, model: Path, corpus: Path, heldout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(model, tmp_path / "lm")
    before = chainrule("score", path, heldout).out

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert chainrule("train", "ngram", corpus, "-o", path, "--order", 1, "--overwrite").status == 1
    assert chainrule("score", path, heldout).out == before
    assert chainrule("verify", path).status == 0
    assert sorted(file.name for file in path.iterdir()) == sorted(file.name for file in model.iterdir())


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted; no half-written file is left"),
        (MemoryError(), 1, "out of memory; ask for less at once: a shorter text, a smaller batch, a lower order"),
        (MemoryError("Unable to allocate 9 TiB"), 1, "out of memory (Unable to allocate 9 TiB); ask for less at once"),
        (PermissionError(errno.EACCES, "Permission denied", "lm/x"), 1, "lm/x: cannot be read or written: Permission"),
        (OSError(errno.EIO, "Input/output error"), 1, "reading or writing failed: Input/output error"),
    ],
)
def test_operating_system_errors_are_one_line(
    error: BaseException, status: int, message: str, chainrule, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr("chainrule.verbs.verify.verify_model", fails)
    result = chainrule("verify", model)
    assert result.status == status
    assert result.error.startswith(message)


def test_an_error_of_our_own_making_is_not_hidden(chainrule, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **settings: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("chainrule.verbs.verify.verify_model", fails)
    with pytest.raises(ZeroDivisionError):
        chainrule("verify", model)


def test_the_status_of_a_command_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["chainrule", "verify"])
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    with pytest.raises(SystemExit) as leaving:
        command.main()
    assert leaving.value.code == 2


@pytest.mark.parametrize(
    "name", ["net.arpa", "NET.ARPA", "net.Arpa.GZ", "net.combined", "net.fst.txt", "net.TXT", "net.vec"]
)
def test_a_model_without_n_grams_is_refused_the_name_of_a_file_before_the_work(
    name: str, refused, model: Path, corpus: Path, tmp_path: Path
) -> None:
    target, pairs = tmp_path / name, tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n")
    commands = (
        ["train", "recurrent", corpus],
        ["train", "uniform", corpus],
        ["train", "classifier", pairs],
        ["train", "seq2seq", "--pairs", pairs],
        ["train", "vectors", corpus],
        ["mix", model, "--weights", 1],
    )
    for words in commands:
        assert "this is the name of a file" in refused(1, [*words, "-o", target])
    with pytest.raises(library.OutputError, match="name of a file"):
        library.train(corpus, library.RecurrentConfig(), folder=target)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def test_every_name_of_a_file_of_n_grams_is_one_that_no_folder_has(tmp_path: Path) -> None:
    for suffix in NGRAM_FILE_SUFFIXES:
        for name in (f"a{suffix}", f"a{suffix}".upper()):
            with pytest.raises(library.OutputError, match="file of n-grams"):
                check_target(tmp_path / name, overwrite=True)
            check_target(FolderPath(tmp_path / name), overwrite=True)


def test_a_model_that_is_cut_off_is_no_text_in_the_wrong_place(chainrule, tmp_path: Path) -> None:
    """The search for swapped arguments opens it a second time."""
    (tmp_path / "cut.gguf").write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 7) + b"general")
    (tmp_path / "text.txt").write_text("a\n")
    for arguments in (["next", tmp_path / "cut.gguf", "a"], ["score", tmp_path / "cut.gguf", tmp_path / "text.txt"]):
        found = chainrule(*arguments)
        assert found.status != 0
        assert found.err.count("\n") == 1
        assert "it is cut off" in found.err
