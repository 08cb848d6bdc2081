"""The smoke test of an installed wheel: the example of every verb, and the README; run in an empty folder.

The interpreter that runs it is that of the environment. Without an extra, a verb that needs it must say so in one line.
"""

from __future__ import annotations

import argparse
import io
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
import traceback
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


def readme_works() -> float:
    """Runs the commands of the README as a shell does, and its Python; gives the processor time of its first n-gram."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    fixtures = ROOT / "tests" / "fixtures"
    Path("readme").mkdir()
    for name, source in (("corpus.txt", "train.txt"), ("heldout.txt", "heldout.txt")):
        shutil.copy(fixtures / source, Path("readme") / name)
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    if not commands:
        raise SmokeError("README.md has no commands any more")
    program = Path(sys.executable).parent / "chainrule"
    first = 0.0
    for command in commands:
        words = [str(program), *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd="readme", capture_output=True, text=True, check=False)
        if done.returncode:
            raise SmokeError(f"{command}\n{done.stderr}")
        if not first:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            first = used.ru_utime + used.ru_stime
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
    except SmokeError as error:
        print(f"{error}\nthe smoke test failed: chainrule {chainrule.__version__}, Python {sys.version.split()[0]}")
        return 1
    told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    print(f"README: works, its first n-gram in {first:.1f} s of processor time with the compilation of kernels")
    print(f"examples of verbs: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
