"""chainrule verify MODEL: every byte of a model folder against its checksums."""

from __future__ import annotations

from chainrule.cli.arguments import ModelPath
from chainrule.cli.screen import progress


def verify(model: ModelPath) -> None:
    """Read a model folder whole and compare its checksums; exit status 1 where one differs."""
    from chainrule.store import verify_model

    with progress() as told:
        entry = verify_model(model, told)
    print(f"{model}: whole, {sum(file.bytes for file in entry.files.values()):,} bytes as they were written")
