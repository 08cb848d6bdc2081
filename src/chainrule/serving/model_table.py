"""The models of a server by name: opened when first asked for, opened again when their files change, closed when the
memory is short.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.models.language_models import CausalModel
from chainrule.api.opening import kind_at, load
from chainrule.errors import ChainruleError, SettingError
from chainrule.protocol import UNKNOWN
from chainrule.serving.api_error import ApiError
from chainrule.serving.served_model import CommitPoint, ServedModel, wrong_model
from chainrule.serving.token_arrays import TokenRows, token_arrays
from chainrule.serving.token_names import TokenNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from chainrule.api.models.model import Model
    from chainrule.api.seq2seq.caption_model import CaptionModel
    from chainrule.api.seq2seq.seq2seq_model import TextPairModel
    from chainrule.serving.limits import ServerLimits

BROKEN = "failed several times in a row"


@dataclass
class _Entry:
    path: Path
    served: ServedModel | None = None
    commit_point: CommitPoint | None = None
    last_used: int = 0
    bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelTable:
    """Names and models. Methods are called on the event loop."""

    def __init__(
        self,
        paths: Sequence[tuple[str, Path]],
        limits: ServerLimits,
        *,
        memory: int | None = None,
        on_event: Callable[[str, str], None] = lambda event, name: None,
    ) -> None:
        """paths: names and models. memory: bytes that the files of all open models may have; None: any number.

        on_event: a callback for what happened (opened, closed, cannot be opened: why, BROKEN) to which model;
        the last on another thread.
        Raises SettingError if two models have one name.
        """
        self._entries: dict[str, _Entry] = {}
        for name, path in paths:
            if name in self._entries:
                raise SettingError(f"two models are called {name!r}; name one of them, as in other={path}")
            self._entries[name] = _Entry(path)
        self._limits, self._memory, self.on_event = limits, memory, on_event
        self._uses = 0
        self._retired: list[ServedModel] = []

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    @property
    def default(self) -> str:
        """The first model's name."""
        return next(iter(self._entries))

    def open_models(self) -> Iterator[ServedModel]:
        """All that are open, and those that still answer requests of before."""
        yield from (entry.served for entry in self._entries.values() if entry.served is not None)
        self._retired = [served for served in self._retired if not served.scheduler.is_idle]
        yield from self._retired

    async def get(self, name: str | None, verb: str | None = None) -> ServedModel:
        """A model by its name; the first one without a name. Raises ApiError.

        verb: of `VERBS`, a method that it must have: one whose configuration shows that it has not is never opened.
        """
        entry = self._entries.get(self.default if name is None else name)
        if entry is None:
            raise ApiError(
                404, f"there is no model {str(name)[:100]!r}; see /v1/models", param="model", code="model_not_found"
            )
        name = self.default if name is None else name
        self._uses += 1
        entry.last_used = self._uses
        served = entry.served
        if served is not None and served.scheduler.is_alive and self._is_current(entry):
            return served
        if verb is not None and served is None:
            _check_kind(name, entry.path, verb)
        async with entry.lock:
            if entry.served is None or not entry.served.scheduler.is_alive or not self._is_current(entry):
                await self._open(name, entry)
            assert entry.served is not None
            return entry.served

    def close(self) -> None:
        """Lets every model finish its work, and no more."""
        for served in self.open_models():
            served.scheduler.close()

    @staticmethod
    def _is_current(entry: _Entry) -> bool:
        """Whether the files are those that were opened, or are gone: then the open model goes on."""
        return entry.commit_point is not None and entry.commit_point.is_current

    async def _open(self, name: str, entry: _Entry) -> None:
        """Raises ApiError."""
        try:
            commit_point = CommitPoint.of(entry.path)
            fingerprint = commit_point.fingerprint
            size = _bytes_of(entry.path)
            self._make_room(name, size)
            with ThreadPoolExecutor(1) as thread:  # it ends: OpenMP counts the threads that it has started as busy ones
                model = await asyncio.get_running_loop().run_in_executor(thread, _load_ready, entry.path)
        except (ChainruleError, OSError) as error:
            if entry.served is not None and entry.served.scheduler.is_alive:  # a folder that is just being written
                return
            self.on_event(f"cannot be opened: {error}", name)
            message = f"the model {name!r} cannot be opened"
            raise ApiError(503, message, param="model", code="model_unavailable", retry_after=10) from error
        self._retire(name, entry)
        entry.served = ServedModel(
            name, model, fingerprint, self._limits, on_broken=lambda: self.on_event(BROKEN, name)
        )
        entry.commit_point, entry.bytes = commit_point, size
        self.on_event("opened", name)

    def _retire(self, name: str, entry: _Entry) -> None:
        if entry.served is not None:
            entry.served.scheduler.close()
            self._retired.append(entry.served)
            entry.served = None
            self.on_event("closed", name)

    def _make_room(self, name: str, size: int) -> None:
        """Closes idle models that were used least lately, until another one fits. Raises ApiError if it does not."""
        if self._memory is None:
            return
        others = [
            (other, entry) for other, entry in self._entries.items() if entry.served is not None and other != name
        ]
        used = sum(entry.bytes for _, entry in others)
        for other, entry in sorted(others, key=lambda pair: pair[1].last_used):
            if used + size <= self._memory:
                return
            if entry.served is not None and entry.served.scheduler.is_idle:
                used -= entry.bytes
                self._retire(other, entry)
        if used + size > self._memory and used:
            raise ApiError(
                503, f"there is no room for the model {name!r} now; try again later", code="no_memory", retry_after=5
            )


def _check_kind(name: str, path: Path, verb: str) -> None:
    """Raises ApiError if the configuration of a model shows that it lacks a method."""
    with suppress(ChainruleError, OSError):  # to open it shows what is wrong
        kind = kind_at(path)
        if kind is not None and not hasattr(kind, verb):
            raise wrong_model(name, verb)


def _load_ready(path: Path) -> Model | TextPairModel | CaptionModel:
    """A model whose kernels are compiled, so that its first request does not wait for them. Raises as `load`."""
    model: Model | TextPairModel | CaptionModel = load(path)
    if isinstance(model, CausalModel):
        engine, tokens = model.language_model, np.array([UNKNOWN], np.int32)
        with suppress(ChainruleError):  # a request will get it
            state = engine.start([tokens])
            engine.top(state, 1)
            engine.draw(state, np.array([0.5]))
            engine.score([tokens], end=False)
            engine.advance(engine.join([state, state]), np.array([UNKNOWN, UNKNOWN], np.int32))
        rows = TokenRows(tokens, np.zeros(1, np.float32), None, np.zeros(1, np.int64))
        token_arrays(TokenNames(model.tokenizer), [rows])
    return model


def _bytes_of(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
