"""A GGUF file computed with as it is stored, here and in llama.cpp: one stream, a prompt, and many streams, by turns.

    python bench/quantised.py FILE.gguf TEXT [--rounds N] [--tokens N] [--prompt N] [--threads N] [--streams N]
        [--context N] [--perplexity N] [--avx2] [--without-exact] [--llama-bench PATH]

--llama-bench: the peer is this program of llama.cpp, built for the processor that is here, in place of xllamacpp, whose
wheel is built for old ones. Its processor time is not measured. Many streams are those of llama-batched-bench, which
must be beside it. The source of both is in the sdist of llama-cpp-python, vendor/llama.cpp:
cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release
cmake --build build --target llama-bench llama-batched-bench
Where that ends in an illegal instruction (AMX in some virtual machines): -DGGML_NATIVE=OFF -DGGML_AVX512=ON
-DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON, with GGML_AVX, AVX2, FMA, F16C and BMI2.

Many streams: as many requests to llama.cpp's server at once, from the same prompt; here as many texts of one batch.
--context: one stream whose prompt has so many tokens, after the prompt, with keys and values in 32 bits and in 8, in
place of all else.
--perplexity: of the first N rows of 512 tokens of TEXT, each read by itself, the same tokens on both sides, in place of
times. llama.cpp's server gives the log-probability of a token that a bias of its logit forces, one token at a time.
--avx2: our side without AVX-512, compiled as for a processor of 2013; llama.cpp as it is. --without-exact: no float32.
bench/random_gguf.py writes files of other shapes.

Without --llama-bench, llama.cpp runs in this process by xllamacpp, which chainrule does not need: pip install
xllamacpp. Both take the same number of threads. The best of all rounds is what a machine that others use comes nearest
to what it gives alone; the median is what others leave; processor time, of all threads, is what others change least.
Memory: what a process takes that opens the file and writes some tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances

import chainrule
from chainrule.decoding.config import GREEDY
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 16  # tokens of the prompt of a stream; 1 beside llama-bench, which has none
_ROW = 512  # tokens of a row whose perplexity is measured
_OLD = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+f16c,+sse4.1,+sse4.2,+ssse3,+bmi,+bmi2,+popcnt",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
_MEMORY = """
import sys
import torch, chainrule
import chainrule.models.language_models, chainrule.decoding.text_generator, chainrule.neural.language_model
import chainrule.neural.packed.reading, chainrule.features.open.importing
def peak():  # of this program alone; what getrusage tells begins with that of the process that started it
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1e3
before = peak()
model = chainrule.load(sys.argv[1], exact=len(sys.argv) > 2)
model.generate("The", 1, limits=chainrule.Limits(max_tokens=16), seed=0)
print(peak() - before)
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
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--perplexity", type=int, default=0)
    parser.add_argument("--avx2", action="store_true")
    parser.add_argument("--without-exact", action="store_true")
    parser.add_argument("--llama-bench", type=Path)
    options = parser.parse_args()
    if options.avx2 and "NUMBA_CPU_NAME" not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_OLD})
    torch.set_num_threads(options.threads)
    print(circumstances(), flush=True)
    if options.avx2:
        print("our side: compiled for haswell, without AVX-512")
    if options.perplexity:
        compare_perplexity(options.file, options.text, options.perplexity, options.threads)
        return
    if options.context:
        compare_context(options.file, options.text, options.context, options.tokens, options.rounds, options.threads)
        return
    forms = {"as stored": [], "exact": ["exact"]}
    if options.without_exact:
        del forms["exact"]
    for name, more in forms.items():
        found = subprocess.check_output([sys.executable, "-c", _MEMORY, str(options.file), *more], text=True)
        print(f"memory beside torch and our code, {name}: {float(found):,.0f} MB")
    models = {name: chainrule.load(options.file, exact=name == "exact") for name in forms}
    stored = models["as stored"]
    text = options.text.read_text(encoding="utf-8")[: 20 * options.prompt]
    streams = options.streams
    sides: dict[str, Callable[[str, int, int], tuple[int, float]]] = {
        f"ours, {name}": lambda *case, own=model: ours(own, *case)  # type: ignore[misc]
        for name, model in models.items()
    }
    if options.llama_bench:
        sides["llama.cpp"] = lambda *case: by_llama_bench(options.llama_bench, stored, options, *case)
    else:
        server = llama(options.file, options.threads, 4 * options.prompt * max(streams, 1), max(streams, 1))
        sides["llama.cpp"] = lambda *case: theirs(server, *case)
    first = _cut(stored, text, 1 if options.llama_bench else _FIRST)
    cases = {
        f"one stream of {options.tokens} tokens": (first, options.tokens, 1),
        f"a prompt of {options.prompt} tokens": (_cut(stored, text, options.prompt), 1, 1),
        f"{streams} streams of {options.tokens} tokens": (first, options.tokens, streams),
    }
    for title, case in cases.items():
        if case[2]:
            compare(title, case, sides, options.rounds)


def compare(
    title: str,
    case: tuple[str, int, int],
    sides: dict[str, Callable[[str, int, int], tuple[int, float]]],
    rounds: int,
) -> None:
    """Times all sides by turns, and prints what they give. case: a prompt, tokens to write, streams."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    busy: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
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


def by_llama_bench(program: Path, model: chainrule.Model, options: argparse.Namespace, *case: Any) -> tuple[int, float]:
    """As `ours`, by llama-bench, which reads and writes any tokens, and by llama-batched-bench for several streams."""
    prompt, tokens, streams = case
    if streams > 1:
        written = tokens * streams
        sizes = ["-c", 2 * written, "-npp", 1, "-ntg", tokens, "-npl", streams, "-t", options.threads, "-ngl", 0]
        command = [program.with_name("llama-batched-bench"), "-m", options.file, *sizes, "--output-format", "jsonl"]
        return written, _answer(_output(command).strip().splitlines()[-1])["t_tg"]
    read = len(model.tokenizer.encode_texts([prompt]).ids) - 1 if tokens == 1 else 0
    written = tokens if tokens > 1 else 0
    sizes = ["-t", options.threads, "-p", read, "-n", written, "-r", 1, "-ngl", 0, "-o", "json"]
    [run] = json.loads(_output([program, "-m", options.file, *sizes]))
    return read + written, (read + written) / run["avg_ts"]


def _output(command: list[Any]) -> str:
    """What a program of llama.cpp prints."""
    try:
        return subprocess.check_output([str(part) for part in command], stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        sys.exit(f"there is no {command[0]}; build it as this script's first lines say")
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"{command[0]} ends with {error.returncode}; -4 is an illegal instruction: see this script's first lines"
        )


def compare_context(file: Path, text: Path, context: int, tokens: int, rounds: int, threads: int) -> None:
    """Times a stream after a long prompt, with keys and values in 32 bits and in 8."""
    wide, narrow = chainrule.load(file), chainrule.load(file, cache_bits=8)
    server = llama(file, threads, context + 2 * tokens, 1)
    sides: dict[str, Callable[[str, int, int], tuple[int, float]]] = {
        "ours, 32 bits": lambda *case: after_context(wide, *case),
        "ours, 8 bits": lambda *case: after_context(narrow, *case),
        "llama.cpp": lambda *case: theirs(server, *case, is_whole=False),
    }
    prompt = _cut(wide, text.read_text(encoding="utf-8")[: 20 * context], context)
    title = f"one stream of {tokens} tokens after {context}, whose reading counts in processor time only"
    compare(title, (prompt, tokens, 1), sides, rounds)


def after_context(model: chainrule.Model, prompt: str, tokens: int, streams: int) -> tuple[int, float]:
    """The tokens that are written, and the seconds that this takes after the prompt."""
    network: Any = model.language_model
    state = network.start([model.tokenizer.encode_texts([prompt]).ids[:-1]] * streams)
    began = time.perf_counter()
    for _ in range(tokens):
        state = network.advance(state, network.next_log_probs(state).argmax(1).astype(np.int32))
    return tokens * streams, time.perf_counter() - began


def llama(file: Path, threads: int, context: int, streams: int) -> Any:
    """A server of llama.cpp's in this process. context: tokens of all streams together."""
    import xllamacpp

    params: Any = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx, params.n_parallel, params.verbosity = context, streams, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params)


def theirs(server: Any, prompt: str, tokens: int, streams: int, *, is_whole: bool = True) -> tuple[int, float]:
    """As `ours`; as `after_context` unless is_whole."""
    settings = {"temperature": 0, "ignore_eos": True, "cache_prompt": False, "max_tokens": tokens}
    requests = [{"prompt": prompt, "n_predict": tokens, **settings}] * streams
    began = time.perf_counter()
    with ThreadPoolExecutor(streams) as clients:
        answers = [_answer(answer) for answer in clients.map(server.handle_completions, requests)]
    seconds = time.perf_counter() - began
    timings = [answer["timings"] for answer in answers]
    written = sum(timing["predicted_n"] for timing in timings)
    assert tokens == 1 or written == tokens * streams, f"llama.cpp wrote {written} tokens"
    if not is_whole:
        return written, max(timing["predicted_ms"] for timing in timings) / 1e3
    return (written if tokens > 1 else timings[0]["prompt_n"]), seconds


def compare_perplexity(file: Path, text: Path, rows: int, threads: int) -> None:
    """Prints the perplexity of the same rows of tokens on all sides."""
    model: Any = chainrule.load(file)
    ids = model.tokenizer.encode_texts([text.read_text(encoding="utf-8")[: 10 * rows * _ROW]]).ids[:-1]
    parts = [ids[begin : begin + _ROW] for begin in range(0, rows * _ROW, _ROW)]
    numbering = TokenIdMap(**model.record["hugging_face"]["tokens"])
    names = numbering.theirs()
    first = numbering.begin if model.language_model.network.config.begins_with == "<s>" else numbering.end
    server, log_probs = llama(file, threads, 2 * _ROW, 1), []
    for part in parts:
        row = [first, *names[part].tolist()]
        for at in range(1, len(row)):
            request = {"prompt": row[:at], "n_predict": 1, "max_tokens": 1, "temperature": 0, "cache_prompt": True}
            bias = [[row[at], 1000.0]]
            answer = _answer(server.handle_completions({**request, "logprobs": 1, "logit_bias": bias}))
            [token] = answer["choices"][0]["logprobs"]["content"]
            assert token["id"] == row[at], f"llama.cpp wrote {token}"
            log_probs.append(token["logprob"])
    by_llama = math.exp(-statistics.fmean(log_probs))
    print(f"\nperplexity of {len(log_probs):,} tokens, rows of {_ROW}; of llama.cpp's")
    print(f"  llama.cpp                     {by_llama:.4f}")
    for name, settings in (
        ("as stored", {}),
        ("as stored, 8-bit cache", {"cache_bits": 8}),
        ("exact", {"exact": True}),
    ):
        own: Any = chainrule.load(file, **settings)
        scores = np.concatenate(own.language_model.score(parts, end=False)).astype(np.float64)
        figure = math.exp(-scores.mean())
        apart = np.abs(scores - log_probs).mean()
        print(
            f"  ours, {name:<23} {figure:.4f}   {100 * (figure / by_llama - 1):+.2f} %; {apart:.4f} nats a token apart",
            flush=True,
        )


def _answer(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else json.loads(answer)


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
