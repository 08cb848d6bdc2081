"""The CTC decoder beside pyctcdecode with KenLM: noisy copies of one matrix, in turns; texts, scores, processor time.

    PYTHONPATH=folder-of-kenlm python bench/ctc.py logits.json.gz trigram.arpa [--copies 500] [--network lm/]

logits: JSON of a matrix of logits, frames and labels: space, a to z, the apostrophe, blank. --network: the folder of
another language model, whose time is also told.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import circumstances

from chainrule import ctc as ours

LABELS = [" ", *"abcdefghijklmnopqrstuvwxyz", "'"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logits")
    parser.add_argument("model")
    parser.add_argument("--network")
    parser.add_argument("--copies", type=int, default=500)
    parser.add_argument("--noise", type=float, default=3.0)
    parser.add_argument("--beam", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    import pyctcdecode as theirs

    packed = Path(options.logits).read_bytes()
    text = gzip.decompress(packed) if options.logits.endswith(".gz") else packed
    logits = np.array(json.loads(text), np.float64)
    decoders: dict[str, Any] = {
        "pyctcdecode with kenlm": theirs.build_ctcdecoder(LABELS, options.model),
        "chainrule": ours.build_ctcdecoder(LABELS, options.model),
    }
    if options.network:
        decoders[f"chainrule, {options.network}"] = ours.build_ctcdecoder(LABELS, options.network)
    for decoder in decoders.values():
        decoder.decode(logits)
    random = np.random.default_rng(options.seed)
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    same = better = 0
    worst = 0.0
    for _ in range(options.copies):
        noisy = logits + options.noise * random.normal(size=logits.shape)
        best = {}
        for name, decoder in decoders.items():
            before = time.process_time()
            best[name] = decoder.decode_beams(noisy, beam_width=options.beam, prune_history=True)[0]
            seconds[name].append(time.process_time() - before)
        their, own = best["pyctcdecode with kenlm"], best["chainrule"]
        same += their[0] == own.text
        better += their[0] != own.text and own.lm_score > their[-1]
        worst = max(worst, abs(their[-1] - own.lm_score)) if their[0] == own.text else worst
    print(circumstances())
    print(f"{options.copies} copies, {len(logits)} frames, noise {options.noise:g}, beam {options.beam}")
    theirs_total = sum(seconds["pyctcdecode with kenlm"])
    for name, own_times in seconds.items():
        mean, middle = 1e3 * statistics.fmean(own_times), 1e3 * statistics.median(own_times)
        times = f"mean {mean:.1f} ms of the processor, median {middle:.1f} ms"
        print(f"{name}: {times}, {theirs_total / sum(own_times):.2f} times as fast")
    print(f"texts: {same} the same, {better} others with a better score; of the same, scores differ by {worst:.1g}")


if __name__ == "__main__":
    main()
