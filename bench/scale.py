"""Measures n-gram models of texts larger than memory: the same bytes, the time, and the peak of the memory.

    python bench/multiplied.py novels.txt large.txt --tokens 76900000
    python bench/scale.py large.txt work/ --memory 1G

Each training is a process of its own. The text is read once beforehand, so that it is in the system's cache for both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import circumstances


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tokenised, a sentence a line")
    parser.add_argument("folder", type=Path, help="for models and temporary files; on the disk to be measured")
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--only-limited", action="store_true", help="leave out the training without a limit")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(circumstances())
    tokens = Path(options.text).read_bytes().count(b" ")
    print(f"{options.text}: about {tokens:,} tokens")
    limits = [options.memory] if options.only_limited else [None, options.memory]
    rows = [train(options, memory) for memory in limits]
    for row in rows:
        print(
            f"{row['limit']:>12}: {row['seconds']:6.1f} s, peak {row['peak_memory_bytes'] / 1e9:.2f} GB, "
            f"{row['bytes'] / 1e9:.2f} GB, {sum(row['ngrams']):,} n-grams, {row['arrays']}"
        )
    if len(rows) == 2:
        same = rows[0]["arrays"] == rows[1]["arrays"]
        print(f"the same bytes: {same}; {rows[1]['seconds'] / rows[0]['seconds']:.2f} times the time")


def train(options: argparse.Namespace, memory: str | None) -> dict[str, Any]:
    """Trains a model in a process of its own, and measures it."""
    model = options.folder / "lm"
    shutil.rmtree(model, ignore_errors=True)
    command = [sys.executable, "-m", "chainrule", "train", "ngram", options.text, "-o", str(model), "--json"]
    command += ["--tokenizer", "whitespace", "--order", str(options.order)]
    command += [] if memory is None else ["--memory", memory]
    began = time.perf_counter()
    printed = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, env={**os.environ, "TMPDIR": str(options.folder)}
    ).stdout
    return {
        **json.loads(printed),
        "seconds": time.perf_counter() - began,
        "limit": memory or "no limit",
        "arrays": next(path.name for path in model.glob("arrays-*")),
    }


if __name__ == "__main__":
    main()
