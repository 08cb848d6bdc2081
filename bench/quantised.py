"""A GGUF file computed with as it is stored, here and in llama.cpp: one stream, a prompt, and many streams, by turns.

    python bench/quantised.py FILE.gguf TEXT [--rounds N] [--tokens N] [--prompt N] [--threads N] [--streams N]

Many streams: as many requests to llama.cpp's server at once, from the same prompt; here as many texts of one batch.

llama.cpp runs in this process by xllamacpp, which chainrule does not need: pip install xllamacpp. Both take the same
number of threads. The best of all rounds is what a machine that others use comes nearest to what it gives alone; the
median is what others leave; processor time, of all threads, is what others change least. Memory: what a process takes
that opens the file and writes some tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from machine import circumstances

import chainrule
from chainrule.decoding.config import GREEDY
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 16  # tokens of the prompt of a stream
_MEMORY = """
import resource, sys
import torch, chainrule
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = chainrule.load(sys.argv[1], exact=len(sys.argv) > 2)
model.generate("The", 1, limits=chainrule.Limits(max_tokens=16), seed=0)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--streams", type=int, default=16, help="how many texts are written at once; 0 for no such case"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(circumstances(), flush=True)
    for name, more in (("as stored", []), ("exact", ["exact"])):
        found = subprocess.check_output([sys.executable, "-c", _MEMORY, str(options.file), *more], text=True)
        print(f"memory beside torch and our code, {name}: {float(found):,.0f} MB")
    stored, exact = chainrule.load(options.file), chainrule.load(options.file, exact=True)
    text = options.text.read_text(encoding="utf-8")[: 20 * options.prompt]
    theirs = llama(options.file, options.threads, options.prompt, max(options.streams, 1))
    sides: dict[str, Callable[[str, int, int], tuple[int, float]]] = {
        "ours, as stored": lambda prompt, tokens, streams: ours(stored, prompt, tokens, streams),
        "ours, exact": lambda prompt, tokens, streams: ours(exact, prompt, tokens, streams),
        "llama.cpp": theirs,
    }
    first = _cut(stored, text, _FIRST)
    cases = {
        f"one stream of {options.tokens} tokens": (first, options.tokens, 1),
        f"a prompt of {options.prompt} tokens": (_cut(stored, text, options.prompt), 1, 1),
        f"{options.streams} streams of {options.tokens} tokens": (first, options.tokens, options.streams),
    }
    for title, case in cases.items():
        if not case[2]:
            continue
        rates: dict[str, list[float]] = {name: [] for name in sides}
        busy: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(options.rounds + 1):
            for name, write in sides.items():
                before = time.process_time()
                count, seconds = write(*case)
                rates[name].append(count / seconds)
                busy[name].append((time.process_time() - before) / count)
        print(f"\n{title}, tokens a second: best, median; of llama.cpp; milliseconds of processor time a token, median")
        for name, own in rates.items():
            pairs = zip((max, statistics.median), (own[1:], own[1:]), strict=True)  # the first round warms up
            figures = [pick(part) for pick, part in pairs]
            peer = [max(rates["llama.cpp"][1:]), statistics.median(rates["llama.cpp"][1:])]
            ratios = [figure / other for figure, other in zip(figures, peer, strict=True)]
            spent = 1e3 * statistics.median(busy[name][1:])
            print(
                f"  {name:<16} {figures[0]:8.1f} {figures[1]:8.1f}   {ratios[0]:.2f} {ratios[1]:.2f}   {spent:.2f}",
                flush=True,
            )


def ours(model: chainrule.Model, prompt: str, tokens: int, streams: int) -> tuple[int, float]:
    """The number of tokens that are counted, and the seconds: those that are written, or those of the prompt."""
    ids = model.tokenizer.encode_texts([prompt]).ids[:-1]
    constraints = Constraints(min_tokens=tokens, max_tokens=tokens, banned=[0])
    began = time.perf_counter()
    list(sample(model.language_model, [ids], GREEDY, constraints, seed=0, texts_per_prefix=streams))
    return (tokens * streams if tokens > 1 else len(ids)), time.perf_counter() - began


def llama(file: Path, threads: int, prompt_tokens: int, most: int) -> Callable[[str, int, int], tuple[int, float]]:
    """most: streams at once."""
    import xllamacpp

    params: Any = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx, params.n_parallel, params.verbosity = 4 * prompt_tokens * most, most, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server: Any = xllamacpp.Server(params)

    def write(prompt: str, tokens: int, streams: int) -> tuple[int, float]:
        settings = {"temperature": 0, "ignore_eos": True, "cache_prompt": False, "max_tokens": tokens}
        requests = [{"prompt": prompt, "n_predict": tokens, **settings}] * streams
        began = time.perf_counter()
        with ThreadPoolExecutor(streams) as clients:
            answers = list(clients.map(server.handle_completions, requests))
        seconds = time.perf_counter() - began
        timings = [(answer if isinstance(answer, dict) else json.loads(answer))["timings"] for answer in answers]
        written = sum(timing["predicted_n"] for timing in timings)
        assert tokens == 1 or written == tokens * streams, f"llama.cpp wrote {written} tokens"
        return (written if tokens > 1 else timings[0]["prompt_n"]), seconds

    return write


def _cut(model: chainrule.Model, text: str, tokens: int) -> str:
    """The beginning of a text with about that many tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(model.tokenizer.encode_texts([text[:middle]]).ids) - 1 <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


if __name__ == "__main__":
    main()
