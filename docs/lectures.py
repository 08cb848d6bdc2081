"""Runs every command of the page of lectures, in one go, and writes its figures anew.

python docs/lectures.py [docs/lectures.md] [--folder work/] [--model smollm2.gguf] [--check]

Output of a command is in the page where a comment asks for it. The comment names the command by words of it that no
other command of the page has:

    <!-- lines 1-4 of: next trigram/ -->
    <!-- model, perplexity of: compare trigram/ added/ -->

The block below it, indented by four spaces, has these lines, or these columns of the table, of the command's output.
The script reports which blocks changed, and how long each command took. With --check it changes nothing. Commands with
smollm2.gguf, which are in blocks of `sh`, run if --model names that file. Otherwise their output is left unchanged.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGES = [Path(__file__).with_name("lectures.md")]
MODEL = "smollm2.gguf"
_BLOCK = re.compile(r"^<!-- (?P<part>.+?) of: (?P<command>.+) -->\n\n(?P<text>(?:    .*\n|\n(?=    ))*)", re.MULTILINE)
_INDENT = "    "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--folder", type=Path, help="where to run; by default a new one, which is removed afterwards")
    parser.add_argument("--model", type=Path, help="the file that pages call smollm2.gguf")
    parser.add_argument("--check", action="store_true", help="say what would change, and change nothing")
    options = parser.parse_args()
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as temporary:
            folder = (options.folder or Path(temporary)).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            if options.model is not None and not (folder / MODEL).exists():
                (folder / MODEL).symlink_to(options.model.resolve())
            commands = commands_of(text) + (of_model(text) if options.model else [])
            printed = {command: run(command, folder) for command in commands}
        written, changes = with_figures(text, printed)
        for change in changes:
            print(change)
        print(f"{page}: {len(changes)} of {len(_BLOCK.findall(text))} blocks of figures changed")
        if not options.check:
            page.write_text(written, encoding="utf-8")


def commands_of(text: str) -> list[str]:
    """The commands of a page, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def of_model(text: str) -> list[str]:
    """The commands of a page that need the open model."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if f" {MODEL}" in line and "ln -s" not in line]


def run(command: str, folder: Path) -> str:
    """What a command prints, in a folder. Ends the program where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    begin = time.monotonic()
    shell = ["bash", "-o", "pipefail", "-c", command]
    result = subprocess.run(
        shell, stdin=subprocess.DEVNULL, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    print(f"{time.monotonic() - begin:6.1f} s  {command}", flush=True)
    if result.returncode:
        sys.exit(f"{command}\n{result.stderr}")
    return result.stdout


def with_figures(text: str, printed: dict[str, str]) -> tuple[str, list[str]]:
    """The page with what commands printed, and a description of each block that differs.

    Raises ValueError where a comment names no command of the page, or several.
    """
    changes = []
    commands = [*commands_of(text), *of_model(text)]

    def block(match: re.Match[str]) -> str:
        command = named(match["command"], commands)
        if command not in printed and command in of_model(text):
            return match[0]
        lines = part_of(printed[command], match["part"])
        new = "\n".join(f"{_INDENT}{line}".rstrip() for line in lines).strip("\n") + "\n"
        if new != match["text"]:
            changes.append(f"{command}\n- {match['text'].strip()}\n+ {new.strip()}")
        end = "" if match["text"] else "\n"  # a comment that has no block yet
        return match[0].removesuffix(match["text"]) + new + end

    return _BLOCK.sub(block, text), changes


def named(words: str, commands: list[str]) -> str:
    """The only one of the commands that has these words. Raises ValueError where there are none, or several."""
    having = [command for command in commands if words in command]
    if len(having) != 1:
        raise ValueError(f"a comment names {len(having)} commands of the page in place of one: {words}")
    return having[0]


def part_of(printed: str, part: str) -> list[str]:
    """The lines of what was printed that a comment asks for: `lines 2-4`, `lines with WORD`, or columns of a table."""
    lines = printed.splitlines()
    if match := re.fullmatch(r"lines? (\d+)(?:-(\d+))?", part):
        return lines[int(match[1]) - 1 : int(match[2] or match[1])]
    if match := re.fullmatch(r"lines with (.+)", part):
        return [line for line in lines if match[1] in line]
    return columns_of(lines, [name.strip() for name in part.split(",")])


def columns_of(lines: list[str], names: list[str]) -> list[str]:
    """The columns with these names of the first table that has them all; columns are separated by two spaces.

    A row may lack cells after these columns, as that of a mixture does, which has no parameters.
    """
    tables = [re.split(r"\s{2,}", line.strip()) for line in lines]
    first = next((i for i, cells in enumerate(tables) if set(names) <= set(cells)), None)
    if first is None:
        raise ValueError(f"no table with the columns {', '.join(names)} was printed")
    known = tables[first]
    places = [known.index(name) for name in names]
    rows = list(itertools.takewhile(lambda cells: max(places) < len(cells) <= len(known), tables[first:]))
    chosen = [[row[place] for place in places] for row in rows]
    widths = [max(len(row[column]) for row in chosen) for column in range(len(names))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in chosen
    ]


if __name__ == "__main__":
    main()
