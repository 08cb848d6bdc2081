"""What make release refuses and writes, without building or tagging anything."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "release"))
    for name in ("build", "environments", "release"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import release

    return release


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the files that name the version, none of them committed."""
    for name in ("src/chainrule/__init__.py", "pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "src/chainrule/__init__.py").write_text('__version__ = "1.2.0"\n', encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(Exception, match=r"\w") as caught:
        call(*arguments)
    assert type(caught.value).__name__ == "ReleaseError"
    return str(caught.value)


def test_a_version_must_be_newer(release: ModuleType, clone: Path) -> None:
    assert refusal(release.check_version, clone, "1.2.0") == "1.2.0 is not newer than 1.2.0"
    assert refusal(release.check_version, clone, "1.1.9") == "1.1.9 is not newer than 1.2.0"
    assert "three numbers" in refusal(release.check_version, clone, "1.3")
    release.check_version(clone, "1.10.0")


def test_changes_that_are_not_committed_are_refused(release: ModuleType, clone: Path) -> None:
    assert "?? CHANGELOG.md" in refusal(release.check_clean, clone)


def test_notes_are_the_top_section_of_the_version(release: ModuleType) -> None:
    changelog = "# Changes\n\n## 1.3.0 (not yet released)\n\n- More.\n\n## 1.2.0 (2026-01-01)\n\n- Less.\n"
    assert release.notes_of(changelog, "1.3.0") == "chainrule 1.3.0\n\n- More.\n"
    assert "'1.3.0 (not yet released)'; expected '1.4.0" in refusal(release.notes_of, changelog, "1.4.0")
    assert "begins with '1.2.0 (2026-01-01)'" in refusal(release.notes_of, changelog[40:], "1.2.0")


def test_every_file_that_names_the_version_is_written(release: ModuleType, clone: Path) -> None:
    changelog = "# Changes\n\n## 2.0.0 (not yet released)\n\n- More.\n"
    (clone / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    texts = release.released(clone, "2.0.0", "2030-01-02")
    assert texts["src/chainrule/__init__.py"] == '__version__ = "2.0.0"\n'
    assert texts["CHANGELOG.md"] == changelog.replace("not yet released", "2030-01-02")
    assert "\nversion: 2.0.0\ndate-released: 2030-01-02\nlicense: Apache-2.0\nkeywords" in texts["CITATION.cff"]
    assert tomllib.loads(texts["pyproject.toml"])["project"]["classifiers"][0].endswith("5 - Production/Stable")


def test_where_the_project_lives_is_written_once_it_is_set(release: ModuleType, clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text("## 2.0.0 (not yet released)\n", encoding="utf-8")
    project = (clone / "pyproject.toml").read_text(encoding="utf-8")
    home, number = re.subn(r"^urls = {.*?}", 'urls = { Home = "https://home.example" }', project, flags=re.MULTILINE)
    assert number == 1
    (clone / "pyproject.toml").write_text(home, encoding="utf-8")
    cited = release.released(clone, "2.0.0", "2030-01-02")["CITATION.cff"]
    assert "\nlicense: Apache-2.0\nrepository-code: https://home.example\nkeywords" in cited


def test_the_notes_of_a_version_are_a_dozen_lines() -> None:
    for section in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        assert 1 <= section.count("\n- ") <= 15
