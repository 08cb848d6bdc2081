"""Counts and times of a server, as Prometheus reads them.

Each process reports its own, so that any of them can answer for all.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections import Counter
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from chainrule.features.serve.models import ModelTable

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)  # seconds
_KINDS = {
    "chainrule_workers": "gauge",
    "chainrule_requests_total": "counter",
    "chainrule_request_seconds": "histogram",
    "chainrule_requests_running": "gauge",
    "chainrule_rows_in_use": "gauge",
    "chainrule_accepted_tokens": "gauge",
    "chainrule_generated_tokens_total": "counter",
    "chainrule_prompt_tokens_total": "counter",
    "chainrule_scored_tokens_total": "counter",
    "chainrule_drafted_tokens_total": "counter",
    "chainrule_accepted_drafts_total": "counter",
}


class Metrics:
    """What has happened in a process since its start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # by route and status
        self.seconds: dict[str, list[int]] = {}  # by route: how many requests took up to each bound, and longer
        self.total_seconds: dict[str, float] = {}
        self.running = 0

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self.requests[route, status] += 1
        self.seconds.setdefault(route, [0] * (len(_BOUNDS) + 1))[bisect_left(_BOUNDS, seconds)] += 1
        self.total_seconds[route] = self.total_seconds.get(route, 0.0) + seconds

    def series(self, table: ModelTable) -> dict[str, float]:
        """Return all numbers by their names in Prometheus, labels included. Those of several processes may be added."""
        series: Counter[str] = Counter({"chainrule_workers": 1, "chainrule_requests_running": self.running})
        for (route, status), count in sorted(self.requests.items()):
            series[f'chainrule_requests_total{{route="{route}",status="{status}"}}'] = count
        for route, counts in sorted(self.seconds.items()):
            for bound, below in zip([*map(str, _BOUNDS), "+Inf"], accumulate(counts), strict=True):
                series[f'chainrule_request_seconds_bucket{{route="{route}",le="{bound}"}}'] = below
            series[f'chainrule_request_seconds_sum{{route="{route}"}}'] = self.total_seconds[route]  # type: ignore[assignment]
            series[f'chainrule_request_seconds_count{{route="{route}"}}'] = sum(counts)
        for served in table.open_models():  # a model that was opened again is there twice
            label, scheduler = f'{{model="{_escaped(served.name)}"}}', served.scheduler
            series[f"chainrule_rows_in_use{label}"] += scheduler.rows_in_use
            series[f"chainrule_accepted_tokens{label}"] += scheduler.accepted_tokens
            series[f"chainrule_generated_tokens_total{label}"] += scheduler.generated_tokens
            series[f"chainrule_prompt_tokens_total{label}"] += scheduler.read_tokens
            series[f"chainrule_scored_tokens_total{label}"] += scheduler.scored_tokens
            if served.drafting is not None:
                series[f"chainrule_drafted_tokens_total{label}"] += served.drafting.drafted
                series[f"chainrule_accepted_drafts_total{label}"] += served.drafting.accepted
        return dict(series)


def prometheus_text(processes: Iterable[Mapping[str, float]]) -> str:
    """Return the sums of what processes report, in Prometheus' text format."""
    total: dict[str, float] = {}
    for series in processes:
        for name, value in series.items():
            total[name] = total.get(name, 0) + value
    lines = []
    for family, kind in _KINDS.items():
        lines.append(f"# TYPE {family} {kind}")
        lines += [
            f"{name} {value if isinstance(value, int) else f'{value:.6f}'}"
            for name, value in total.items()
            if name.startswith(family)
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_PATIENCE_SECONDS = 1.0  # with another process


class WorkerState(NamedTuple):
    """The state of a process that answers.

    broken: names of models whose threads have failed. series: counts and times, as `Metrics.series` gives them.
    """

    broken: list[str]
    series: dict[str, float]


class WorkerStates:
    """The states of all processes of a server: its own, and those of others, each at a socket in a private folder."""

    def __init__(self, own: Callable[[], WorkerState], folder: Path | None = None, number: int = 0) -> None:
        """Store the state of this process.

        folder: where the sockets are; None if there is one process. number: the index of this process.
        """
        self._own, self._folder, self._number = own, folder, str(number)

    async def all(self) -> list[WorkerState]:
        """Return the states of all that answer, its own first."""
        if self._folder is None:
            return [self._own()]
        others = [self._ask(path) for path in sorted(self._folder.iterdir()) if path.name != self._number]
        return [self._own(), *(state for state in await asyncio.gather(*others) if state is not None)]

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Yield a context in which the other processes can ask for this one's state."""
        if self._folder is None:
            yield
            return
        async with await asyncio.start_unix_server(self._answer, self._folder / self._number):
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(self._own()).encode())
        writer.close()

    @staticmethod
    async def _ask(path: Path) -> WorkerState | None:
        """Return the state of another process; None if the process has ended or hangs."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return WorkerState(*json.loads(await reader.read()))
                finally:
                    writer.close()
        except (OSError, ValueError):  # TimeoutError is an OSError
            return None
