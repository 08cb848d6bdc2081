"""Measures look-ups of n-grams in shards that several processes serve: look-ups a second, and the time of a batch.

    python bench/shards.py lm/ text.txt work/ --processes 2 --batch 1000

The model is cut into one shard for each process. The n-grams are those of the text, one for each token. The processes
and the client share the machine's cores.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from machine import circumstances

import chainrule
from chainrule.protocol import BEGIN, END


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a plain n-gram model")
    parser.add_argument("text")
    parser.add_argument("folder", type=Path, help="for the shards")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(circumstances())
    chainrule.convert(options.model, options.folder / "shards", shards=options.processes, overwrite=True)
    whole = chainrule.load(options.model)
    stream = whole.tokenizer.encode(np.fromfile(options.text, np.uint8)).ids
    ngrams = ngrams_of(stream, whole.language_model.order)
    servers = [serve(options.folder / "shards", shard) for shard in range(options.processes)]
    try:
        with chainrule.ShardClient([address for _, address in servers]) as client:
            batches = [ngrams[start : start + options.batch] for start in range(0, len(ngrams), options.batch)][:-1]
            actual = np.concatenate([client.score(batch) for batch in batches[:50]])
            expected = whole.language_model.score_stream(stream)[: actual.size]
            same = np.array_equal(actual, expected)
            print(f"the scores of {actual.size:,} n-grams are those of the whole model: {same}")
            times = []
            while sum(times) < options.seconds:
                batch = batches[len(times) % len(batches)]
                began = time.perf_counter()
                client.score(batch)
                times.append(time.perf_counter() - began)
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait()
    middle, late = np.percentile(np.array(times) * 1000, [50, 99])
    print(
        f"{options.processes} processes, batches of {options.batch:,}: {options.batch * len(times) / sum(times):,.0f} "
        f"look-ups a second; a batch takes {middle:.2f} ms in the middle, {late:.2f} ms at p99"
    )


def ngrams_of(stream: np.ndarray, order: int) -> np.ndarray:
    """The n-gram that ends at each token, back to the beginning of its document."""
    ngrams = np.full((stream.size, order), -1, np.int32)
    after_end = np.concatenate([[True], stream[:-1] == END])
    ngrams[:, -1] = stream
    open_rows = np.ones(stream.size, np.bool_)
    for distance in range(1, order):
        before = np.concatenate([np.full(distance, END, np.int32), stream[:-distance]])
        # whether the token `distance` - 1 before is the first of its document, so that <s> is before it
        starts = np.concatenate([np.ones(distance - 1, np.bool_), after_end[: stream.size - distance + 1]])
        ngrams[open_rows, -1 - distance] = np.where(starts, BEGIN, before)[open_rows]
        open_rows &= ~starts
    return ngrams


def serve(folder: Path, shard: int) -> tuple[subprocess.Popen[str], str]:
    """Starts a process that serves one shard; returns it with its address."""
    command = [sys.executable, "-m", "chainrule", "shard-serve", str(folder), "--shards", str(shard), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    match = re.search(r" on (\S+); Ctrl-C", process.stdout.readline())
    assert match is not None
    return process, match[1]


if __name__ == "__main__":
    main()
