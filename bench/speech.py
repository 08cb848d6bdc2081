"""Speech recognition on synthesised sentences: word error rates without and with a language model.

Takes sentences of a text, one a line, has espeak-ng say them, trains `chainrule train speech` on some and a 5-gram on
the rest of the text, and measures the others. espeak-ng is a program: on Debian, apt install espeak-ng.

    python bench/speech.py novels.txt folder/ --train --minutes 20

What is there already in the folder is kept, so that a run can be repeated in parts.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

from machine import circumstances

SENTENCES = {"train": 300, "test": 100}
FEWEST, MOST = 5, 12  # words of a sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="sentences, one a line, tokenised by spaces")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--voice", default="en-us")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--train", nargs=argparse.REMAINDER, default=["--minutes", "20"], help="options")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "lm.txt").exists():
        write_texts(options.text, folder)
    say(folder, options.voice)
    print(circumstances())
    if not (folder / "lm" / "config.json").exists():
        run("train", "ngram", folder / "lm.txt", "-o", folder / "lm", "--order", options.order, "--prune", 0, 0, 1)
    if not (folder / "model" / "config.json").exists():
        run("train", "speech", folder / "train.tsv", "-o", folder / "model", "--resume", *options.train)
    run("evaluate", folder / "model", folder / "test.tsv", "--lm", folder / "lm")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time of all commands: {used.ru_utime + used.ru_stime:.0f} s")


def write_texts(text: Path, folder: Path) -> None:
    """Chooses sentences without repetition at random, seed 0; the language model's text has none of them."""
    with text.open(encoding="utf-8") as lines:
        cleaned = [clean(line) for line in lines]
    usual = sorted({line for line in cleaned if FEWEST <= len(line.split()) <= MOST})
    chosen = random.Random(0).sample(usual, sum(SENTENCES.values()))
    said = set(chosen)
    (folder / "lm.txt").write_text("".join(f"{line}\n" for line in cleaned if line and line not in said))
    first = 0
    for part, count in SENTENCES.items():
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in chosen[first : first + count]))
        first += count


def clean(line: str) -> str:
    """Words in small letters, with apostrophes."""
    return " ".join(re.findall(r"[a-z]+(?:'[a-z]+)*", line.lower()))


def say(folder: Path, voice: str) -> None:
    """Has espeak-ng say the sentences, each into a file of its own: it leaves the length out of what it pipes."""
    for part in SENTENCES:
        rows = []
        for number, text in enumerate((folder / f"{part}.txt").read_text().splitlines()):
            sound = folder / part / f"{number}.wav"
            sound.parent.mkdir(exist_ok=True)
            if not sound.exists():
                subprocess.run(["espeak-ng", "-v", voice, "-w", str(sound), text], check=True)
            rows.append(f"{part}/{number}.wav\t{text}\n")
        (folder / f"{part}.tsv").write_text("".join(rows))


def run(*arguments: object) -> None:
    command = [sys.executable, "-m", "chainrule", *map(str, arguments)]
    print("$ chainrule", *command[3:], flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
