"""The views of the way, the logit lens, and removing and replacing, in Chromium: all steps, clicks, sizes and modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from browser import CHROMIUM, Browser, Page
from test_explorer_page import DONE, unnamed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from running import Running

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: the explorer's page is not tested; apt-get install chromium"
)

TEXT = "ke di ba"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def opened(browser: Browser, server: Running, *, width: int = 1400, dark: bool = False, **state: Any) -> Page:
    page = browser.open(f"{server.url}/explore/#{urlencode({'text': TEXT, **state})}", width=width, dark=dark)
    page.wait(DONE)
    return page


def closed(page: Page, *, is_refused: bool = False) -> None:
    """Checks that nothing failed, but for what a model is refused, and closes the page."""
    problems = [problem for problem in page.problems if not (is_refused and "400" in problem["text"])]
    assert problems == []
    page.close()


def click(page: Page, name: str) -> None:
    page.evaluate(f"[...document.querySelectorAll('button')].find(one => one.ariaLabel === '{name}').click()")
    page.wait(DONE)


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (375, True)])
def test_all_steps_unfold_and_are_readable(browser: Browser, served: Running, width: int, dark: bool) -> None:
    steps = {
        ("way", "transformer"): ["The vector of the token", "Layer 1", "What adds up", "Logits", "Softmax", "drawn"],
        ("way", "lstm"): ["Layer 1", "forget gate f", "Softmax", "Temperature and cuts"],
        ("way", "ngram"): ["The chain of back-offs", "Probabilities", "The token that is drawn"],
        ("changes", "transformer"): ["layer 1", "Nothing is changed yet", "As it is"],
        ("changes", "ngram"): ["no heads to switch off"],
        ("way", "mixture"): ["The way through a model of family"],
        ("lens", "ngram"): ["This model has no layers"],
    }
    for (view, model), parts in steps.items():
        page = opened(browser, served, view=view, model=model, width=width, dark=dark)
        page.evaluate("document.querySelectorAll('#result details').forEach(one => { one.open = true; })")
        assert [part for part in parts if part not in page.text] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.contrast[0] >= 4.5, page.contrast
        assert unnamed(page) == []
        closed(page, is_refused=(view, model) in (("way", "mixture"), ("lens", "ngram")))


def test_a_head_is_switched_off_and_a_word_replaced_by_clicks(browser: Browser, served: Running) -> None:
    page = opened(browser, served, view="changes", model="transformer")
    click(page, "layer 1, head 2")
    assert "Changed: without layer 1, head 2" in page.text
    assert "off=1.2" in page.evaluate("location.hash")
    click(page, "another word in the place of di")
    page.write("x")
    page.press("Enter")
    page.wait("location.hash.includes('instead')")
    page.wait(DONE)
    assert "the other text, without layer 1, head 2" in page.text
    assert "chainrule inspect transformer/" in page.evaluate("document.querySelector('#command-list').textContent")
    closed(page)


def test_the_drawn_token_is_appended_and_steps_stay_open(browser: Browser, served: Running) -> None:
    page = opened(browser, served, view="way", model="ngram", seed=3)
    added = page.evaluate(
        "(() => { const open = [...document.querySelectorAll('.way details')].at(-1); open.open = true; "
        "[...open.querySelectorAll('button')].find(one => one.innerText === 'Append it').click(); "
        "return open.querySelector('.differs').innerText; })()"
    )
    page.wait(DONE)
    assert page.evaluate("document.querySelector('textarea').value") == f"{TEXT} {added}"
    assert page.evaluate("[...document.querySelectorAll('.way details')].at(-1).open")
    closed(page)


def test_every_view_is_saved_as_a_file_that_shows_it(browser: Browser, served: Running) -> None:
    for view, part in (("way", "Softmax"), ("attention", "head"), ("changes", "As it is"), ("surprisal", "bits")):
        page = opened(browser, served, view=view, model="transformer")
        page.evaluate("globalThis.saved = null; URL.createObjectURL = file => { saved = file; return 'data:,'; }")
        page.evaluate(
            "[...document.querySelectorAll('button')].find(one => one.innerText === 'Save as one HTML file').click()"
        )
        page.wait("saved")
        saved = page.evaluate("saved.text()")
        assert part in saved
        assert "--heat-1" in saved  # its styles
        assert "<canvas" not in saved
        assert "<script" not in saved
        closed(page)
