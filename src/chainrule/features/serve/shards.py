"""Looks up n-grams in some shards of a model over TCP: server and client.

The server, `chainrule shard-serve`, begins with a line of JSON that says which shards it has, and of which model. A
request is its own number and the number of rows, four bytes each, then the rows, int32, order words each (see
`look_up_rows`). The answer repeats the eight bytes, and has as many pairs of float32; or it has ERROR in place of the
number of rows, then the length of a message in four bytes, and the message. All little-endian.
"""

from __future__ import annotations

import hashlib
import json
import socket
import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from chainrule.base.options import takes
from chainrule.errors import ModelFormatError, ServiceError, SettingError, prefix_errors
from chainrule.features.serve.config import ShardOptions
from chainrule.ngram.config import SHARDS
from chainrule.ngram.saving import file_of, index_of, table_of_shard
from chainrule.ngram.trie.query_kernels import NO_NODE, find_children
from chainrule.storage.config_json import read_config
from chainrule.storage.model_folder import open_data_file

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

PADDING = -1  # a row ends before it
ERROR = (1 << 32) - 1
MAX_ROWS = 1 << 20  # of a request


def open_shards(folder: Path, numbers: Sequence[int]) -> tuple[list[int], dict[int, Table], str]:
    """Return some shards of a model folder, by number, whether the others are there or not; the edges and a digest of
    all.

    numbers: by default all. edges: as `ShardedModel` has them. digest: equal for copies of a model only.

    Raises ModelFormatError, SettingError.
    """
    entry = read_config(folder)
    if entry.settings.get("layout") != SHARDS:
        raise ModelFormatError(f"{folder}: is not a model in shards; chainrule convert --shards makes one")
    if "backoff_weight" in entry.settings or "begins" in entry.settings:
        raise ModelFormatError(
            f"{folder}: is of stupid backoff, or of documents that begin with several <s>; only plain n-gram "
            "models are served by their shards"
        )
    with prefix_errors(str(folder)):
        edges, sizes = index_of(entry.settings)
    if len(set(numbers)) < len(numbers):
        raise SettingError(f"shards is {' '.join(map(str, numbers))}; name each shard once")
    tables = {}
    for k in numbers or range(len(sizes)):
        if not 0 <= k < len(sizes):
            raise SettingError(f"there is no shard {k}; the model has {len(sizes)}, from 0")
        arrays = open_data_file(folder, entry, f"{file_of(k)}.safetensors")
        with prefix_errors(str(folder)):
            tables[k] = table_of_shard(k, sizes[k], {f"{file_of(k)}/{name}": array for name, array in arrays.items()})
    files = sorted((name, file.sha256) for name, file in entry.files.items())
    return edges, tables, hashlib.sha256(repr((files, edges)).encode()).hexdigest()


class ShardServer(socketserver.ThreadingTCPServer):
    """Serves until `shutdown` is called; `with` closes it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, shards: Mapping[int, Table], edges: Sequence[int], digest: str, host: str, port: int) -> None:
        """Bind the server to an address.

        shards: the tables of this process's shards, by number. edges: as in `ShardedModel`. digest: the model's. Raises
        OSError.
        """
        self.shards, self.edges, self.digest = dict(shards), np.array(edges), digest
        first = next(iter(self.shards.values()))
        self.order, self.vocabulary_size = first.order, first.vocabulary_size
        super().__init__((host, port), _Connection)

    @property
    def description(self) -> dict[str, Any]:
        return {
            "shards": list(self.shards),
            "edges": self.edges.tolist(),
            "digest": self.digest,
            "order": self.order,
            "vocabulary_size": self.vocabulary_size,
        }

    def answer(self, rows: Int32[ndarray, "rows order"]) -> Float32[ndarray, "rows 2"]:
        """Return the answer to a request.

        Raises ValueError where a row is invalid, or belongs to another process's shard.
        """
        if ((rows < PADDING) | (rows >= self.vocabulary_size)).any() or (rows[:, 0] < 0).any():
            raise ValueError(f"a row has a number that is not a word id; expected 0 to {self.vocabulary_size - 1}")
        numbers = np.searchsorted(self.edges[1:], rows[:, 0], side="right")
        out = np.empty((len(rows), 2), np.float32)
        for number in np.unique(numbers).tolist():
            if number not in self.shards:
                raise ValueError(f"shard {number} is not served here, only {', '.join(map(str, self.shards))}")
            own = numbers == number
            out[own] = look_up_rows(self.shards[number], np.ascontiguousarray(rows[own]))
        return out


@takes(ShardOptions)
def serve_shards(model: str | os.PathLike[str], options: ShardOptions) -> None:
    """Serve shards of an n-gram model to `ShardClient`s, until Ctrl-C.

    model: a folder that `convert` wrote with shards. The options are those of `ShardOptions`. Raises SettingError,
    ModelFormatError.

    good:  chainrule.serve_shards("big/", shards=[0, 1], port=9000)
    """
    edges, tables, digest = open_shards(Path(model), options.shards)
    try:
        server = ShardServer(tables, edges, digest, options.host, options.port)
    except OSError as error:
        raise SettingError(
            f"cannot listen on {options.host}, port {options.port}: {error.strerror or error}"
        ) from error
    with server, suppress(KeyboardInterrupt):
        if options.on_start is not None:
            host, port = server.server_address[:2]
            options.on_start(f"{host!s}:{port}", list(tables), len(edges) - 1)
        server.serve_forever()


class _Connection(socketserver.StreamRequestHandler):
    server: ShardServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        try:
            self.wfile.write(json.dumps(self.server.description).encode() + b"\n")
            while len(header := self.rfile.read(8)) == 8:
                number, size = header[:4], int.from_bytes(header[4:], "little")
                width = self.server.order
                if size > MAX_ROWS:
                    self._refuse(number, f"a request has {size:,} rows; expected at most {MAX_ROWS:,}")
                    return
                data = self.rfile.read(4 * size * width)
                if len(data) < 4 * size * width:
                    return
                try:
                    answer = self.server.answer(np.frombuffer(data, "<i4").reshape(size, width).astype(np.int32))
                except ValueError as error:
                    self._refuse(number, str(error))
                    continue
                self.wfile.write(header + answer.astype("<f4").tobytes())
        except (TimeoutError, ConnectionError):
            pass

    def _refuse(self, number: bytes, message: str) -> None:
        data = message.encode()
        self.wfile.write(number + ERROR.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)


_TIMEOUT = 60.0  # seconds
_MAX_HEADER = 1 << 24


class _Process:
    """A connection to a process, with the shards that it serves."""

    _request = 0  # the number of the last request

    def __init__(self, address: str, timeout: float) -> None:
        """Connect to a process. Raises SettingError, ServiceError."""
        self.address = address
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SettingError(f"{address!r} is not an address; expected host:port, such as 127.0.0.1:9000")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file: BinaryIO = self._socket.makefile("rb")
            said: dict[str, Any] = json.loads(self._file.readline(_MAX_HEADER))
            self.shards: list[int] = said["shards"]
            self.edges: list[int] = said["edges"]
            self.digest: str = said["digest"]
            self.order: int = said["order"]
            self.vocabulary_size: int = said["vocabulary_size"]
        except KeyError as error:
            raise ServiceError(
                f"{address}: its first line lacks {error}; start chainrule shard-serve of this version there"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise ServiceError(
                f"{address}: no shards are served there: {error}; start chainrule shard-serve"
            ) from error

    def send(self, rows: Int32[ndarray, "rows order"]) -> None:
        self._request = (self._request + 1) % (1 << 32)
        head = self._request.to_bytes(4, "little") + len(rows).to_bytes(4, "little")
        self._socket.sendall(head + rows.astype("<i4").tobytes())

    def receive(self, size: int) -> Float32[ndarray, "rows 2"]:
        """Return the answer to the last request. Raises OSError, ServiceError."""
        request, rows = (int.from_bytes(self._read(4), "little") for _ in range(2))
        if request == self._request and rows == ERROR:
            message = self._read(int.from_bytes(self._read(4), "little")).decode("utf-8", "replace")
            raise ServiceError(f"{self.address}: {message}")
        if (request, rows) != (self._request, size):
            raise ServiceError(
                f"{self.address}: answered request {request} with {rows} rows; expected request {self._request} with "
                f"{size}; it is another program, or damaged"
            )
        return np.frombuffer(self._read(8 * size), "<f4").reshape(size, 2)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise ConnectionError("the connection was closed")
        return data

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class ShardClient:
    """The probabilities of n-grams, from processes that together serve all shards of a model.

    good:  with ShardClient(["127.0.0.1:9000", "127.0.0.1:9001"]) as client: client.score(ngrams)
    """

    def __init__(self, addresses: Sequence[str], *, timeout: float = _TIMEOUT) -> None:
        """Connect to the processes.

        timeout: how many seconds to wait for a process. Raises SettingError; ServiceError, which names a missing shard.
        """
        if isinstance(addresses, str):
            raise SettingError(f"addresses is {addresses!r}; expected a list of them, such as [{addresses!r}]")
        if not addresses:
            raise SettingError("no address of shards is given; expected one or more, such as 127.0.0.1:9000")
        self._addresses, self._timeout = tuple(addresses), timeout
        self._lock = threading.Lock()  # one call at a time uses the connections
        self._processes: list[_Process] = []
        self._connect()
        first = self._processes[0]
        self.order, self.edges, self.digest = first.order, np.array(first.edges), first.digest
        self.vocabulary_size = first.vocabulary_size

    def _connect(self) -> None:
        """Connect to all processes. Raises SettingError, ServiceError."""
        try:
            for address in self._addresses:
                self._processes.append(_Process(address, self._timeout))
            first = self._processes[0]
            for process in self._processes:
                if process.digest != first.digest:
                    raise ServiceError(f"{process.address} and {first.address} serve shards of different models")
            if first.digest != getattr(self, "digest", first.digest):
                raise ServiceError(f"{first.address} serves another model than before; make a new ShardClient")
            self._server_of = {shard: i for i, process in enumerate(self._processes) for shard in process.shards}
            count = len(first.edges) - 1
            missing = sorted(set(range(count)) - set(self._server_of))
            if missing:
                raise ServiceError(
                    f"shard {missing[0]} is served nowhere, of {count}; "
                    f"start chainrule shard-serve with --shards {' '.join(map(str, missing))}"
                )
        except BaseException:
            self._disconnect()
            raise

    def score(self, ngrams: Int32[ndarray, "ngrams width"]) -> Float32[ndarray, " ngrams"]:
        """Return log P(the last word of each row | those before it), in nats, as the whole model has it.

        ngrams: at most order words a row, PADDING at the beginning; a document's first word follows <s>. One request
        goes to each process, whatever the number of rows. An error closes all connections, so that no answer is left
        in them, and the next call connects again. Raises SettingError; ServiceError, which names the shards that are
        lost.
        """
        ngrams = self._checked(ngrams)
        with self._lock:
            try:
                if not self._processes:
                    self._connect()
                return self._scores(ngrams)
            except BaseException:
                self._disconnect()
                raise

    def _scores(self, ngrams: Int32[ndarray, "ngrams width"]) -> Float32[ndarray, " ngrams"]:
        count, width = ngrams.shape
        values = np.full((count * width, 2), np.nan, np.float32)
        suffixes = np.full((count, width, self.order), PADDING, np.int32)
        for start in range(width):
            suffixes[:, start, : width - start] = ngrams[:, start:]
        rows = suffixes.reshape(count * width, self.order)
        shards = np.searchsorted(self.edges[1:], rows[:, 0], side="right")
        server_of = np.array([self._server_of[shard] for shard in range(self.edges.size - 1)] + [-1])
        servers = np.where(rows[:, 0] == PADDING, -1, server_of[np.minimum(shards, self.edges.size - 1)])
        for first in range(0, len(rows), MAX_ROWS):
            part = slice(first, first + MAX_ROWS)
            values[part] = self._look_up(rows[part], servers[part])
        by_start = values.reshape(count, width, 2)
        log_probs, backoffs = by_start[..., 0], by_start[..., 1]
        longest = np.argmax(~np.isnan(log_probs), axis=1)
        scores = log_probs[np.arange(count), longest]
        for start in range(width - 1, -1, -1):  # the shortest context first, as in the whole model
            scores = scores + np.where((start < longest) & ~np.isnan(backoffs[:, start]), backoffs[:, start], 0)
        return scores.astype(np.float32)

    def _checked(self, ngrams: Any) -> Int32[ndarray, "ngrams width"]:
        """Return the n-grams as an array.

        Raises SettingError if these are no rows of known words, with PADDING only at their beginning.
        """
        try:
            rows = np.asarray(ngrams)
        except ValueError:  # rows of several lengths
            rows = np.empty(0)
        if rows.ndim != 2 or not 1 <= rows.shape[1] <= self.order or not (np.issubdtype(rows.dtype, np.integer)):
            raise SettingError(
                f"expected an array of ids of words, n-grams x 1 to {self.order}; pad shorter ones with {PADDING} at "
                "the beginning"
            )
        is_padding = rows == PADDING
        if is_padding[:, -1].any() or (is_padding[:, 1:] & ~is_padding[:, :-1]).any():
            raise SettingError(f"{PADDING} is allowed only at the beginning of a row; each has a last word")
        wrong = rows[~is_padding & ((rows < 0) | (rows >= self.vocabulary_size))]
        if wrong.size:
            raise SettingError(f"{wrong[0]} is not a word id; expected 0 to {self.vocabulary_size - 1}")
        return np.ascontiguousarray(rows, np.int32)

    def _look_up(self, rows: Int32[ndarray, "rows order"], servers: ndarray) -> Float32[ndarray, "rows 2"]:
        values = np.full((len(rows), 2), np.nan, np.float32)
        asked = []
        for i, process in enumerate(self._processes):
            own = np.flatnonzero(servers == i)
            if own.size:
                asked.append((process, own))
        for process, own in asked:
            self._calling(process, process.send, rows[own])
        for process, own in asked:
            values[own] = self._calling(process, process.receive, own.size)
        return values

    def _calling(self, process: _Process, function: Any, argument: Any) -> Any:
        try:
            return function(argument)
        except OSError as error:
            lost = ", ".join(map(str, process.shards))
            raise ServiceError(
                f"shard{'s' * (len(process.shards) > 1)} {lost} at {process.address} cannot be reached: {error}; start "
                f"chainrule shard-serve with --shards {lost.replace(',', '')} again"
            ) from error

    def _disconnect(self) -> None:
        for process in self._processes:
            process.close()
        self._processes = []

    def close(self) -> None:
        """Close all connections. A call after this one opens them again."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> ShardClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def look_up_rows(shard: Table, rows: Int32[ndarray, "rows order"]) -> Float32[ndarray, "rows 2"]:
    """Return, for each n-gram, its log-probability, NaN where the shard lacks it, and its context's log-backoff, or 0.

    rows: at least one word each, below the vocabulary's size, the first in this shard's range; PADDING at the end.
    """
    lengths = np.count_nonzero(rows != PADDING, axis=1)
    nodes = 1 + rows[:, 0].astype(np.int64)
    backoffs = np.zeros(len(rows), np.float32)
    inner, scratch = shard.log_backoffs.size, np.empty((5, len(rows) + 1), np.int64)
    for n in range(2, rows.shape[1] + 1):
        longer = lengths >= n
        contexts = np.where(longer, nodes, NO_NODE)
        last = (lengths == n) & (nodes != NO_NODE)
        backoffs[last] = shard.log_backoffs[nodes[last]]
        words = np.where(longer, rows[:, n - 1], 0).astype(np.int32)
        children = np.empty(len(rows), np.int64)
        find_children(shard.words, shard.begin, shard.slots, inner, contexts, words, scratch, children)
        nodes = np.where(longer, children, nodes)
    found = nodes != NO_NODE
    log_probs = np.full(len(rows), np.nan, np.float32)
    log_probs[found] = shard.log_probs[nodes[found]]
    return np.stack([log_probs, backoffs], axis=1)
