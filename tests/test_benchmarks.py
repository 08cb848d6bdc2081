"""Scripts in bench/ say what machine their figures were taken on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCH = Path(__file__).parents[1] / "bench"
MATERIAL = {
    "english_channel.py",
    "holbrook.py",
    "listops.py",
    "misspellings.py",
    "multiplied.py",
    "nlvr_pixels.py",
    "nlvr_scenes.py",
    "nlvr_sentences.py",
    "ocr_pages.py",
    "random_gguf.py",
}
NO_BENCHMARKS = {"machine.py", *MATERIAL}  # texts and pictures that benchmarks read or make
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py") if path.name not in NO_BENCHMARKS)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_machine", BENCH / "machine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_STREAMED", 3 << 16)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_prints_the_kind_of_machine(name: str) -> None:
    source = (BENCH / name).read_text()
    assert "from machine import circumstances" in source
    assert "print(circumstances()" in source or "{circumstances()}" in source


def test_the_kind_of_machine_is_a_few_lines(machine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    lines = machine.circumstances().splitlines()
    assert lines[1].startswith("instructions: ")
    assert "GB/s to one core" in lines[2]
    assert f"numpy {np.__version__}" in lines[-2]
    assert "ONEDNN_MAX_CPU_ISA=AVX2" in lines[-1]


def test_a_linux_of_arm_and_a_mac_are_described_too(machine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they print: /proc/cpuinfo of a Graviton 3, sysctl of an M2."""
    arm = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU part\t: 0xd40\n"
    monkeypatch.setattr(machine, "_cpu_info", lambda: machine._named(arm))
    monkeypatch.setattr(sys, "platform", "linux")
    assert machine._facts()["name"] == "0xd40"
    assert machine._facts()["instructions"] == "asimd bf16 i8mm sve"
    mac = {
        "hw": "hw.l1dcachesize: 65536\nhw.perflevel0.l2cachesize: 16777216\nhw.optional.arm.FEAT_BF16: 1\n"
        "hw.optional.arm.FEAT_SME: 0\n",
        "machdep.cpu": "machdep.cpu.brand_string: Apple M2\n",
    }
    monkeypatch.setattr(machine, "_sysctl", lambda key: machine._named(mac[key]))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine._facts() == {
        "name": "Apple M2",
        "instructions": "FEAT_BF16",
        "caches": "L1 65536 bytes, L2 16777216 bytes",
    }
