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
    saved = saved_file(page)
    assert "<h1>Remove and replace · transformer</h1>" in saved
    assert "Switched off: layer 1, head 2" in saved
    closed(page)


def press_on(page: Page, selector: str) -> None:
    """Presses the mouse, and lets it go when the page has had time to be drawn anew."""
    page.evaluate(f"document.querySelector('{selector}').scrollIntoView({{ block: 'center' }})")
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    x, y = page.evaluate(f"(one => [one.x + one.width / 2, one.y + one.height / 2])({box})")
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    page.wait(DONE)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)


def test_several_words_are_replaced_one_after_another(browser: Browser, served: Running) -> None:
    page = opened(browser, served, view="changes", model="ngram")
    field = "document.querySelector('#result input')"
    place = '[data-place="{}"]'.format
    press_on(page, place(2))
    page.wait(f"{field}?.value === 'di' && document.activeElement === {field}")
    page.write("fi fe")
    press_on(page, place(4))  # while the first is still open
    page.wait(f"{field}?.value === 'ba' && document.activeElement === {field}")
    page.wait(f"location.hash.includes('instead=ke+fi+fe+ba') && {DONE}")
    assert page.evaluate(f"{field}.value") == "ba"  # the answer has come, and the field is still there
    page.write("gi")
    press_on(page, "#result h2")  # beside it
    page.wait("location.hash.includes('instead=ke+fi+fe+gi')")
    page.wait(f"{DONE} && !{field}")
    closed(page)
    page = opened(browser, served, view="changes", model="ngram", instead="ke fi ba")
    for number, word in ((2, "di"), (0, "ke")):  # the text as it is, and a word that stays as it is
        press_on(page, place(number))
        page.wait(f"{field} && document.activeElement === {field}")
        page.write(word)
        page.press("Enter")
        page.wait(f"{DONE} && !{field}")
        assert "instead" not in page.evaluate("location.hash")
        assert page.evaluate("document.activeElement.dataset.place") == str(number)
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


def saved_file(page: Page) -> str:
    page.evaluate("globalThis.saved = null; URL.createObjectURL = file => { saved = file; return 'data:,'; }")
    page.evaluate(
        "[...document.querySelectorAll('button')].find(one => one.innerText === 'Save as one HTML file').click()"
    )
    page.wait("saved")
    return str(page.evaluate("saved.text()"))


def test_every_view_is_saved_as_a_file_that_shows_it(browser: Browser, served: Running) -> None:
    for view, part in (("way", "Softmax"), ("attention", "head"), ("changes", "As it is"), ("surprisal", "bits")):
        page = opened(browser, served, view=view, model="transformer")
        saved = saved_file(page)
        assert part in saved
        assert "--heat-1" in saved  # its styles
        assert "<canvas" not in saved
        assert "<script" not in saved
        closed(page)
