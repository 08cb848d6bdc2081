"""Recurrences give the same numbers by the kernel and by torch, however a text is cut, and begin anew at starts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from chainrule.features.open.network.config import OpenTransformerConfig
from chainrule.features.open.network.recurrences import recurrence

KINDS: dict[str, dict[str, Any]] = {
    "mamba": {"mixers": ("mamba",), "step_rank": 2},
    "rwkv": {"mixers": ("rwkv",)},
    "rwkv_channels": {"mixers": ("rwkv_channels",)},
    "mamba2": {"mixers": ("mamba2",), "recurrence_heads": 4, "recurrence_key_heads": 2},
    "delta": {"mixers": ("delta",), "recurrence_heads": 4, "recurrence_key_heads": 2},
}


def module(kind: str) -> Any:
    """One with every number random."""
    config = OpenTransformerConfig(
        layers=1, width=8, heads=2, recurrence_width=12, state_width=5, recurrence_kernel=3, **KINDS[kind]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        built = recurrence(config, kind)
        with torch.no_grad():
            for weight in built.parameters():
                weight.add_(torch.randn_like(weight) * 0.3)
    return built.eval()


def inputs(rows: int = 3, length: int = 11) -> torch.Tensor:
    return torch.randn(rows, length, 8, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begins", [None, [(0, 0), (1, 4), (1, 5), (2, 10)]])
def test_without_gradients_the_numbers_are_those_with_them(kind: str, begins: list[tuple[int, int]] | None) -> None:
    own, x, starts = module(kind), inputs(), None
    if begins is not None:
        starts = torch.zeros(3, 11, dtype=torch.bool)
        starts[tuple(zip(*begins, strict=True))] = True
    expected, memory = own(x, starts, None)
    assert expected.requires_grad
    with torch.inference_mode():
        found, kept = own(x, starts, None)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-6)
    for one, other in zip(kept, memory, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_text_that_is_cut_has_the_same_numbers_and_no_state_is_written_to(kind: str) -> None:
    own, x = module(kind), inputs()
    whole, _ = own(x, None, None)
    first, memory = own(x[:, :4], None, None)
    before = [tensor.clone() for tensor in memory]
    parts = [first, own(x[:, 4:], None, memory)[0]]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-6, atol=1e-6)
    again, _ = own(x[:, 4:], None, memory)
    assert torch.equal(again, parts[1])
    assert all(torch.equal(one, other) for one, other in zip(before, memory, strict=True))
    alone, _ = own(x[1:2], None, None)
    torch.testing.assert_close(alone[0], whole[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_start_forgets_what_was_before(kind: str) -> None:
    own, x = module(kind), inputs(1)
    starts = torch.zeros(1, 11, dtype=torch.bool)
    starts[0, 6] = True
    together, _ = own(x, starts, None)
    alone, _ = own(x[:, 6:], None, None)
    torch.testing.assert_close(together[:, 6:], alone, rtol=1e-6, atol=1e-6)


@torch.inference_mode()
def test_long_texts_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    own, x = module("mamba"), inputs()
    whole, memory = own(x, None, None)
    monkeypatch.setattr("chainrule.features.open.network.recurrences._AT_ONCE", 3 * 12 * 5)  # three tokens
    pieces, kept = own(x, None, None)
    assert torch.equal(pieces, whole)
    assert torch.equal(memory[1], kept[1])
