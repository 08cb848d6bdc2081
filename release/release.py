"""Makes a release in this clone, and sends nothing: version, date, notes, packages, tag. make release VERSION=1.0.0."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tomllib
from typing import TYPE_CHECKING

from build import build
from environments import ROOT, ReleaseError, run

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = ("frozen", "thorough", "dist", "lowest")  # targets of make, the quick one first
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument(
        "--checks", nargs="*", default=CHECKS, help="targets of make that must pass; by default %(default)s"
    )
    arguments = parser.parse_args()
    try:
        release(ROOT, arguments.version, tuple(arguments.checks))
    except ReleaseError as error:
        print(f"not released: {error}")
        return 1
    return 0


def release(root: Path, version: str, checks: tuple[str, ...]) -> None:
    """Raises ReleaseError, before anything is written, where the clone is not ready."""
    check_version(root, version)
    check_clean(root)
    notes = notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    for target in checks:
        print(f"make {target} ...", flush=True)
        run(["make", target], root)
        check_clean(root)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        for name, text in released(root, version, today).items():
            (root / name).write_text(text, encoding="utf-8")
        run(["git", "commit", "--quiet", "--all", "--message", f"Version {version}"], root)
    except BaseException:
        run(["git", "checkout", "--quiet", "--", "."], root)
        raise
    build(root / "dist")
    written = root / "dist" / f"notes-{version}.md"
    written.write_text(notes, encoding="utf-8")
    run(["git", "tag", "--annotate", "--cleanup=verbatim", "--file", written, f"v{version}"], root)
    print(f"tagged v{version}; packages and notes are in dist/. Nothing was sent: git push --follow-tags, twine upload")


def check_version(root: Path, version: str) -> None:
    found = re.search(r'^__version__ = "(.*)"$', (root / "src/chainrule/__init__.py").read_text(), re.MULTILINE)
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version} is no version; expected three numbers, such as 1.0.0")
    tagged = [
        tag[1:] for tag in run(["git", "tag", "--list", "v*"], root).output.split() if _VERSION.fullmatch(tag[1:])
    ]
    for earlier in (*tagged, *([found[1]] if found else [])):
        if _numbers(version) <= _numbers(earlier):
            raise ReleaseError(f"{version} is not newer than {earlier}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def check_clean(root: Path) -> None:
    if changed := run(["git", "status", "--porcelain"], root).output.rstrip():
        raise ReleaseError(f"the tree has changes that are not committed:\n{changed}")


def notes_of(changelog: str, version: str) -> str:
    """The text of the top section of CHANGELOG.md, which must be that of the version, and not be released yet."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    heading, _, text = sections[0].partition("\n") if sections else ("", "", "")
    if heading.strip() != f"{version} (not yet released)":
        raise ReleaseError(f"CHANGELOG.md begins with {heading.strip()!r}; expected '{version} (not yet released)'")
    if not text.strip():
        raise ReleaseError("CHANGELOG.md says nothing of this version")
    return f"chainrule {version}\n\n{text.strip()}\n"


def released(root: Path, version: str, date: str) -> dict[str, str]:
    """The files that name the version, as they are to be, by their names."""
    home = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"].get("Home")
    status = "5 - Production/Stable" if _numbers(version)[0] else "3 - Alpha"
    lived = rf"\1\nrepository-code: {home}" if home else r"\1"
    changes = {
        "src/chainrule/__init__.py": ((r'^__version__ = ".*"$', f'__version__ = "{version}"'),),
        "pyproject.toml": ((r'"Development Status :: .*"', f'"Development Status :: {status}"'),),
        "CHANGELOG.md": ((rf"^## {re.escape(version)} \(not yet released\)$", f"## {version} ({date})"),),
        "CITATION.cff": (
            (r"^version: .*$", f"version: {version}"),
            (r"^date-released: .*$", f"date-released: {date}"),
            (r"(^license: .*)$(\nrepository-code: .*$)?", lived),
        ),
    }
    texts = {}
    for name, pairs in changes.items():
        text = (root / name).read_text(encoding="utf-8")
        for pattern, put in pairs:
            text, number = re.subn(pattern, put, text, count=1, flags=re.MULTILINE)
            if not number:
                raise ReleaseError(f"{name} has no line like {pattern}")
        texts[name] = text
    return texts


if __name__ == "__main__":
    sys.exit(main())
