"""Random requests to a running server: none may get an error of the server, or no answer.

python tests/fuzz/served_requests.py [REQUESTS] [SEED]

SCHEMATHESIS names its program in an environment of its own: then it sends half of the requests, made from the server's
OpenAPI document.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import chainrule

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODELS = ["lm", "network", "pairs"]
SECONDS = 20  # in which every request must be answered
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 7, 0.5, 1e-300, 1e308, -1e308, 2**31, 2**63, -(2**63), 10**30),
    *("", "a", "ka", "ka vi", "</s>", "<s>", "<unk>", "\u2028", "\x00", "é" * 50, "x" * 3000, "bytes:\\xff"),
    *([], [[]], [0], [1, 2], [[3], [4, 5]], ["ka", ""], ["ka", 3], [None], {}, {"3": 1}, {"3": -100}, {"x": "y"}),
    [{"role": "user", "content": "ka"}],
    {"include_usage": True},
]


def random_body(chance: random.Random, names: list[str]) -> dict[str, Any]:
    """Some fields of a route, most with a value of their own kind."""
    usual = {"prompt": "ka vi", "input": ["ka"], "max_tokens": 3, "text": "ka v", "tokens": [3, 4]}
    usual["model"] = chance.choice(MODELS)
    body = {name: usual[name] for name in names if name in usual}
    for name in chance.sample(names, min(len(names), chance.randint(0, 3))):
        body[name] = chance.choice(VALUES)
    if chance.random() < 0.1:
        body[chance.choice(["user", "store", "x\r\ny", ""])] = chance.choice(VALUES)
    return body


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """Bytes with a few changes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(3)
        if kind == 0:
            changed[place:place] = chance.choice(
                [b"\x00", b"\xff", b"[" * 50, b"NaN", b"1e999", b"\\ud800", b'"', b"\r\n"]
            )
        elif kind == 1:
            del changed[place : place + chance.randint(1, 8)]
        elif place < len(changed):
            changed[place] = chance.randrange(256)
    return bytes(changed)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    chance = random.Random(seed)
    schemathesis = os.environ.get("SCHEMATHESIS")
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "chainrule", "serve", *save_models(Path(folder)), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        try:
            attack(chance, port, count // 2 if schemathesis else count)
            if schemathesis:
                attack_by_schema(schemathesis, port, count - count // 2, seed, folder)
            assert server.poll() is None, "the server has ended"
        finally:
            server.terminate()
            server.wait(30)


def save_models(folder: Path) -> list[str]:
    """An n-gram model, a network that also gives vectors, and a seq2seq model; what has to be served."""
    text, one_step = FIXTURES / "train.txt", chainrule.TrainingConfig(steps=1, compile="no")
    network = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=32)
    pairs = chainrule.Pairs(["ka vi", "sa"] * 10, ["vi ka", "man"] * 10)
    models = {
        "lm": chainrule.train(text, chainrule.NGramConfig(order=3)),
        "network": chainrule.train(text, network, training=one_step),
        "pairs": chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16), training=one_step),
    }
    for name in MODELS:
        models[name].save(folder / name)
    return [str(folder / name) for name in MODELS]


def attack_by_schema(schemathesis: str, port: int, count: int, seed: int, folder: str) -> None:
    """Requests that fit the OpenAPI document and ones that do not quite: none may get an error of the server."""
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/openapi.json") as answer:
        operations = sum(map(len, json.load(answer)["paths"].values()))
    command = [schemathesis, "run", f"{url}/openapi.json", "--checks", "not_a_server_error"]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(max(1, count // operations))]
    command += ["--request-timeout", str(SECONDS), "--seed", str(seed), "--suppress-health-check", "all"]
    command += ["--generation-database", "none", "--warnings", "off", "--no-color"]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    summary = next(line for line in done.stdout.splitlines() if "generated" in line)
    print(f"schemathesis: {summary.strip()} in {time.perf_counter() - began:.0f} s")


def attack(chance: random.Random, port: int, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/openapi.json")
    paths = json.loads(connection.getresponse().read())["paths"]
    fields = {
        path: sorted(methods["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"])
        for path, methods in paths.items()
        if "post" in methods
    }
    statuses: dict[int, int] = {}
    began = time.perf_counter()
    for number in range(count):
        path = chance.choice(list(fields))
        data = json.dumps(random_body(chance, fields[path])).encode()
        if chance.random() < 0.3:
            data = spoilt(chance, data)
        if chance.random() < 0.05:
            send_bytes(port, spoilt(chance, b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" + data))
            continue
        try:
            connection.request("POST", path, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except Exception as error:
            raise AssertionError(f"request {number}, {path}, {data!r}: no answer: {error!r}") from error
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if answer.status >= 500 or b'"server_error"' in text:
            raise AssertionError(f"request {number}, {path}, {data!r}: {answer.status} {text[:300]!r}")
        if not text.startswith(b"data: "):
            json.loads(text, parse_constant=refuse)
    print(f"{count:,} requests in {time.perf_counter() - began:.0f} s, by status: {statuses}")


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def send_bytes(port: int, data: bytes) -> None:
    """Bytes that need not be HTTP; any answer will do, and none."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass


if __name__ == "__main__":
    main()
