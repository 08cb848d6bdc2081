"""The smoke test of an installed wheel: the example of every verb, and the README; run in an empty folder.

The interpreter that runs it is that of the environment. Without an extra, a verb that needs it must say so in one line.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "cli"))  # for the examples alone; chainrule is the installed one

import chainrule  # noqa: E402
from chainrule.cli.main import run  # noqa: E402

_ASKS = re.compile(r"pip install '?chainrule\[([a-z]+)\]|pip install ([a-z_]+)")
_OUTPUT = re.compile(r" (?:-o|--output) (\S+)")


class SmokeError(Exception):
    """What does not work as installed."""


def installed_extras() -> dict[str, bool]:
    """Whether each extra's own packages are all installed."""
    known = metadata("chainrule")
    extras = {}
    for extra in known.get_all("Provides-Extra") or []:
        wanted = [
            line for line in known.get_all("Requires-Dist") or [] if re.search(rf"extra == ['\"]{extra}['\"]", line)
        ]
        extras[extra] = all(_is_installed(re.match(r"[\w.-]+", line)[0]) for line in wanted)  # type: ignore[index]
    return extras


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def run_verb(arguments: list[str]) -> tuple[int, str]:
    """Runs a command in this process; gives its status and what it printed as errors."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"I visited S\n")))  # type: ignore[arg-type]
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            status = run(arguments)
        except Exception:
            traceback.print_exc()
            status = 70
    return status, errors.buffer.getvalue().decode()  # type: ignore[attr-defined]


def examples_work(missing: set[str]) -> Counter[str]:
    """Runs the example of every verb. Raises SmokeError for one that fails, but by asking for a missing extra."""
    from verb_examples import ending_at_once, examples

    outcomes: Counter[str] = Counter()
    unwritten: dict[str, str] = {}  # what examples would have written, and the extra that they ask for
    with ending_at_once():
        for _, arguments in examples():
            command = shlex.join(["chainrule", *arguments])
            began = time.process_time()
            status, errors = run_verb(arguments)
            if status and "use --overwrite" in errors:  # of an earlier run
                status, errors = run_verb([*arguments, "--overwrite"])
            lines = [line for line in errors.splitlines() if line.strip()]
            last = lines[-1] if lines else ""
            asked = _ASKS.search(last)
            if status == 0:
                outcomes["work"] += 1
                print(f"  {time.process_time() - began:6.2f} s  {command}")
                continue
            if "Traceback" in errors:
                raise SmokeError(f"{command}\n{errors}")
            blocking = [unwritten[word.rstrip("/")] for word in arguments if word.rstrip("/") in unwritten]
            if asked and (asked[1] in missing or (asked[2] and find_spec(asked[2]) is None)):
                extra = asked[1] or asked[2]
                outcomes[f"ask for {extra}"] += 1
                for name in _OUTPUT.findall(command):
                    unwritten[name.rstrip("/")] = extra
                print(f"  asks for {extra}: {command}")
            elif blocking:
                outcomes[f"read what only {blocking[0]} writes"] += 1
                for name in _OUTPUT.findall(command):
                    unwritten[name.rstrip("/")] = blocking[0]
                print(f"  reads what only {blocking[0]} writes: {command}")
            else:
                raise SmokeError(f"{command}\n{errors}")
    return outcomes


def extras_work(missing: set[str]) -> list[str]:
    """Uses each installed extra once, where the example of no verb does; gives their names."""
    uses = {
        "bleu": lambda: chainrule.measure_translations(["the dog bit the man"], ["the dog bit a man"]),
        "form": lambda: _succeeds("generate lm/ 'I visited San' --choices Francisco Diego"),
        "maps": lambda: _succeeds("map words/ -o tsne.html --method tsne"),
        "parquet": _read_parquet,
        "report": lambda: _succeeds(
            "reading times.tsv lm/ --text words.tsv --frequencies lexicon.tsv --plot reading.svg"
        ),
        "serve": _serve,
        "sound": _read_flac,
        "subword": lambda: _succeeds("train ngram corpus.txt -o pieces/ --tokenizer bpe"),
        "superpixels": _cut_into_superpixels,
    }
    used = [extra for extra in uses if extra not in missing]
    for extra in used:
        try:
            uses[extra]()
        except Exception as error:
            raise SmokeError(f"the extra {extra} does not work:\n{traceback.format_exc()}") from error
    return used


def _succeeds(command: str) -> None:
    status, errors = run_verb(shlex.split(command))
    if status:
        raise SmokeError(f"chainrule {command}\n{errors}")


def _read_parquet() -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["the dog bit the man"] * 40}), "texts.parquet")
    _succeeds("train ngram texts.parquet -o from-parquet/")


def _read_flac() -> None:
    import numpy as np
    import soundfile

    soundfile.write("tone.flac", np.sin(np.arange(16_000) / 10), 16_000)
    assert chainrule.read_sound("tone.flac", 16_000).samples.size == 16_000


def _cut_into_superpixels() -> None:
    import numpy as np

    from chainrule.features.trees.structures.region_graphs import superpixels

    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
    assert superpixels(pixels).shape == (32, 32)


def _serve() -> None:
    """A server of its own, which is asked one thing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).parent / "chainrule"
    with open("serve.log", "wb") as log:
        server = subprocess.Popen([program, "serve", "lm/", "--port", str(port)], stdout=log, stderr=log)
    body = json.dumps({"model": "lm", "prompt": "I visited San", "max_tokens": 2}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, headers)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert json.load(answer)["choices"]
                    break
            except urllib.error.HTTPError as error:
                raise SmokeError(error.read().decode()) from error
            except urllib.error.URLError as error:  # not yet
                if server.poll() is not None:
                    raise SmokeError(Path("serve.log").read_text()) from error
                time.sleep(0.2)
        else:
            raise SmokeError("the server did not answer")
    finally:
        server.terminate()
        server.wait(60)


def children_seconds() -> float:
    return os.times().children_user + os.times().children_system


def readme_works() -> float:
    """Runs the commands of the README as a shell does, and its Python; gives the processor time of its first n-gram."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    Path("readme").mkdir()
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    if not commands:
        raise SmokeError("README.md has no commands any more")
    program = Path(sys.executable).parent / "chainrule"
    first = 0.0
    for command in commands:
        words = [str(program), *shlex.split(command)[1:]]
        before = children_seconds()
        done = subprocess.run(words, cwd="readme", capture_output=True, text=True, check=False)
        if done.returncode:
            raise SmokeError(f"{command}\n{done.stderr}")
        if not first and words[1] == "train":
            first = children_seconds() - before
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd="readme", capture_output=True, text=True)
    if done.returncode:
        raise SmokeError(f"the Python of README.md\n{done.stderr}")
    return first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="the folder of an earlier run, whose models this one starts from")
    arguments = parser.parse_args()
    try:
        if not Path(chainrule.__file__).is_relative_to(sys.prefix):
            raise SmokeError(f"chainrule is {chainrule.__file__}, which is not the installed one")
        first = readme_works()  # before anything is compiled
        missing = {name for name, is_installed in installed_extras().items() if not is_installed}
        if arguments.models:
            shutil.copytree(arguments.models, ".", dirs_exist_ok=True)
        else:
            from verb_examples import write_files

            write_files(Path())
        outcomes = examples_work(missing)
        used = extras_work(missing)
    except SmokeError as error:
        print(f"{error}\nthe smoke test failed: chainrule {chainrule.__version__}, Python {sys.version.split()[0]}")
        return 1
    told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    print(f"README: works, its first n-gram in {first:.1f} s of processor time with the compilation of kernels")
    print(f"examples of verbs: {told}; extras that were used: {', '.join(used) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
