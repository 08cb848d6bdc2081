"""Fetches models of the Hugging Face Hub, with huggingface_hub: its cache, offline mode, token, mirror and resuming."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.files import read_file
from chainrule.base.memory import bytes_shown
from chainrule.errors import ChainruleError, ModelFormatError, OutputError, SettingError, installing
from chainrule.features.hub.choice import choose
from chainrule.features.hub.names import HubName
from chainrule.models.progress_line import ProgressOption, showing
from chainrule.storage.safetensors import file_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LISTED = 8  # files that are named before they are fetched


class HubFile(NamedTuple):
    """A file of a commit. size: in bytes; None if not known. digest: its SHA-256 or, of a file in git itself, git's."""

    size: int | None
    digest: str = ""


class Listing(NamedTuple):
    """What a commit has. folder: where the cache keeps it. files: by their paths. is_cached: whether these are only the
    files that the cache has, since the Hub was not asked.
    """

    folder: Path
    files: Mapping[str, HubFile]
    is_cached: bool = False

    @property
    def commit(self) -> str:
        return self.folder.name

    def lacks(self, path: str) -> bool:
        """Return whether the cache has no such file, or not all of it."""
        own = self.folder / path
        return not own.is_file() or self.files[path].size not in (None, own.stat().st_size)

    def size(self, path: str) -> int:
        """Return the bytes of a file; 0 where they are not known."""
        return self.files[path].size or 0

    def is_elsewhere(self, path: str) -> bool:
        """Return whether the cache has the bytes of a file, from another commit."""
        blob = self.folder.parent.parent / "blobs" / self.files[path].digest
        return not (self.folder / path).is_file() and blob.is_file()


def fetch(
    text: str, *, is_whole: bool = False, allow_pickle: bool = False, progress: ProgressOption = None
) -> tuple[Path, str]:
    """Return where a model is in the cache of huggingface_hub, after fetching what is missing, and its lasting name.

    A name stands for the same commit as long as the process runs. text: what follows hf:. The rest is as for
    `chainrule.storage.sources.locate`. Raises SettingError, ServerError, ModelFormatError, OutputError.
    """
    name = HubName.parse(text)
    try:
        from chainrule.features.hub import answers
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise SettingError(f"{name}: models of the Hub need huggingface_hub: {installing('hub')}") from None
    listing = _listing(name.repository, name.revision)

    def read(path: str) -> bytes:
        _fetch_files(name, listing, [path], False)
        return read_file(listing.folder / path)

    sizes = {path: listing.size(path) for path in listing.files}
    try:
        choice = choose(str(name), sizes, name.file, read, allow_pickle=allow_pickle, is_whole=is_whole)
    except ChainruleError as error:
        if listing.is_cached:
            error.args = (f"{error}. This is what the cache has, since {answers.why_not_asked()}",)
        raise
    _fetch_files(name, listing, choice.files, progress if is_whole or choice.opened else False)
    file = f":{choice.opened}" if choice.opened else ""
    return listing.folder / choice.opened, f"hf:{name.repository}@{listing.commit}{file}"


@cache
def _listing(repository: str, revision: str) -> Listing:
    """Return the files of a repository; of the cache, where the Hub cannot be asked. Raises ServerError."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.file_download import repo_folder_name

    from chainrule.features.hub import answers

    name = HubName(repository, revision)
    try:
        with answers.as_errors(name):
            found = HfApi().model_info(repository, revision=revision, files_metadata=True)
    except answers.UnreachableError as error:
        folder = answers.cached(name, error)
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {path.relative_to(folder).as_posix(): HubFile(path.stat().st_size) for path in paths}
        return Listing(folder, files, is_cached=True)
    files = {
        file.rfilename: HubFile(file.size, (file.lfs.sha256 if file.lfs else file.blob_id) or "")
        for file in found.siblings or ()
    }
    of_cache = Path(constants.HF_HUB_CACHE).expanduser().resolve()  # as huggingface_hub names it
    folder = of_cache / repo_folder_name(repo_id=repository, repo_type="model") / "snapshots" / str(found.sha)
    return Listing(folder, files)


def _fetch_files(name: HubName, listing: Listing, paths: Sequence[str], progress: ProgressOption) -> None:
    """Fetch those of some files that the cache lacks, and check them. progress: False for silence.

    Raises ServerError, ModelFormatError, OutputError.
    """
    wanted = [path for path in paths if listing.lacks(path)]
    if not wanted:
        return
    missing = {path: listing.size(path) for path in wanted if not listing.is_elsewhere(path)}
    total = sum(missing.values())
    if missing and progress is not False:
        _tell(name, listing, missing)
    _check_space(name, listing.folder, total)
    done = 0
    with showing(progress) as show:
        for path in wanted:
            before = done

            def count(size: int, before: int = before) -> None:
                show(f"fetching {name}", min(before + size, total), total)

            _fetch_file(name, listing, path, count)
            done += missing.get(path, 0)


def _fetch_file(name: HubName, listing: Listing, path: str, count: Callable[[int], None]) -> None:
    """Fetch one file, and compare its digest. count: a callback that gets the bytes that have come.

    Raises ServerError, ModelFormatError.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils.tqdm import tqdm

    from chainrule.features.hub import answers

    class Counter(tqdm):
        """Counts bytes in place of drawing a bar. A file may have two bars: what has come, and what is on the disk."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]
            self.bytes = 0

        def update(self, n: float | None = 1) -> None:
            self.bytes += int(n or 0)
            count(self.bytes)

    is_damaged = (listing.folder / path).is_file()  # and of another size
    with answers.as_errors(name):
        own = hf_hub_download(
            name.repository, path, revision=name.revision, tqdm_class=Counter, force_download=is_damaged
        )
    if Path(own) != listing.folder / path:
        raise ModelFormatError(f"{name}: has changed while it was fetched; run the command again for the new commit")
    expected = listing.files[path].digest
    actual = _digest_like(expected, Path(own))
    if expected and actual != expected:
        os.remove(os.path.realpath(own))
        os.remove(own)
        raise ModelFormatError(
            f"{name}: {path} came with the checksum {actual[:12]}..., but the Hub says {expected[:12]}...; it was "
            "deleted. Run the command again; if that does not help, the mirror or proxy changes files"
        )


def _digest_like(expected: str, path: Path) -> str:
    """Return the digest of a file, in the kind of an expected one: SHA-256, or git's of 40 digits."""
    if len(expected) != 40:
        return file_digest(path)
    content = path.read_bytes()
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _tell(name: HubName, listing: Listing, missing: Mapping[str, int]) -> None:
    """Write a line on standard error: which files are fetched, their sizes, and where they go."""
    files = sorted(missing.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{path} ({bytes_shown(size)})" for path, size in files[:_LISTED])
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    total, cache_folder = bytes_shown(sum(missing.values())), listing.folder.parents[2]
    line = f"{name}: fetching {total} of commit {listing.commit[:8]} to {cache_folder}: {shown}{more}"
    sys.stderr.write(f"{line}\n")


def _check_space(name: HubName, folder: Path, size: int) -> None:
    """Raise OutputError where the disk of the cache has no room."""
    there = next(path for path in folder.parents if path.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        raise OutputError(
            f"{name}: has {bytes_shown(size)} to fetch, and {bytes_shown(free)} are free in {there}; free some, or set "
            "HF_HOME to a folder on another disk"
        )
