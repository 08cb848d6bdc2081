"""Compares what users meet, and every number, with the records in this folder: make frozen.

    python tests/frozen/record.py            shows what differs, and exits with 1 if anything does
    python tests/frozen/record.py --record   writes the records anew: make frozen-record
    python tests/frozen/record.py surface help    these parts only

A change of a record is a decision: it belongs in the commit that makes it. The first five parts are the promise of
docs/stability.md: from 1.0 on, `make release` tells what they lost.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_LINES = 200  # of the differences in one file


def tell(line: str) -> None:
    print(f"    {line}")


def surface() -> str:
    from frozen_interface import public_names

    return as_json(public_names())


def help_texts() -> str:
    from frozen_interface import help_texts

    return help_texts()


def bodies() -> str:
    from frozen_interface import request_bodies

    return as_json(request_bodies())


def json_fields() -> str:
    from frozen_json import json_fields

    return as_json(json_fields(tell))


def answers() -> str:
    from frozen_answers import answers

    return as_json(answers())


def imports() -> str:
    from frozen_interface import imports

    return as_json(imports(tell))


def wheel() -> str:
    from frozen_wheel import wheel_files

    return as_json(wheel_files(tell))


def digests() -> str:
    from frozen_models import digests

    return as_json(digests())


def scores() -> str:
    from frozen_scores import scores

    return as_json(scores())


# By name: the file, and what makes its contents. The quick ones are tests, too.
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "surface": ("surface.json", surface),
    "help": ("help.txt", help_texts),
    "bodies": ("bodies.json", bodies),
    "answers": ("answers.json", answers),
    "json": ("json_fields.json", json_fields),
    "imports": ("imports.json", imports),
    "wheel": ("wheel.json", wheel),
    "digests": ("digests.json", digests),
    "scores": ("scores.json", scores),
}
QUICK = ("surface", "help", "bodies", "imports", "wheel")
OF_A_MACHINE = ("digests", "scores")


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def differences(name: str) -> list[str]:
    """The lines in which a part differs from its record, as a unified diff."""
    file, make = PARTS[name]
    path = HERE / file
    old, new = path.read_text(encoding="utf-8") if path.exists() else "", make()
    if name in OF_A_MACHINE and old:
        from frozen_machine import comparable

        old, new = comparable(old, new, tell)
    return list(
        difflib.unified_diff(old.splitlines(), new.splitlines(), f"{file}, recorded", f"{file}, now", lineterm="", n=4)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    parser.add_argument("--record", action="store_true", help="write the records anew")
    arguments = parser.parse_args()
    # One thread, so that sums have one order; set before torch is imported.
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("", "cli", "features/serve", "features/vision"))]
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part called {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    changed = []
    for name in arguments.parts or PARTS:
        start = time.perf_counter()
        if arguments.record:
            file, make = PARTS[name]
            (HERE / file).write_text(make(), encoding="utf-8")
            word = "recorded"
        else:
            lines = differences(name)
            for line in lines[:_SHOWN_LINES]:
                print(line)
            if len(lines) > _SHOWN_LINES:
                print(f"... and {len(lines) - _SHOWN_LINES:,} lines more")
            changed += [name] * bool(lines)
            word = "DIFFERS" if lines else "equal"
        print(f"{name}: {word}, {time.perf_counter() - start:.1f} s", flush=True)
    if changed:
        print(f"{', '.join(changed)}: not as recorded in tests/frozen/. If that is meant, run make frozen-record.")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
