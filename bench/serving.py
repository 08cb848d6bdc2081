"""Speed and steadiness of `chainrule serve`, on the loopback address; the server is a process of its own.

python bench/serving.py MODEL TEXT [--what latency throughput scoring load sockets disconnects broken-off] [--workers 2]
python bench/serving.py MODEL TEXT --what plain --clients 32 --tokens 64   # by ab (apt-get install apache2-utils)
python bench/serving.py MODEL TEXT --url http://127.0.0.1:9000   # another server with OpenAI's interface
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from machine import circumstances

import chainrule

RUNS = 3
SCORING_CLIENTS = 4


class Client:
    """One connection that stays open; plain HTTP/1.1, so that the client costs little."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.reader: asyncio.StreamReader | None = None

    async def post(self, path: str, body: dict[str, Any]) -> tuple[bytes, list[float]]:
        """The body of the answer, and when its parts arrived."""
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 26)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        header = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert header.startswith(b"http/1.1 200"), header
        if b"content-length: " in header:
            size = int(header.split(b"content-length: ")[1].split(b"\r\n")[0])
            return await self.reader.readexactly(size), [time.perf_counter()]
        parts, times = [], []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size + 2))
            times.append(time.perf_counter())
        await self.reader.readexactly(2)
        return b"".join(parts), times


def row(name: str, value: str) -> None:
    print(f"{name:56} {value}", flush=True)


async def latency(url: str, model: str, prompts: list[str]) -> None:
    client, seconds = Client(url), []
    for i in range(1200):
        began = time.perf_counter()
        await client.post("/v1/completions", {"model": model, "prompt": prompts[i % 100], "max_tokens": 1, "seed": i})
        seconds.append(time.perf_counter() - began)
    p50, p99 = np.percentile(1000 * np.array(seconds[200:]), [50, 99])
    row("one token, one client: p50, p99", f"{p50:.2f} {p99:.2f} ms")


async def throughput(
    url: str, model: str, prompts: list[str], clients: int, tokens: int, seconds: float, rounds: int, **settings: Any
) -> float:
    """Tokens a second of all clients together, each asking again and again: so often, or, with 0 rounds, so long."""
    stop_at = time.perf_counter() + seconds
    connections = [Client(url) for _ in range(clients)]

    async def ask(client: Client, number: int) -> tuple[int, list[float]]:
        done, first = 0, []
        while len(first) < rounds if rounds else time.perf_counter() < stop_at:
            number += clients
            body = {"model": model, "prompt": prompts[number % 100], "max_tokens": tokens}
            began = time.perf_counter()
            answer, times = await client.post("/v1/completions", {**body, "seed": number, **settings})
            done += tokens if settings.get("stream") else json.loads(answer)["usage"]["completion_tokens"]
            first.append(times[0] - began)
        return done, first

    began = time.perf_counter()
    results = await asyncio.gather(*(ask(client, i) for i, client in enumerate(connections)))
    return sum(done for done, _ in results) / (time.perf_counter() - began)


async def scoring(url: str, model: str, sentences: list[str], batch: int, logprobs: int, clients: int) -> float:
    """Sentences a second; clients take turns with the batches."""
    batches = iter(range(0, len(sentences), batch))

    async def ask(client: Client) -> None:
        for low in batches:
            body = {"model": model, "prompt": sentences[low : low + batch], "echo": True, "logprobs": logprobs}
            await client.post("/v1/completions", {**body, "max_tokens": 0})

    began = time.perf_counter()
    await asyncio.gather(*(ask(Client(url)) for _ in range(clients)))
    return len(sentences) / (time.perf_counter() - began)


async def mixed_load(url: str, model: str, prompts: list[str], seconds: float, process: int | None) -> None:
    """Requests of all kinds for some time: memory, and times of the honest one-token client beside them."""
    stop_at, chance = time.perf_counter() + seconds, random.Random(1)

    async def ask(number: int) -> int:
        client, done = Client(url), 0
        while time.perf_counter() < stop_at:
            body: dict[str, Any] = {
                "model": model,
                "prompt": chance.choice(prompts),
                "max_tokens": chance.randint(1, 64),
            }
            body |= {"stream": chance.random() < 0.5, "temperature": chance.choice([0, 0.7, 1])}
            body |= {"logprobs": chance.choice([None, 3]), "echo": chance.random() < 0.3, "n": chance.choice([1, 1, 4])}
            await client.post("/v1/completions", body)
            done += 1
        return done

    sizes = []

    async def watch() -> int:
        while time.perf_counter() < stop_at and process:
            sizes.append(own_memory(process))
            await asyncio.sleep(max(1, seconds / 50))
        return 0

    counts = await asyncio.gather(*(ask(i) for i in range(16)), watch())
    row(f"mixed load of {seconds:g} s, 16 clients", f"{sum(counts) / seconds:.0f} requests a second")
    if sizes:
        row(
            "own memory: at the start, after a quarter, at the end",
            f"{sizes[0]} {sizes[len(sizes) // 4]} {sizes[-1]} MB",
        )


def plain(url: str, model: str, prompt: str, clients: int, tokens: int, temperature: float) -> None:
    """Prints what ab gets, all of whose clients send the same request: all at once, then one alone for one token."""
    if shutil.which("ab") is None:
        sys.exit("there is no ab to ask with: apt-get install apache2-utils")
    for together, length, requests in ((clients, tokens, 20 * clients), (1, 1, 300)):
        body = {"model": model, "prompt": prompt, "max_tokens": length, "min_tokens": length}
        with NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps({**body, "temperature": temperature}))
            file.flush()
            command = ["ab", "-q", "-k", "-l", "-c", str(together), "-n", str(requests), "-p", file.name]
            command += ["-T", "application/json", f"{url.rstrip('/')}/v1/completions"]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if "Non-2xx responses" in said or not re.search(r"Failed requests: +0\n", said):
            sys.exit(f"requests failed:\n{said}")
        [rate], [middle] = re.findall(r"Requests per second: +([\d.]+)", said), re.findall(r" 50% +(\d+)", said)
        what = f"ab, {together} clients x {length} tokens, temperature {temperature}"
        row(what, f"{float(rate) * length:,.0f} tokens a second; half of the answers within {middle} ms")


def own_memory(process: int) -> int:
    """MB of a process and its children; pages of mapped files are not counted."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    [line] = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("RssAnon")]
    return (int(line.split()[1]) >> 10) + sum(own_memory(int(child)) for child in children)


async def sockets(url: str, model: str, prompts: list[str]) -> None:
    """An honest client's times beside 500 that send a byte a second."""
    await latency(url, model, prompts)
    parts = urlsplit(url)

    async def dawdle() -> None:
        try:
            while True:
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
                for byte in b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n":
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
        except ConnectionError:
            pass

    slow = [asyncio.ensure_future(dawdle()) for _ in range(500)]
    await asyncio.sleep(2)
    print("beside 500 slow senders:")
    await latency(url, model, prompts)
    for task in slow:
        task.cancel()


async def disconnects(url: str, model: str, prompts: list[str]) -> None:
    parts = urlsplit(url)
    body = json.dumps({"model": model, "prompt": prompts[0], "max_tokens": 2000, "min_tokens": 2000, "stream": True})
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for _ in range(1000):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        await reader.readuntil(b"data: ")
        writer.close()
    began = time.perf_counter()
    while True:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        [line] = [line for line in text.splitlines() if line.startswith("chainrule_rows_in_use")]
        if line.endswith(" 0"):
            break
        await asyncio.sleep(0.01)
    row("1,000 disconnects: rows are free after", f"{1000 * (time.perf_counter() - began):.0f} ms")


async def broken_off(url: str, model: str, words: list[str], streams: int, seconds: float, process: int | None) -> None:
    """The next request after many clients have asked a busy model for streams, and broken them off at the same time.

    seconds: after which they do. Each has a prompt of 100 words of its own; the first one,
    which has begun, one of 20,000.
    """
    parts = urlsplit(url)
    await Client(url).post("/v1/completions", {"model": model, "prompt": words[0], "max_tokens": 1})  # opens the model

    async def begin(number: int) -> asyncio.StreamWriter:
        first = 50 * number % max(len(words) - 100, 1)
        prompt = words[first : first + 100] if number else (words * (1 + 20_000 // len(words)))[:20_000]
        body = {"prompt": " ".join(prompt), "max_tokens": 500, "min_tokens": 500, "stream": True}
        data = json.dumps({"model": model, **body}).encode()
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return writer

    writers = [await begin(0)]
    await asyncio.sleep(1)
    writers += await asyncio.gather(*(begin(number) for number in range(1, streams)))
    await asyncio.sleep(seconds)
    for writer in writers:
        writer.transport.abort()
    began = time.perf_counter()
    await Client(url).post("/v1/completions", {"model": model, "prompt": words[0], "max_tokens": 1})
    waited = time.perf_counter() - began
    row(f"{streams:,} streams broken off after {seconds:g} s: the next request", f"{waited:.2f} s")
    if process:
        row("own memory then, and the most so far", f"{own_memory(process)} {most_memory(process)} MB")


def most_memory(process: int) -> int:
    """MB that a process and its children had at most, pages of mapped files included."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    [line] = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return (int(line.split()[1]) >> 10) + sum(most_memory(int(child)) for child in children)


def offline(path: Path, prompts: list[str], clients: int, tokens: int, temperature: float, rounds: int) -> float:
    """Tokens a second of our own batch, without a server."""
    model = chainrule.load(path)
    limits = chainrule.Limits(max_tokens=tokens, min_tokens=tokens)
    config = chainrule.SamplingConfig(temperature=temperature)
    model.decoder.sample_each(prompts[:clients], 1, config, limits, seed=0)
    began = time.perf_counter()
    for seed in range(rounds):
        own = [prompts[(seed * clients + i) % len(prompts)] for i in range(clients)]
        model.decoder.sample_each(own, 1, config, limits, seed=seed)
    return rounds * clients * tokens / (time.perf_counter() - began)


def scored(model: chainrule.CausalModel, sentences: list[str]) -> float:
    """Sentences a second, without a server."""
    began = time.perf_counter()
    for low in range(0, len(sentences), 64):
        model.score(sentences[low : low + 64])
    return len(sentences) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--what", nargs="*", default=["latency", "throughput", "scoring"])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--sentences", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=0, help="requests of each client, in place of --seconds")
    parser.add_argument("--streams", type=int, nargs="*", default=[200, 1000], help="that are broken off at once")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--url")
    parser.add_argument("--name")
    parser.add_argument("--no-offline", action="store_true")
    options = parser.parse_args()
    lines = [line.strip() for line in options.text.read_text().splitlines() if line.strip()]
    prompts = [" ".join(line.split()[:4]) for line in lines[:100]]
    print(circumstances(), flush=True)
    url, server, name = options.url, None, options.name or options.model.resolve().name
    if url is None:
        command = [sys.executable, "-m", "chainrule", "serve", f"{name}={options.model}", "--port", "0"]
        command += ["--workers", str(options.workers)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        url = next(word for word in server.stdout.readline().split() if word.startswith("http")).removesuffix(";")
        url = url.removesuffix("/v1;").removesuffix("/v1")
    try:
        if "latency" in options.what:
            asyncio.run(latency(url, name, prompts))
        if "throughput" in options.what:
            how: dict[str, Any] = {"temperature": options.temperature}
            if server is not None:  # others refuse it; their streams count as if no text ended early
                how["min_tokens"] = options.tokens
            for settings in (how, {**how, "stream": True}):
                speeds = [
                    asyncio.run(
                        throughput(
                            url,
                            name,
                            prompts,
                            options.clients,
                            options.tokens,
                            options.seconds,
                            options.rounds,
                            **settings,
                        )
                    )
                    for _ in range(RUNS)
                ]
                what = f"{options.clients} clients x {options.tokens} tokens, {settings}"
                row(what, f"{median(speeds):,.0f} tokens a second")
            if not options.no_offline:
                given = options.clients, options.tokens, options.temperature, options.rounds or 2
                speed = offline(options.model, prompts, *given)
                row("the same, our own batch without a server", f"{speed:,.0f} tokens a second")
        if "plain" in options.what:
            plain(url, name, prompts[0], options.clients, options.tokens, options.temperature)
        if "scoring" in options.what:
            some = lines[: options.sentences]
            for logprobs in (0, 1):
                speed = median(
                    asyncio.run(scoring(url, name, some, 64, logprobs, SCORING_CLIENTS)) for _ in range(RUNS)
                )
                what = f"echo of {len(some):,} sentences in 64s, {SCORING_CLIENTS} clients, logprobs {logprobs}"
                row(what, f"{speed:,.0f} a second")
            if not options.no_offline:
                model = chainrule.load(options.model)
                row("the same by Model.score", f"{median(scored(model, some) for _ in range(RUNS)):,.0f} a second")
        if "load" in options.what:
            process = None if server is None else server.pid
            asyncio.run(mixed_load(url, name, prompts, options.seconds, process))
        if "sockets" in options.what:
            asyncio.run(sockets(url, name, prompts))
        if "disconnects" in options.what:
            asyncio.run(disconnects(url, name, prompts))
        if "broken-off" in options.what:
            process = None if server is None else server.pid
            for streams in options.streams:
                for wait in (0, 0.3, 5):
                    asyncio.run(broken_off(url, name, " ".join(lines).split(), streams, wait, process))
    finally:
        if server is not None:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
