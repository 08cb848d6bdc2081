"""Answers look-ups of n-grams in some shards of a model, over TCP, for `ShardClient`.

The server begins with a line of JSON that says which shards it has. A request is the number of rows in four bytes, then
the rows, int32, order words each (see `look_up_rows`). The answer is as many pairs of float32 after four bytes with
their number; or, after the number ERROR, the length of a message in four bytes, and the message. All little-endian.
"""

from __future__ import annotations

import json
import socketserver
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.ngram.saving import PADDING, look_up_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

ERROR = (1 << 32) - 1
MAX_ROWS = 1 << 20  # of a request


class ShardServer(socketserver.ThreadingTCPServer):
    """Serves until `shutdown` is called; `with` closes it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, shards: Mapping[int, Table], edges: Sequence[int], host: str, port: int) -> None:
        """shards: those of this process, by number. edges: as `ShardedModel` has them. Raises OSError."""
        self.shards, self.edges = dict(shards), np.array(edges)
        first = next(iter(self.shards.values()))
        self.order, self.vocabulary_size = first.order, first.vocabulary_size
        super().__init__((host, port), _Connection)

    @property
    def description(self) -> dict[str, Any]:
        return {
            "shards": list(self.shards),
            "edges": self.edges.tolist(),
            "order": self.order,
            "vocabulary_size": self.vocabulary_size,
        }

    def answer(self, rows: Int32[ndarray, "rows order"]) -> Float32[ndarray, "rows 2"]:
        """Raises ValueError where a row is none, or of another process's shard."""
        if ((rows < PADDING) | (rows >= self.vocabulary_size)).any() or (rows[:, 0] < 0).any():
            raise ValueError(f"a row has a number that is no word; expected 0 to {self.vocabulary_size - 1}")
        numbers = np.searchsorted(self.edges[1:], rows[:, 0], side="right")
        out = np.empty((len(rows), 2), np.float32)
        for number in np.unique(numbers).tolist():
            if number not in self.shards:
                raise ValueError(f"shard {number} is not served here, only {', '.join(map(str, self.shards))}")
            own = numbers == number
            out[own] = look_up_rows(self.shards[number], np.ascontiguousarray(rows[own]))
        return out


class _Connection(socketserver.StreamRequestHandler):
    server: ShardServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        try:
            self.wfile.write(json.dumps(self.server.description).encode() + b"\n")
            while header := self.rfile.read(4):
                size = int.from_bytes(header, "little")
                width = self.server.order
                if size > MAX_ROWS:
                    self._refuse(f"a request has {size:,} rows; expected at most {MAX_ROWS:,}")
                    return
                data = self.rfile.read(4 * size * width)
                if len(data) < 4 * size * width:
                    return
                try:
                    answer = self.server.answer(np.frombuffer(data, "<i4").reshape(size, width).astype(np.int32))
                except ValueError as error:
                    self._refuse(str(error))
                    continue
                self.wfile.write(header + answer.astype("<f4").tobytes())
        except (TimeoutError, ConnectionError):
            pass

    def _refuse(self, message: str) -> None:
        data = message.encode()
        self.wfile.write(ERROR.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)
