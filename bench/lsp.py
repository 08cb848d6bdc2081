"""How long an editor waits for a completion: keys typed into a long file, by standard input and output.

python bench/lsp.py lm/ text.txt [--lines 10000] [--keys 2000] [--pause 0]

The text is repeated to as many lines. In its middle, a line of it is typed key by key: each key is a change and a
request, whose answer is waited for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from machine import circumstances


class Editor:
    """As much of an editor as it takes to type."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._id = 0

    def notify(self, method: str, params: Any = None, **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def request(self, method: str, params: Any = None) -> Any:
        self._id += 1
        self.notify(method, params, id=self._id)
        while (message := self._next()).get("id") != self._id:
            pass
        return message["result"]

    def wait_for(self, method: str) -> None:
        while self._next().get("method") != method:
            pass

    def _next(self) -> Any:
        output = self._process.stdout
        assert output is not None
        length = 0
        while header := output.readline().strip():
            if header.lower().startswith(b"content-length"):
                length = int(header.split(b":")[1])
        return json.loads(output.read(length))

    def close(self) -> None:
        self.request("shutdown")
        self.notify("exit")
        self._process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between keys")
    options, more = parser.parse_known_args()
    lines = [line for line in options.text.read_text(encoding="utf-8").split("\n") if line.strip()]
    document = {"uri": "file:///typed.txt", "version": 1}
    text = "".join(f"{line}\n\n" for line in islice(cycle(lines), options.lines // 2))
    editor = Editor([sys.executable, "-m", "chainrule", "lsp", options.model, *more])
    began = time.perf_counter()
    editor.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    editor.notify("initialized", {})
    editor.notify("textDocument/didOpen", {"textDocument": {**document, "languageId": "plaintext", "text": text}})
    if "--no-correct" not in more:  # the words are indexed meanwhile, which takes seconds of the same processor
        editor.wait_for("textDocument/publishDiagnostics")
    row, times, first = options.lines // 4 * 2, [], None
    typed = islice((key for line in lines[::-1] for key in [*enumerate(line), None]), options.keys)
    for key in typed:
        if key is None:
            row += 2
            continue
        column, character = key
        here, after = {"line": row, "character": column}, {"line": row, "character": column + 1}
        if column == 0:
            _change(editor, document, here, {"line": row + 1, "character": 0}, "\n")  # the line that was there
        time.sleep(options.pause)
        started = time.perf_counter()
        _change(editor, document, here, here, character)
        editor.request("textDocument/completion", {"textDocument": {"uri": document["uri"]}, "position": after})
        ended = time.perf_counter()
        times.append(1000 * (ended - started))
        first = ended - began if first is None else first
    editor.close()
    times = sorted(times[50:])  # the first page in what they read
    print(circumstances())
    print(f"{len(text):,} characters in {options.lines:,} lines; {options.pause:g} s between keys")
    print(f"first completion after {first:.2f} s, with what corrects")
    shares = ", ".join(f"p{100 * share:.0f} {times[int(share * len(times))]:.2f} ms" for share in (0.5, 0.9, 0.99))
    print(f"{len(times):,} keys: {shares}, most {times[-1]:.2f} ms")


def _change(editor: Editor, document: dict[str, Any], start: Any, end: Any, text: str) -> None:
    document["version"] += 1
    change = {"range": {"start": start, "end": end}, "text": text}
    editor.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})


if __name__ == "__main__":
    main()
