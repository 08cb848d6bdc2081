"""Counts and times of a server, as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.serving.model_table import ModelTable

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)  # seconds


class Metrics:
    """What has happened since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # by route and status
        self.seconds: dict[str, list[int]] = {}  # by route: how many requests took up to each bound, and longer
        self.total_seconds: Counter[str] = Counter()
        self.running = 0

    def count(self, route: str, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        self.requests[route, status] += 1
        self.seconds.setdefault(route, [0] * (len(_BOUNDS) + 1))[bisect_left(_BOUNDS, seconds)] += 1
        self.total_seconds[route] += seconds  # type: ignore[assignment]  # a sum, in a Counter

    def text(self, table: ModelTable) -> str:
        """The metrics in Prometheus' text format."""
        lines = ["# TYPE chainrule_requests_total counter"]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'chainrule_requests_total{{route="{route}",status="{status}"}} {count}')
        lines.append("# TYPE chainrule_request_seconds histogram")
        for route, counts in sorted(self.seconds.items()):
            sums = list(accumulate(counts))
            for bound, below in zip([*map(str, _BOUNDS), "+Inf"], sums, strict=True):
                lines.append(f'chainrule_request_seconds_bucket{{route="{route}",le="{bound}"}} {below}')
            lines.append(f'chainrule_request_seconds_sum{{route="{route}"}} {self.total_seconds[route]:.6f}')
            lines.append(f'chainrule_request_seconds_count{{route="{route}"}} {sums[-1]}')
        lines += ["# TYPE chainrule_requests_running gauge", f"chainrule_requests_running {self.running}"]
        models = list(table.open_models())
        for name, kind, attribute in (
            ("rows_in_use", "gauge", "rows_in_use"),
            ("accepted_tokens", "gauge", "accepted_tokens"),
            ("generated_tokens_total", "counter", "generated_tokens"),
            ("prompt_tokens_total", "counter", "read_tokens"),
            ("scored_tokens_total", "counter", "scored_tokens"),
        ):
            lines.append(f"# TYPE chainrule_{name} {kind}")
            by_model: Counter[str] = Counter()
            for served in models:
                by_model[served.name] += getattr(served.scheduler, attribute)
            lines += [f'chainrule_{name}{{model="{_escaped(model)}"}} {count}' for model, count in by_model.items()]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
