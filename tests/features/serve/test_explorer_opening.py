"""What the explorer's page shows before anything is typed, and what pointing at attention shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from browser import CHROMIUM, Browser, Page
from running import running

import chainrule

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: the explorer's page is not tested; apt-get install chromium"
)

LINES = [f"the cat number {i} sat on the mat" for i in range(40)]
SMALL: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "context": 32}
DONE = (
    "document.querySelector('#controls [name]') && !document.querySelector('#result.is-old') && "
    "document.querySelector('#result').children.length"
)
FIELD = "document.querySelector('[name=text]').value"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    home = tmp_path_factory.mktemp("opening")
    training = chainrule.TrainingConfig(steps=1, compile="no")
    chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=2)).save(home / "counted")
    network = chainrule.train(chainrule.Lines(LINES), chainrule.TransformerConfig(**SMALL), training=training)
    network.record["example"] = {"text": "the cat number 7 sat on the mat", "held_out": True}
    network.save(home / "network")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    with running({name: home / name for name in ("counted", "network")}) as server:
        opened = browser.open(f"{server.url}/explore/")
        opened.wait(DONE)
        yield opened
        assert opened.problems == []
    browser.close()


def go(page: Page, **state: Any) -> None:
    page.evaluate(
        "new Promise(done => { addEventListener('hashchange', () => done(), { once: true }); "
        f"location.hash = {json.dumps(urlencode(state) or 'view=next')}; }})"
    )
    page.wait(DONE)


def test_views_open_with_an_example_until_something_is_typed(page: Page) -> None:
    go(page, model="network")
    assert page.evaluate(FIELD) == "the cat number 7"  # to be continued
    assert "text=" not in page.evaluate("location.hash")
    go(page, model="network", view="surprisal")
    assert page.evaluate(FIELD) == "the cat number 7 sat on the mat"
    go(page, model="network", view="next", text="")  # an empty text may be meant
    assert page.evaluate(FIELD) == ""
    go(page, model="counted")
    assert page.evaluate(FIELD) == "the cat number 0"
    page.evaluate("document.querySelector('[name=text]').focus()")
    page.write("the mat ")  # in place of the example
    page.wait("location.hash.includes('text=the+mat')")
    page.evaluate("[...document.querySelectorAll('#views button')].find(one => one.innerText === 'Beams').click()")
    page.wait(f"{DONE} && document.querySelector('.drawing')?.complete")
    assert page.evaluate(FIELD) == "the mat "
    assert page.evaluate("document.querySelector('.drawing').parentElement.scrollLeft") == 0


def test_pointing_at_a_row_shows_where_it_looks_until_the_pointer_leaves(page: Page) -> None:
    heading = "document.querySelector('#result h3').innerText"
    for kind in ("map", "lines"):
        go(page, view="attention", model="network", **{"as": kind})
        assert page.evaluate(heading) == "Where “mat” looks"  # the last token
        drawn = {"map": ".framed", "lines": ".lines"}[kind]
        page.wait(f"document.querySelector('{drawn}').getBoundingClientRect().height > 100")
        page.evaluate(f"document.querySelector('{drawn}').scrollIntoView()")
        box = f"(one => [one.left, one.top, one.height])(document.querySelector('{drawn}').getBoundingClientRect())"
        x, y, height = page.evaluate(box)
        rows = page.evaluate("document.querySelector('[aria-label=\"Token that looks\"]').length")
        line = y + (4 + 20 * 1.5 if kind == "lines" else height - (rows - 1.5) * min(36, 512 // rows))
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 80, y=line)
        page.wait(f"{heading} === 'Where “the” looks'")
        page.call("Input.dispatchMouseEvent", type="mousePressed", x=x + 80, y=line, button="left", clickCount=1)
        page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + 80, y=line, button="left", clickCount=1)
        page.wait("location.hash.includes('row=1')")
