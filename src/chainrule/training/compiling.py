"""torch.compile, with the plain network to fall back on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


def compile_or_fall_back(network: nn.Module, on_failure: Callable[[str], None]) -> Callable[..., Any]:
    """The network, compiled when it is first called; from the first failure on, the plain network.

    on_failure: called once, with the reason.
    """
    compiled: Callable[..., Any] | None = torch.compile(network)

    def forward(*inputs: Any) -> Any:
        nonlocal compiled
        if compiled is not None:
            try:
                return compiled(*inputs)
            except (RuntimeError, ImportError, OSError) as error:
                compiled = None
                on_failure(str(error).splitlines()[0][:200])
        return network(*inputs)

    return forward
