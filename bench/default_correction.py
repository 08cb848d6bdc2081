"""`chainrule correct` as people type it, without options: single words, running text, learners' sentences.

    chainrule train ngram novels/train.txt -o lm/
    python bench/default_correction.py --model lm/ --counts novels/train.txt --errors birkbeck.dat.gz \\
        --text holbrook-tagged.dat.gz --jfleg jfleg/ [--words spell-testset1.txt spell-testset2.txt]

Each set is written to a file, a text a line, and corrected by the command in a process of its own. Norvig's functions
have counts of the words that the model was trained on. errors: Birkbeck's, every eighth of its pairs. words: lines as
Norvig writes them, `right: wrong wrong`. jfleg: dev.src.gz, dev.spellchecked.src.gz and dev.ref0.gz to dev.ref3.gz.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from holbrook import lines_of, read_holbrook
from machine import circumstances
from misspellings import birkbeck_pairs, norvigs_choice, read

import chainrule
from chainrule.features.correct.correct import word_index
from chainrule.features.correct.measures import measure_corrections

_ROWS = ("word error rate", "GLEU", "wrong words fixed", "right words broken")


def corrected(model: Path, texts: list[str], *options: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        wrong, right = Path(folder) / "wrong.txt", Path(folder) / "right.txt"
        wrong.write_text("".join(f"{text}\n" for text in texts))
        command = [sys.executable, "-m", "chainrule", "correct", str(model), str(wrong), *options, "-o", str(right)]
        began = time.perf_counter()
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
        seconds = time.perf_counter() - began
        words = sum(len(text.split()) for text in texts)
        print(f"  {words:,} words in {seconds:.1f} s, start included; {' '.join(done.stderr.split())}")
        return right.read_text().splitlines()


def measure_words(name: str, model: Path, pairs: list[tuple[str, str]], counts: Counter[str], index: object) -> None:
    ours = corrected(model, [wrong for wrong, _ in pairs])
    wrongs = sorted({wrong for wrong, _ in pairs})
    near = index._near.within(wrongs, [2] * len(wrongs))
    norvig = {
        wrong: norvigs_choice(wrong, counts, index, near.words[near.of(i)].tolist()) for i, wrong in enumerate(wrongs)
    }
    right = sum(one.lower() == meant.lower() for one, (_, meant) in zip(ours, pairs, strict=True)) / len(pairs)
    theirs = sum(norvig[wrong] == meant for wrong, meant in pairs) / len(pairs)
    print(f"{name}: {len(pairs):,} misspellings, right {right:.1%}, Norvig's functions {theirs:.1%}", flush=True)


def measure_texts(name: str, texts: list[str], ours: list[str], meant: list[list[str]]) -> None:
    rows = {row: (before, after) for row, before, after in measure_corrections(texts, ours, meant).rows()}
    print(
        f"{name}: " + "; ".join(f"{row} {rows[row][0]} -> {rows[row][1]}" for row in _ROWS if row in rows), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--counts", "--errors", "--text", "--jfleg"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--words", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    print(circumstances())
    counts = Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", read(args.counts).lower()))
    index = word_index(chainrule.load(args.model))
    sets = {"Birkbeck": birkbeck_pairs(args.errors)[::8]}
    pages = read_holbrook(read(args.text))
    sets["Holbrook, words"] = [pair for page in pages for pair in page.errors]
    for path in args.words:
        rows = (line.split(":") for line in path.read_text().splitlines() if ":" in line)
        sets[path.name] = [(wrong, right.strip()) for right, wrongs in rows for wrong in wrongs.split()]
    for name, pairs in sets.items():
        measure_words(name, args.model, pairs, counts, index)
    written, meant = lines_of(pages)
    measure_texts("Holbrook, running text", written, corrected(args.model, written), [meant])
    lines = {
        name: read(args.jfleg / f"dev.{name}.gz").splitlines()
        for name in ("src", "spellchecked.src", *(f"ref{i}" for i in range(4)))
    }
    learners = [line.strip() for line in lines["src"]]
    references = [[line.strip() for line in lines[f"ref{i}"]] for i in range(4)]
    measure_texts("JFLEG dev, enchant", learners, [line.strip() for line in lines["spellchecked.src"]], references)
    measure_texts("JFLEG dev", learners, corrected(args.model, learners), references)
    grammar = corrected(args.model, learners, "--grammar", "english")
    measure_texts("JFLEG dev, --grammar english", learners, grammar, references)


if __name__ == "__main__":
    main()
