"""Describes the machine, for every table of figures: figures from different machines are never mixed.

python bench/machine.py
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

# The instruction sets that matter for speed here: vector widths, and products of bfloat16 and of bytes.
_INSTRUCTIONS = (
    *("sse4_2", "avx", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2", "sme"),
)
_SETTINGS = (
    *("OMP_NUM_THREADS", "CHAINRULE_THREADS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"),
    *("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"),
)
_PACKAGES = ("chainrule", "numpy", "numba", "torch")
_CPU_INFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_STREAMED = 256 << 20  # bytes in all three arrays of a triad, more than caches hold


def circumstances() -> str:
    """The machine in a few lines: processor, instructions, caches, memory bandwidth, load, versions, settings."""
    processor = _facts()
    settings = [f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    loads = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    lines = [
        f"{processor['name']}, {platform.machine()}, {cores} of {os.cpu_count()} cores{loads}",
        f"instructions: {processor['instructions']}",
        f"caches: {processor['caches']}; memory: {bandwidth() / 1e9:.1f} GB/s to one core (triad)",
        *_gpu(),
        ", ".join([f"Python {platform.python_version()}", *_versions()]),
    ]
    return "\n".join([*lines, *([f"set: {', '.join(settings)}"] if settings else [])])


def bandwidth() -> float:
    """Bytes a second that one core moves in a = b + 3 c (McCalpin's STREAM), the best of a few.

    NumPy does it in two passes, a = 3 c and a = a + b: five arrays are moved.
    """
    a, b, c = (np.ones(_STREAMED // 3 // 8) for _ in range(3))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)
        times.append(time.perf_counter() - began)
    return 5 * a.nbytes / min(times)


def _facts() -> dict[str, str]:
    """The name, instructions and caches of the processor, as far as the system tells."""
    if sys.platform == "darwin":
        sysctl = {**_sysctl("hw"), **_sysctl("machdep.cpu")}
        features = [name.rpartition(".")[2] for name, value in sysctl.items() if ".FEAT_" in name and value == "1"]
        levels = {"L1": "hw.l1dcachesize", "L2": "hw.perflevel0.l2cachesize"}
        return {
            "name": sysctl.get("machdep.cpu.brand_string", "unknown processor"),
            "instructions": " ".join(features) or sysctl.get("machdep.cpu.features", "unknown").lower(),
            "caches": ", ".join(f"{level} {sysctl[key]} bytes" for level, key in levels.items() if key in sysctl),
        }
    known = _cpu_info()
    flags = set((known.get("flags") or known.get("Features") or "").split())
    return {
        "name": known.get("model name") or known.get("CPU part") or platform.processor() or "unknown processor",
        "instructions": " ".join(name for name in _INSTRUCTIONS if name in flags) or "unknown",
        "caches": _caches() or "unknown",
    }


def _cpu_info() -> dict[str, str]:
    """What Linux says of the first core."""
    if not _CPU_INFO.exists():
        return {}
    return _named(_CPU_INFO.read_text().split("\n\n")[0])


def _caches() -> str:
    """As Linux says: data caches of the first core, and how many cores share each."""
    sizes = []
    for index in sorted(_CACHES.glob("index*")):
        kind, level, size, shared = (
            (index / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
        )
        if kind != "Instruction":
            sizes.append(f"L{level} {size} (cores {shared})")
    return ", ".join(sizes)


def _sysctl(key: str) -> dict[str, str]:
    """What macOS says below a key."""
    return _named(subprocess.run(["sysctl", key], capture_output=True, text=True, check=False).stdout)


def _named(lines: str) -> dict[str, str]:
    """name: value"""
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines.splitlines())}


def _gpu() -> list[str]:
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    return [f"GPU: {torch.cuda.get_device_name()}"] if torch.cuda.is_available() else []


def _versions() -> list[str]:
    installed = [name for name in _PACKAGES if importlib.util.find_spec(name) is not None]
    return [f"{name} {importlib.metadata.version(name)}" for name in installed]


if __name__ == "__main__":
    print(circumstances())
