"""How much memory there is, how much this process holds, and whether work will fit."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from chainrule.errors import EstimationError, SettingError

_SAY_MORE = "if there is more than the system tells, say how much: CHAINRULE_MEMORY=64G"


_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def check_fits(size: int, work: str) -> None:
    """Raises EstimationError where some work on a model needs more bytes than there are."""
    at_hand = memory_at_hand()
    if at_hand is not None and size > at_hand:
        raise EstimationError(
            f"{work} needs about {_gigabytes(size)} of memory, and {_gigabytes(at_hand)} are free; {_SAY_MORE}"
        )


def memory_at_hand() -> int | None:
    """Bytes: what CHAINRULE_MEMORY says or the system can give; None where it does not tell. Raises SettingError."""
    if said := os.environ.get("CHAINRULE_MEMORY"):
        parsed = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", said.strip().upper())
        if parsed is None:
            raise SettingError(f"CHAINRULE_MEMORY is {said!r}; expected a number of bytes, such as 8G")
        return int(float(parsed[1]) * _UNITS[parsed[2]])
    found = [bound for bound in (_free_memory(), *map(_limit, _CGROUP_LIMITS)) if bound is not None]
    return min(found, default=None)


def _free_memory() -> int | None:
    try:
        available = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if available:
            return int(available[1]) << 10
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _limit(path: str) -> int | None:
    """What a container may have; "max" or a huge number where it may have all."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def peak_memory() -> int | None:
    """The most memory, in bytes, that this process has held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
