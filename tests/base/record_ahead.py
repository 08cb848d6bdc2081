"""Writes the lists of kernels that a first run compiles, which `chainrule.base.ahead` reads.

    python tests/base/record_ahead.py MODEL.gguf    writes all; a model in four bits, whose tokenizer is BPE

Each run begins with an empty cache. Products of packed weights are left out: each file has others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from chainrule.base.ahead import LIST

RUNS = {
    "counting": ["train", "ngram", "{folder}/train.txt", "-o", "{folder}/lm"],
    "packed": ["generate", "{model}", "Once upon a time", "--max-tokens", "5"],
}
RECORDING = """
import sys
from numba.core import event
from compile_kernels import written

depth, lines = 0, []

class Listener(event.Listener):
    def on_start(self, event):
        global depth
        function = event.data["dispatcher"].py_func
        if depth == 0 and function.__module__.startswith("chainrule.") and "<locals>" not in function.__qualname__:
            arguments = ", ".join(map(written, event.data["args"]))
            lines.append(f"{function.__module__.removeprefix('chainrule.')}.{function.__name__}({arguments},)")
        depth += 1

    def on_end(self, event):
        global depth
        depth -= 1

event.register("numba:compile", Listener())
from chainrule.cli.main import main
try:
    main()
finally:
    print("\\n".join(["", "RECORDED", *lines]))
"""


def record(arguments: list[str]) -> str:
    """The kernels that a command compiles, a line for each."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "CHAINRULE_CACHE": cache, "CHAINRULE_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), environment.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", RECORDING, *arguments]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return output.partition("RECORDED\n")[2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "chainrule", "data", "text", "-o", folder], check=True)
        places = {"folder": folder, "model": sys.argv[1]}
        runs = {run: [argument.format(**places) for argument in command] for run, command in RUNS.items()}
        LIST.write_text("".join(f"[{run}]\n{record(arguments)}" for run, arguments in runs.items()))
