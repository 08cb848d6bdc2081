"""How a server is run, and what it accepts at most.

Imports nothing heavy: the flags of `chainrule serve` are made from it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s@]+")
_limit = partial(option, above=0, flag=None)


@dataclass(frozen=True, kw_only=True)
class ServerLimits(Options):
    """Limits of a server. Raises SettingError if one is not above 0."""

    body_bytes: int = _limit(4 << 20, "the size of a request")
    prompts: int = _limit(2048, "texts in a request")
    choices: int = _limit(2048, "texts generated for a request, all prompts together")
    max_tokens: int = option(4096, "the longest text that a request may ask for", above=0)
    logprobs: int = _limit(20, "alternatives shown for a position")
    stops: int = _limit(64, "stop strings")
    picture_pixels: int = _limit(1 << 24, "pixels of a picture")
    request_pixels: int = _limit(1 << 25, "pixels of all pictures of a request")
    running_tokens: int = _limit(1 << 17, "tokens of all texts that grow together, prompts and max_tokens")
    waiting_tokens: int = _limit(1 << 20, "tokens of those and of all texts that wait")
    rows: int = _limit(256, "texts that grow together")
    requests: int = _limit(1024, "requests answered at the same time")
    receipt_seconds: float = _limit(10.0, "the time for a request to arrive")
    answer_seconds: float = _limit(600.0, "the time to answer it")
    stopping_seconds: float = _limit(10.0, "the time for running answers to end when the server stops")


def bytes_of(gigabytes: float) -> int:
    """Return gigabytes as bytes. Raises SettingError."""
    if not 0 < gigabytes < math.inf:
        raise SettingError(f"memory is {gigabytes}; give a number of gigabytes above 0")
    return max(1, int(gigabytes * 1e9))


def _ignore(event: str, name: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ServeOptions(Options):
    """How a server is run.

    key: what every request must have. origins: scheme, host and port of web pages that browsers let ask (CORS); pages
    of the server itself always may. open_to_all: whether other machines may ask without a key. workers: processes
    that answer; each has limits and models of its own, but mapped files, such as those of n-gram models, are in memory
    once. memory: bytes that the files of all open models of a process may have; by default, any number.
    exit_on_failure: whether a model that fails several times in a row ends the server; by default, the next request
    opens it again. on_start: a callback that gets the server's address once it answers. on_event: a callback that gets
    each event and its model's name.
    """

    host: str = option("127.0.0.1", "the address to listen on; other machines reach it only if it is not 127.0.0.1")
    port: int = option(8000, "the port to listen on; 0 chooses a free one", least=0, most=(1 << 16) - 1)
    key: str | None = option(None, "what every request must have", flag=None)
    origins: tuple[str, ...] = option(
        (), "web pages that may ask from a browser, such as https://example.org; * stands for all", flag="allow-origin"
    )
    open_to_all: bool = option(False, "let everybody in, also from other machines", flag="no-key", is_switch=True)
    workers: int = option(1, "how many processes answer; each has a batch and limits of its own", least=1, most=256)
    memory: int | None = option(
        None,
        "the most gigabytes that the files of all open models of a worker may have: models used least lately are "
        "closed. By default, all stay open",
        above=0,
        reads=float,
        parse=bytes_of,
    )
    draft: str | None = option(
        None,
        "guess some tokens ahead, and check them in one pass, while an answer grows alone: prompt, ngram, or a model "
        "with the same tokens; see generate",
    )
    exit_on_failure: bool = option(
        False, "end with an error when a model fails again and again; else it is reopened", is_switch=True
    )
    limits: ServerLimits | None = option(None, "what it accepts at most", flag=None)
    on_start: Callable[[str], None] | None = option(None, "called with the address", flag=None)
    on_event: Callable[[str, str], None] = option(_ignore, "called with what happened to which model", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for origin in self.origins:
            if origin not in ("*", "null") and not _ORIGIN.fullmatch(origin):
                raise SettingError(f"{origin!r} is no origin; expected scheme, host and port: https://example.org")


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Options):
    """How shards of an n-gram model are served. on_start: a callback that gets the address, the numbers of the shards
    that are served, and how many the model has.
    """

    shards: tuple[int, ...] = option((), "the numbers of the shards to serve, from 0; by default all")
    host: str = option(
        "127.0.0.1", "the address to listen on. There is no key: let only machines that you trust reach it"
    )
    port: int = option(9000, "the port to listen on; 0 chooses a free one", least=0, most=(1 << 16) - 1)
    on_start: Callable[[str, Sequence[int], int], None] | None = option(None, "called with the address", flag=None)
