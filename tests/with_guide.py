"""The built guide in Chromium, opened from files: search, links, light and dark, no other host (make test-docs)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from browser import Browser, Page

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = Path(__file__).parents[1] / "site"
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if page.name != "404.html")
_CONTENT = """({
    links: [...document.querySelectorAll("a[href], img[src], link[href], script[src]")].map(one => one.href || one.src),
    anchors: [...document.querySelectorAll("[id], a[name]")].map(one => one.id || one.name),
    unseen: [...document.images].filter(image => image.offsetParent && !image.naturalWidth).map(image => image.src),
    wide: document.documentElement.scrollWidth - innerWidth,
})"""
# A button over what it copies: its rectangle meets that of the code, which scrolls within its own.
_COVERED = """[...document.querySelectorAll("pre")].filter(block => {
    const button = block.parentElement.querySelector(".md-code__button")?.getBoundingClientRect()
    const code = block.querySelector("code")?.getBoundingClientRect()
    return button && code && button.left < code.right && button.top < code.bottom
}).map(block => block.innerText)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def opened(browser: Browser, page: str, **look: Any) -> Page:
    found = browser.open((SITE / page).as_uri(), **look)
    found.call("Emulation.setFocusEmulationEnabled", enabled=True)
    found.wait("document.readyState == 'complete'")
    return found


def test_every_page_opens_every_link_leads_somewhere_and_no_other_host_is_asked(browser: Browser) -> None:
    assert len(PAGES) > 50, "make docs builds the guide"
    content: dict[str, dict[str, Any]] = {}
    for name in PAGES:
        page = opened(browser, name, width=390)
        content[name] = page.evaluate(_CONTENT)
        assert [address for address in page.requests if not address.startswith("file:")] == [], name
        assert page.problems == [], name
        page.close()
    assert [(name, one["unseen"]) for name, one in content.items() if one["unseen"]] == []
    assert [name for name, one in content.items() if one["wide"] > 0] == [], "wider than a telephone"
    broken = [
        (name, link) for name, one in content.items() for link in set(one["links"]) if leads_nowhere(link, content)
    ]
    assert broken == []
    assert sum(len(one["links"]) for one in content.values()) > 5_000


def leads_nowhere(link: str, content: dict[str, dict[str, Any]]) -> bool:
    """Whether a link leads to no file of the site, or to no place in a page of it; other hosts are not asked."""
    parts = urlsplit(link)
    if parts.scheme != "file":
        return False
    path = Path(unquote(parts.path))
    if not path.is_file() or not path.is_relative_to(SITE):
        return True
    if path.suffix != ".html" or not parts.fragment:
        return False
    anchors = content.get(path.relative_to(SITE).as_posix(), {}).get("anchors", [])
    return unquote(parts.fragment) not in [*anchors, "__drawer", "__search"]


@pytest.mark.parametrize("width", [390, 1400])
def test_search_finds_gguf_and_its_result_opens(browser: Browser, width: int) -> None:
    page = opened(browser, "index.html", width=width)
    opener = "label.md-header__button[for=__search]" if width < 960 else ".md-search__input"
    page.evaluate(f"document.querySelector('{opener}').click()")
    page.evaluate("document.querySelector('.md-search__input').focus()")
    page.wait("document.activeElement.matches('.md-search__input')")
    page.write("gguf")
    page.press("ArrowRight")  # a key, for which the page waits
    page.wait("document.querySelectorAll('.md-search-result__link').length > 3")
    results = page.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)")
    assert any("/open-models.html" in address for address in results)
    assert all(not leads_nowhere(address.partition("?")[0], {}) for address in results)
    assert [address for address in page.requests if not address.startswith("file:")] == []
    page.close()
    found = browser.open(results[0])
    found.wait("document.readyState == 'complete'")
    assert "gguf" in found.text.lower()
    found.close()


def test_the_switch_is_seen_and_goes_through_both_modes(browser: Browser) -> None:
    page = opened(browser, "ngrams.html", dark=True)
    shown = "[...document.querySelectorAll('.md-header__option label')].filter(one => one.offsetWidth)"
    seen = []
    for _ in range(4):
        assert page.evaluate(f"{shown}.length") == 1
        seen.append((page.evaluate(f"{shown}[0].title"), page.evaluate("getComputedStyle(document.body).colorScheme")))
        page.evaluate(f"{shown}[0].click()")
    assert seen[0] == seen[3]
    assert [mode for _, mode in seen[:3]] == ["dark", "light", "dark"]
    assert len({name for name, _ in seen}) == 3
    page.close()


@pytest.mark.parametrize("width", [390, 1400])
def test_code_is_coloured_copied_without_its_prompts_and_not_covered(browser: Browser, width: int) -> None:
    page = opened(browser, "ngrams.html", width=width)
    page.wait("document.querySelector('.md-code__button')")
    assert page.evaluate(_COVERED) == []
    code = "document.querySelector('pre code:has(.gp)')"
    assert page.evaluate(f"{code}.innerText").startswith("$ chainrule")
    copied = page.evaluate(f"{code}.setAttribute('data-md-copying', ''), {code}.innerText")
    assert copied.startswith("chainrule")
    assert "$" not in copied
    colours = "new Set([...document.querySelectorAll('pre code span')].map(one => getComputedStyle(one).color)).size"
    assert page.evaluate(colours) >= 3
    page.close()
