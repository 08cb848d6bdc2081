"""For MkDocs: generates the pages of commands and of Python names, copies what pages link to outside docs/, and reads
where the project lives."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

import chainrule

sys.path.insert(0, str(Path(__file__).parent))
from figures import figures, wrong_figures
from prose import warnings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
log = logging.getLogger("mkdocs.hooks.prose")
ARCHIVE = re.compile(r"\[([^\]]+)\]\((archive/[\w-]+\.md)\)")  # links to past decisions, which are not on the site


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Links to the repository where pyproject.toml says where that is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if home := project["urls"].get("Home"):
        config.repo_url, config.repo_name = home, project["name"]
    return config


def on_pre_build(config: MkDocsConfig) -> None:
    """Warns of pages whose sentences are long, or that have private words."""
    for warning in warnings():
        log.warning(warning)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and the files of the project that pages link to."""
    generated = {"commands.md": commands_page(), "names.md": names_page()}
    for page in (ROOT / "docs").rglob("*.md"):
        uri = page.relative_to(ROOT / "docs").as_posix()
        if uri.startswith("decisions/archive/"):
            continue
        for _, path in links_outside(uri).findall(page.read_text(encoding="utf-8")):
            copy_page(path, generated)
    for uri, content in generated.items():
        inclusion = InclusionLevel.UNDEFINED if "/" not in uri else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri, content=content, inclusion=inclusion))
    return files


def copy_page(path: str, generated: dict[str, str]) -> None:
    """Copies a page from outside docs/, and those beside it that it links to."""
    if path in generated:
        return
    generated[path] = (ROOT / path).read_text(encoding="utf-8").replace("](../../docs/", "](../../")
    for name in re.findall(r"\]\(([\w.-]+\.md)[)#]", generated[path]):
        copy_page(f"{Path(path).parent.as_posix()}/{name}", generated)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links to ../bench/results/x.md lead to the copy within the site, those to headings have the site's hyphens."""
    if page.file.src_uri in ("index.md", "gallery.md"):  # the width is for pictures
        page.meta["hide"] = ["toc"]
    if "/" in page.file.src_uri or page.file.src_uri == "changes.md":
        page.meta["search"] = {"boost": 0.2}
    if wrong := wrong_figures(markdown, figures()):
        raise PluginError(f"{page.file.src_uri}: {'; '.join(wrong)}")
    markdown = re.sub(r"!\[[^\]]*\]\(([^)]+)\.(png|webp)\)", lambda picture: in_both_modes(picture, page), markdown)
    markdown = ARCHIVE.sub(r"\1: `docs/decisions/\2`", markdown)
    markdown = re.sub(r"\]\(#[^)]+\)", lambda link: re.sub("-+", "-", link[0]), markdown)
    return links_outside(page.file.src_uri).sub(r"](\1\2", markdown)


def in_both_modes(picture: re.Match[str], page: Page) -> str:
    """A picture x.png, with x-dark.png in its place on dark pages where there is one."""
    shown, name, kind = picture[0], picture[1], picture[2]
    if not (ROOT / "docs" / page.file.src_uri).parent.joinpath(f"{name}-dark.{kind}").is_file():
        return shown
    return shown[:-1] + "#only-light)" + shown.replace(f"({name}.{kind})", f"({name}-dark.{kind}#only-dark)")


def links_outside(uri: str) -> re.Pattern[str]:
    """Matches a page's links out of docs/: the way up to docs/, one more `../`, and the path from there."""
    return re.compile(rf"\]\(((?:\.\./){{{uri.count('/')}}})\.\./([^)#]+)")


def commands_page() -> str:
    """Every verb with its help, as the terminal shows it."""
    from chainrule.cli.main import app

    verbs = [name for name in app if not name.startswith("-") and name != "train"]
    verbs += [f"train {name}" for name in app["train"] if not name.startswith("-")]
    sections = [f"## chainrule {verb}\n\n```text\n{help_of(verb)}\n```\n" for verb in sorted(verbs)]
    return "# Commands\n\n" + f"```text\n{help_of('')}\n```\n\n" + "\n".join(sections)


def help_of(verb: str) -> str:
    command = [sys.executable, "-m", "chainrule", *verb.split(), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def names_page() -> str:
    """Every public name with its docstring."""
    functions = [name for name in chainrule.__all__ if name[0].islower()]
    classes = [name for name in chainrule.__all__ if name[0].isupper()]
    parts = ["# Python names", "## Functions", *(f"::: chainrule.{name}" for name in functions)]
    parts += ["## Classes", *(f"::: chainrule.{name}" for name in classes)]
    return "\n\n".join(parts) + "\n"
