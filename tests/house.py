"""The checks of the house that can be counted, printed: `make house`. tests/test_house.py runs the quick ones.

Lines and files by room; the largest modules; modules of ours that one load of a GGUF file runs, and imports;
modules that the verb next imports for an n-gram model; modules that a request passes on its way to its answer; names
that two rooms share.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = Path(__file__).parents[1] / "src" / "chainrule"
LIMITS = {  # at most
    "lines, all": 155_000,
    "lines, core": 61_000,
    "lines, cli": 3_000,
    "modules that load of a GGUF file runs": 45,
    "modules that load of a GGUF file imports": 190,
    "modules that next of an n-gram model imports": 110,
}

# Runs a statement in a process of its own; prints the modules of ours that it imports, and those of which functions run
# while no module is being imported.
_WATCHED = """
import json, sys, threading
{before}
known, ran = set(sys.modules), set()
def watch(frame, event, argument):
    file = frame.f_code.co_filename
    if event != "call" or "/chainrule/" not in file or frame.f_code.co_name == "<module>":
        return
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and "/chainrule/" in caller.f_code.co_filename:
            return
        caller = caller.f_back
    ran.add(file)
if {sees_runs}:
    threading.setprofile(watch)
    sys.setprofile(watch)
{statement}
sys.setprofile(None)
threading.setprofile(None)
imported = sorted(name for name in set(sys.modules) - known if name.startswith("chainrule"))
print("\\n" + json.dumps({{"imports": imported, "runs": sorted(ran)}}))
"""


def watched(statement: str, before: str = "import chainrule", *, sees_runs: bool = True) -> dict[str, list[str]]:
    """Return the modules of ours that a statement imports and runs, in a process of its own.

    sees_runs: whether functions are watched, which makes importing torch take twice as long.
    """
    code = _WATCHED.format(before=before, statement=statement, sees_runs=sees_runs)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(result.stdout.splitlines()[-1])
    return found


def room(path: Path) -> str:
    """Return the room of a module: core, or features and the feature's name, with the folder below."""
    parts = path.relative_to(PACKAGE).parts
    return (
        "/".join(parts[:2]) if parts[0] == "features" and len(parts) > 2 else parts[0] if len(parts) > 1 else "(root)"
    )


def lines_by_room() -> dict[str, tuple[int, int]]:
    """Return the number of files and of lines of each room."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        files, lines = found.get(room(path), (0, 0))
        found[room(path)] = files + 1, lines + len(path.read_text().splitlines())
    return found


def totals() -> dict[str, int]:
    """Return the lines of all modules, of the core and of the shell."""
    rooms = lines_by_room()
    core = sum(lines for name, (_, lines) in rooms.items() if not name.startswith("features"))
    return {
        "lines, all": sum(lines for _, lines in rooms.values()),
        "lines, core": core,
        "lines, cli": rooms["cli"][1],
    }


def shared_names() -> dict[str, list[str]]:
    """Return the names of modules that two rooms or more have, with these rooms."""
    rooms: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            rooms.setdefault(path.stem, set()).add(room(path))
    return {name: sorted(own) for name, own in sorted(rooms.items()) if len(own) > 1}


def imports_of_features() -> list[str]:
    """Return the import statements of the core, but for modules of the root, that name a feature."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if room(path).startswith("features") or path.parent == PACKAGE:
            continue
        imports = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        named = (node for node in imports if (node.module or "").startswith("chainrule.features"))
        found += [f"{path.relative_to(PACKAGE)}:{node.lineno}" for node in named]
    return found


def of_next(folder: Path) -> int:
    """Return how many modules `chainrule next` imports for a small n-gram model, which is made in a folder."""
    import chainrule

    chainrule.train(chainrule.Lines(["a b c", "a b d"]), chainrule.NGramConfig(order=2)).save(folder / "lm")
    statement = f"from chainrule.cli.main import run; run(['next', {str(folder / 'lm')!r}, 'a'])"
    return len(watched(statement, sees_runs=False)["imports"])


def of_gguf(folder: Path, *, sees_runs: bool = True) -> dict[str, int]:
    """Return how many modules `load` imports, and runs, for a tiny LLaMA in a GGUF file, which is made in a folder."""
    sys.path[:0] = [str(PACKAGE.parents[1] / "tests"), str(PACKAGE.parents[1] / "tests" / "features" / "open")]
    from tiny_files import write_gguf
    from tiny_models import CAUSAL, shaken
    from tiny_tokenizers import byte_level

    path = write_gguf(folder / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level())
    found = watched(f"chainrule.load({str(path)!r})", sees_runs=sees_runs)
    return {
        "modules that load of a GGUF file runs": len(found["runs"]),
        "modules that load of a GGUF file imports": len(found["imports"]),
    }


def of_request(folder: Path) -> int:
    """Return how many modules of ours run from a request for a completion to its answer, by the model of `of_next`."""
    server = str(PACKAGE.parents[1] / "tests" / "features" / "serve")
    before = f"""import sys
sys.path.insert(0, {server!r})
from pathlib import Path
from running import running
opened = running({{"lm": Path({str(folder / "lm")!r})}})
server = opened.__enter__()
body = {{"model": "lm", "prompt": "a", "max_tokens": 2}}
server.client.post("/v1/completions", json=body)
"""
    statement = "server.client.post('/v1/completions', json=body)"
    threads = "import threading; threading.setprofile_all_threads(watch)" if sys.version_info >= (3, 12) else ""
    return len(watched(f"{threads}\n{statement}", before)["runs"])


def main() -> None:
    """Print all."""
    for name, (files, lines) in sorted(lines_by_room().items(), key=lambda item: -item[1][1]):
        print(f"{name:24} {files:4} files {lines:7,} lines")
    with TemporaryDirectory() as folder:
        counted = totals() | of_gguf(Path(folder))
        counted["modules that next of an n-gram model imports"] = of_next(Path(folder))
        if sys.version_info >= (3, 12):  # before, threads that run cannot be watched
            print(f"{'modules that a request runs':48} {of_request(Path(folder)):8}")
    for name, count in counted.items():
        print(f"{name:48} {count:8,}  at most {LIMITS[name]:,}{'' if count <= LIMITS[name] else '  EXCEEDED'}")
    print(f"{'imports from the core to features':48} {len(imports_of_features()):8}  none")
    for name, rooms in shared_names().items():
        print(f"named alike: {name}: {', '.join(rooms)}")
    sizes = Counter({path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")})
    for path, lines in sizes.most_common(12):
        print(f"{path.relative_to(PACKAGE)}: {lines} lines")


if __name__ == "__main__":
    main()
