"""Writes n-best lists with their new scores, and best hypotheses, to files that appear only when complete."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from chainrule.applications.nbest.json_lists import write_json_list
from chainrule.applications.nbest.moses import write_moses_list
from chainrule.applications.nbest.srilm import write_srilm_list
from chainrule.base.files import compressing, replace_file, sync_folder
from chainrule.errors import OutputError, SettingError
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from chainrule.applications.nbest.lists import NBestList
    from chainrule.applications.nbest.reading import ListFormat

TOTAL = "total"  # the name of the weighted sum among the scores


class ListWriter(Protocol):
    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        """Writes one list. scores: its own, the models', and the total. order: of the hypotheses, best first."""


@contextmanager
def list_writer(path: Path, kind: ListFormat, models: Sequence[str]) -> Iterator[ListWriter]:
    """A writer for a format; JSON lines if the name says so. Raises OutputError, SettingError.

    Formats with several files become a new folder.
    """
    if FORMATS.get(text_suffix(str(path))) == "json":
        kind = "json"
    if kind in ("json", "moses"):
        with replace_file(path) as raw, compressing(raw, path) as file:
            yield _OneFile(file, kind)
    elif kind == "srilm":
        if len(models) != 1:
            raise SettingError(
                f"{path}: SRILM's lists have room for the score of one model; for several, give a name that ends in "
                ".jsonl"
            )
        with _new_folder(path) as folder:
            yield _SrilmFolder(folder, models[0])
    else:
        with _new_folder(path) as folder, ExitStack() as stack:
            yield _KaldiFolder(folder, stack)


def write_best(file: BinaryIO, nbest: NBestList, text: str, *, as_json: bool, with_id: bool) -> None:
    """Writes a chosen hypothesis as a line: the text alone, `id text`, or a JSON object."""
    if as_json:
        line = json.dumps({"id": nbest.id, "text": text}, ensure_ascii=False)
    else:
        line = f"{nbest.id} {text}".rstrip() if with_id else text
    file.write(line.encode() + b"\n")


class _OneFile:
    def __init__(self, file: BinaryIO, kind: ListFormat) -> None:
        self._file = file
        self._write = write_json_list if kind == "json" else write_moses_list

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        self._write(self._file, nbest, scores, order)


class _SrilmFolder:
    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        own = next(iter(scores))
        with open(self._folder / nbest.id, "xb") as file:
            write_srilm_list(file, nbest, scores[own], scores[self._model], order)


class _KaldiFolder:
    """`text`, and a file for each score, keyed `id-1`, `id-2`, ..."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._files: dict[str, BinaryIO] = {}

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        for rank, i in enumerate(order, 1):
            key = f"{nbest.id}-{rank}"
            self._file("text").write(f"{key} {nbest.texts[i]}\n".encode())
            for name, values in scores.items():
                self._file(name).write(f"{key} {values[i]:.6f}\n".encode())

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            self._files[name] = self._stack.enter_context((self._folder / name).open("xb"))
        return self._files[name]


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder that becomes `path` when it is complete, and is removed otherwise. Raises OutputError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir()
        try:
            yield temporary
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
