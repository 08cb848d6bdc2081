"""How kernels are run, and where their compiled code is kept."""

import ast
import gc
import math
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from compile_kernels import PRODUCTS, kernels, recorded, written
from numba.types import Array, Tuple, UniTuple, boolean, float64, int32, int64, uint8

from chainrule.base import jit
from chainrule.base.jit import is_first_run, kernel, types_of

WAIT = 30  # seconds, for what happens at once unless something is wrong


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a folder for temporary files, and nothing said about the cache."""
    for name in ("CHAINRULE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def chosen_folder() -> Path | None:
    return jit.cache_folder.__wrapped__()


def make_useless(folder: Path) -> None:
    """A file instead of a folder, since nothing is read-only to root."""
    folder.rmdir()
    folder.write_bytes(b"")


def test_compiled_code_is_kept_in_the_users_cache(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.sys, "platform", "linux")
    folder = chosen_folder()
    assert folder is not None
    assert folder.parent == places / "home" / ".cache" / "chainrule"
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert chosen_folder() == folder


def test_the_place_of_compiled_code_can_be_said(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "xdg"))
    folder = chosen_folder()
    assert folder is not None
    assert folder.parent == places / "xdg" / "chainrule"
    monkeypatch.setenv("CHAINRULE_CACHE", str(places / "said" / "so"))
    folder = chosen_folder()
    assert folder is not None
    assert folder.parent == places / "said" / "so"


def test_temporary_files_are_the_fallback_where_the_home_cannot_be_written(places: Path) -> None:
    make_useless(places / "home")
    folder = chosen_folder()
    assert folder is not None
    assert folder.parent == places / "temporary" / f"chainrule-{os.getuid()}"


def test_temporary_files_are_the_fallback_where_the_user_has_no_home(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    folder = chosen_folder()
    assert folder is not None
    assert folder.parent.parent == places / "temporary"


def test_the_home_serves_where_there_is_no_folder_for_temporary_files(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", no_temporary_folder)
    folder = chosen_folder()
    assert folder is not None
    assert places / "home" in folder.parents


def no_temporary_folder() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found")


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_kept_where_nothing_can_be_written(
    places: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    make_useless(places / "home")
    if exists:
        make_useless(places / "temporary")
    else:
        monkeypatch.setattr(tempfile, "gettempdir", no_temporary_folder)
    assert chosen_folder() is None


def test_a_place_that_was_said_and_is_useless_is_not_replaced_by_another(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places / "file").write_bytes(b"")
    monkeypatch.setenv("CHAINRULE_CACHE", str(places / "file"))
    assert chosen_folder() is None


def test_a_read_only_place_is_passed_over(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: places / "home" not in Path(path).parents)
    folder = chosen_folder()
    assert folder is not None
    assert places / "temporary" in folder.parents


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
def test_code_is_not_loaded_from_the_folder_of_another_user(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_folder() is not None
    us = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: us + 1)
    assert chosen_folder() is None


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_folder_that_another_user_made_beforehand_is_not_trusted(places: Path) -> None:
    make_useless(places / "home")
    prepared = places / "temporary" / "chainrule-0"
    prepared.mkdir(mode=0o777)
    os.chown(prepared, 12345, 12345)
    assert chosen_folder() is None


def test_it_is_the_first_run_until_something_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    assert is_first_run()
    (tmp_path / "counting").mkdir()
    assert is_first_run()
    (tmp_path / "counting" / "gather.nbi").write_bytes(b"")
    assert not is_first_run()
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    assert is_first_run()


def a_kernel_of(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], float]:
    monkeypatch.setattr(jit, "cache_folder", lambda: folder)

    def divided(a: float, b: float) -> float:
        return a / b

    return kernel(divided)


def test_a_kernel_is_kept_in_the_cache_folder_and_divides_as_numpy_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said_before = numba.config.CACHE_DIR
    divided = a_kernel_of(tmp_path, monkeypatch)
    assert divided(1.0, 4.0) == 0.25
    assert divided(1.0, 0.0) == math.inf
    assert math.isnan(divided(0.0, 0.0))
    assert list(tmp_path.rglob("*.nbi"))
    assert said_before == numba.config.CACHE_DIR


def test_kernels_compiled_on_several_threads_are_all_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba reads its setting several times; changed between, it keeps compiled code in the working folder."""
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    seen: list[str] = []

    def slow_njit(**settings: object) -> Callable[[Callable[[], None]], Callable[[], None]]:
        for _ in range(20):
            seen.append(numba.config.CACHE_DIR)
            time.sleep(0.001)
        return lambda function: function

    monkeypatch.setattr(numba, "njit", slow_njit)
    said_before = numba.config.CACHE_DIR
    makers = [threading.Thread(target=kernel, args=(lambda: None,)) for _ in range(4)]
    for maker in makers:
        maker.start()
        time.sleep(0.005)
    for maker in makers:
        maker.join(WAIT)
    assert set(seen) == {str(tmp_path)}
    assert said_before == numba.config.CACHE_DIR


HELD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that compiles all kernels of the folder, for as long as nobody speaks to it."""
    command = [sys.executable, "-c", HELD, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


def test_a_kernel_that_another_process_compiles_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_process: subprocess.Popen[str]
) -> None:
    compiled_before: list[Path] = []

    def sleep(seconds: float) -> None:
        if other_process.poll() is None:
            compiled_before.extend(tmp_path.rglob("*.nbi"))
            other_process.communicate()

    # of this module alone: other threads sleep, too
    monkeypatch.setattr(jit, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert a_kernel_of(tmp_path, monkeypatch)(1.0, 4.0) == 0.25
    assert other_process.poll() == 0  # it was waited for
    assert compiled_before == []
    assert list(tmp_path.rglob("*.nbi"))


def test_a_kernel_that_another_process_never_ends_to_compile_is_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_process: subprocess.Popen[str]
) -> None:
    monkeypatch.setattr(jit, "PATIENCE", 0.02)
    assert a_kernel_of(tmp_path, monkeypatch)(1.0, 4.0) == 0.25
    assert other_process.poll() is None


def test_a_kernel_works_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    divided = a_kernel_of(None, monkeypatch)
    assert divided(1.0, 4.0) == 0.25
    assert not list(Path(__file__).parent.rglob("test_jit*.nbi"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "chainrule"
    shutil.copytree(jit.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "PACKAGE", copy)
    return copy


def digest() -> str:
    return jit._sources_digest.__wrapped__()


def test_compiled_code_is_kept_apart_for_every_state_of_the_kernels(package: Path) -> None:
    seen = {digest()}
    kernels = sorted(package.rglob("*_kernels.py"))
    assert {path.parent.name for path in kernels} >= {"tokenization", "trie", "counting"}
    lanes = sorted(package.rglob("*lanes.py"))
    for path in [*kernels, *lanes, package / "protocol.py"]:
        path.write_text(path.read_text() + "\n# changed\n")
        seen.add(digest())
    (package / "text" / "new_kernels.py").write_text("")
    seen.add(digest())
    assert len(lanes) == 2
    assert len(seen) == len(kernels) + 5


def test_compiled_code_outlives_changes_elsewhere(package: Path) -> None:
    before = digest()
    (package / "store.py").write_text("")
    (package / "ngram" / "model.py").write_text("")
    assert digest() == before


def test_a_kernel_is_compiled_once_for_all_numbers_that_others_write_out() -> None:
    @kernel
    def scaled(x: float, factor: int) -> float:
        return x * factor

    @kernel
    def both(x: float, factor: int) -> float:
        return scaled(x, 2) + scaled(x, 3) + scaled(x, factor)

    assert both(1.0, 4) == 9.0
    assert len(scaled.signatures) == 1
    assert gc.isenabled()


def test_no_kernel_assigns_one_slice_to_another() -> None:
    """Numba takes two seconds to compile that: it brings all of its strings in, for the message of an error."""
    found = []
    for path in sorted(jit.PACKAGE.rglob("*_kernels.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and any(map(is_slice, node.targets)):
                value = node.value
                if isinstance(value, ast.Subscript) or (isinstance(value, ast.Name) and not value.id.isupper()):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


def is_slice(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(target.slice))


def test_what_set_up_compiles_are_the_kernels_of_the_package() -> None:
    """`python tests/base/compile_kernels.py --record` writes the list anew."""
    assert recorded().keys() <= {*kernels(), PRODUCTS}
    kinds = int32[:, ::1], float64[:], UniTuple(int64, 3), Tuple((uint8[::1], boolean)), Array(uint8, 1, "C", True)
    assert types_of(f"({', '.join(map(written, kinds))},)") == kinds
