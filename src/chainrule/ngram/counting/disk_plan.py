"""What counting on disk will take, said before it begins; free of Numba, as the settings are."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.memory import bytes_shown


@dataclass(frozen=True)
class DiskPlan:
    """How a text is counted on disk.

    run_tokens: about as many at a time. memory: bytes that may be held. bytes: of temporary files in `folder`.
    """

    tokens: int
    run_tokens: int
    memory: int
    bytes: int
    folder: str

    def __str__(self) -> str:
        runs = -(-self.tokens // self.run_tokens)
        return (
            f"counting {self.tokens:,} tokens in {runs:,} run{'s' * (runs != 1)} on disk, with about "
            f"{bytes_shown(self.bytes)} of temporary files in {self.folder}"
        )


def ignore_plan(plan: DiskPlan) -> None:
    """A callback for plans that does nothing."""
