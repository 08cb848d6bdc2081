"""The explorer's page in Chromium: what a person sees, with mouse or keyboard, of every kind of model."""

from __future__ import annotations

import io
import json
import math
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
from browser import CHROMIUM, CONTROLS, Browser, Page
from running import Running, running

import chainrule
from chainrule.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: the explorer's page is not tested; apt-get install chromium"
)

TEXT = "ke di ba"
TRAIN = Path(__file__).parents[2] / "fixtures" / "train.txt"
IMAGE, SCRIPT, LINK = "<img/src=x/onerror=window.hacked=1>", "</script>", "javascript:window.hacked=1"
HOSTILE = f"{IMAGE} {SCRIPT} {LINK} \u202etxet"
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
DONE = (
    "document.querySelector('#controls [name]') && !document.querySelector('#result.is-old') && "
    "(document.querySelector('#result').children.length || document.querySelector('#message').innerText)"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory, folders: dict[str, Path]) -> Iterator[Running]:
    """A server of all kinds of models."""
    home, training = tmp_path_factory.mktemp("explored"), chainrule.TrainingConfig(steps=1, compile="no")
    small: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "context": 64}
    masked = chainrule.train(TRAIN, chainrule.MaskedConfig(**small), tokenizer="byte", training=training)
    masked.save(home / "masked")
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16, heads=2), training=training).save(home / "pairs")
    pieces = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=280)
    talker = chainrule.train(TRAIN, chainrule.TransformerConfig(**small), tokenizer=pieces, training=training)
    talker.save(home / "plain")
    chainrule.convert(home / "plain", home / "talker", to="hugging-face")
    (home / "talker" / "chat_template.jinja").write_text(TEMPLATE)
    own = {name: home / name for name in ("masked", "pairs", "talker")}
    with running({**{name: folders[name] for name in ("ngram", "mixture", "lstm", "transformer")}, **own}) as server:
        yield server


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server with a state; in the end, nothing it did may have failed or left this machine."""
    pages: list[tuple[Page, str]] = []

    def open_page(server: Running, *, width: int = 1400, dark: bool = False, **state: Any) -> Page:
        page = browser.open(f"{server.url}/explore/#{urlencode(state)}", width=width, dark=dark)
        pages.append((page, server.url))
        page.wait(DONE)
        return page

    yield open_page
    for page, url in pages:
        assert page.problems == []
        assert [address for address in page.requests if not address.startswith(f"{url}/")] == []
        page.close()


def show(page: Page, **state: Any) -> str:
    """Goes to another state by the address, and gives the text of the page."""
    page.evaluate(
        "new Promise(done => { addEventListener('hashchange', () => done(), { once: true }); "
        f"location.hash = {json.dumps(urlencode(state))}; }})"
    )
    page.wait(DONE)
    return page.text


def cells(page: Page, caption: str) -> list[list[str]]:
    """The rows of the table with a caption."""
    rows = (
        f"[...document.querySelectorAll('caption')].find(one => one.innerText.startsWith({json.dumps(caption)}))"
        ".parentElement.querySelectorAll('tbody tr')"
    )
    found: list[list[str]] = page.evaluate(f"[...{rows}].map(row => [...row.cells].map(cell => cell.innerText))")
    return found


def command_line(*arguments: object, stdin: str = "") -> str:
    """What a command prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode()))))  # type: ignore[arg-type]
        assert run([*map(str, arguments)]) == 0
    return printed.getvalue()


def unnamed(page: Page) -> list[dict[str, Any]]:
    """Controls without a name for screen readers."""
    roles = {"button", "textbox", "slider", "combobox", "spinbutton", "link"}
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    return [
        node
        for node in nodes
        if not node.get("ignored")
        and node["role"]["value"] in roles
        and not node.get("name", {}).get("value", "").strip()
    ]


@pytest.mark.parametrize("width", [1400, 375])
def test_every_view_of_every_kind_of_model(explored: Running, opened: Callable[..., Page], width: int) -> None:
    views = {
        "ngram": {"next": "The back-off chain", "surprisal": "bits per byte", "playground": "Seed 1", "beams": "step"},
        "lstm": {"next": "probability", "surprisal": "bits per byte", "playground": "Seed 1", "beams": "step"},
        "transformer": {"next": "probability", "surprisal": "bits per byte", "attention": "head 2"},
        "talker": {"next": "What each layer would say", "chat": "Write something above", "attention": "layer 2"},
        "mixture": {"next": "A log-linear mixture", "surprisal": "bits per byte", "beams": "step"},
        "pairs": {
            "next": "probability",
            "surprisal": "bits per byte",
            "beams": "step",
            "attention": "target on source",
        },
        "masked": {"next": "Gap 1", "attention": "head 2"},
    }
    page = opened(explored, width=width)
    for model, of_model in views.items():
        text = {"masked": "k[MASK] di", "pairs": "a"}.get(model, TEXT)
        for view, expected in of_model.items():
            state = {"view": view, "model": model, "text": text, "given": "ein Hund", "max_tokens": 5}
            assert expected in show(page, **state), (model, view)
            assert page.evaluate("document.querySelector('#message').innerText") == ""
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (model, view)
            assert unnamed(page) == [], (model, view)


def test_a_view_that_a_model_cannot_have_says_what_it_needs(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="chat", model="ngram")
    assert "has no chat template" in page.text
    assert "writes texts given a source" in show(page, view="playground", model="pairs")


def test_next_words_are_those_of_the_command_line(
    explored: Running, folders: dict[str, Path], opened: Callable[..., Page]
) -> None:
    page = opened(explored, view="next", model="ngram", text=TEXT)
    expected = json.loads(command_line("next", folders["ngram"], TEXT, "--top", "20", "--json"))
    exact = page.evaluate(
        "[...document.querySelectorAll('.bars td:nth-child(3) span')].map(shown => Number(shown.title))"
    )
    assert exact == pytest.approx([row["prob"] for row in expected], abs=1e-6)
    assert [row[0] for row in cells(page, "The likeliest tokens")] == [row["token"] for row in expected]
    heights = "['.drawn', '.model'].map(name => document.querySelector(name).offsetHeight)"
    assert 0 < page.evaluate(f"{heights}[0]") < page.evaluate(f"{heights}[1]")  # the grey of the model is to be seen


def test_next_words_of_several_models_are_those_of_the_command_line(
    browser: Browser, explored: Running, folders: dict[str, Path], opened: Callable[..., Page]
) -> None:
    page = opened(explored, view="next", model="ngram", other="mixture", text=TEXT)
    command = page.evaluate("[...document.querySelectorAll('#command-list pre')].at(-1).textContent")
    assert command == f"chainrule next ngram/ '{TEXT}' --top 10 --also mixture/"
    expected = json.loads(
        command_line("next", folders["ngram"], TEXT, "--top", "10", "--also", folders["mixture"], "--json")
    )
    rows = cells(page, "The likeliest tokens of each model")
    assert [row[0] for row in rows] == [row["token"] for row in expected]
    exact = page.evaluate("[...document.querySelectorAll('.beside td span[title]')].map(one => Number(one.title))")
    both = [row[f"prob_{folders[name].name}"] for row in expected for name in ("ngram", "mixture")]
    assert [value for value in exact if not math.isnan(value)] == pytest.approx(both, abs=1e-6)
    state = {"view": "next", "model": "ngram", "other": "talker", "text": TEXT}
    refused = browser.open(f"{explored.url}/explore/#{urlencode(state)}")
    refused.wait(DONE)
    assert "cannot share rows" in refused.text
    assert "Or choose words under Suggest." in refused.text
    refused.close()
    words = show(page, view="next", model="ngram", other="talker", unit="words", text=TEXT)
    assert words.count("The likeliest words") == 2
    assert "(all)" in page.evaluate("document.querySelector('[name=other]').innerText")
    show(page, view="surprisal", model="ngram", other="(all)", text=TEXT)  # which compares two
    assert page.evaluate("document.querySelector('[name=other]').value") == "mixture"


def test_surprisal_is_that_of_the_command_line(
    explored: Running, folders: dict[str, Path], opened: Callable[..., Page]
) -> None:
    state = {"view": "surprisal", "model": "ngram", "other": "mixture", "text": TEXT}
    page = opened(explored, **state)

    def check(costs: list[float], of_other: list[float]) -> None:
        """The units are those of the table, to the digits that it shows."""
        rows = cells(page, "Surprisal by unit")
        shown = np.array([[float(row[i].replace("−", "-")) for i in (1, -2, -1)] for row in rows])
        expected = np.column_stack([costs, of_other, np.subtract(costs, of_other)]) / math.log(2)
        np.testing.assert_allclose(shown, expected, rtol=0, atol=6e-4)

    scored = [command_line("score", folders[name], "--tokens", stdin=f"{TEXT}\n") for name in ("ngram", "mixture")]
    check(*[[-float(row.split("\t")[1]) for row in rows.strip().split("\n")] for rows in scored])
    for by in ("words", "characters", "bytes"):
        show(page, **state, by=by)
        bodies = [{"model": name, "text": TEXT, "by": by} for name in ("ngram", "mixture")]
        records = [explored.client.post("/v1/explore/surprisal", json=body).json() for body in bodies]
        check(*[[-unit["text_log_prob"] for unit in record["units"]] for record in records])


def test_attention_is_that_of_the_library(
    explored: Running, folders: dict[str, Path], opened: Callable[..., Page]
) -> None:
    page = opened(explored, view="attention", model="transformer", text="ke di", head=1, row=3)
    [layer] = chainrule.attend(chainrule.load(folders["transformer"]), "ke di").maps
    listed = cells(page, "The tokens with the most weight")
    shown = {int(row[0].split(".")[0]) - 1: float(row[1]) for row in listed}
    expected = layer.weights[1, 3]
    assert [shown.get(i, 0.0) for i in range(len(expected))] == pytest.approx(expected.tolist(), abs=6e-5)


def test_with_the_keyboard_alone(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, model="ngram")
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.name ?? ''"

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            page.press("Tab")
            if str(page.evaluate(focused)).startswith(wanted):
                return
        raise AssertionError(f"Tab never comes to {wanted!r}")

    tab_to("text")
    page.write("ke di ")
    page.wait("document.querySelector('#result').innerText.includes('ke di')")
    page.wait(DONE)
    tab_to("append ")
    token = page.evaluate("document.activeElement.innerText")
    page.press("Enter")
    page.wait(f"document.querySelector('[name=text]').value === {json.dumps('ke di ' + token)}")
    page.wait(DONE)
    tab_to("why ")
    page.press("Tab")
    tab_to("why ")
    page.press("Enter")
    assert str(page.evaluate(focused)).startswith("why ")  # the focus stays where it was
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_a_row_of_attention_is_chosen_with_the_arrows(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="attention", model="talker", text="ke di ba", row=0)
    page.evaluate("document.querySelector('[aria-label=\"Token that looks\"]').focus()")
    for row in ("1", "2"):
        page.press("ArrowDown")
        page.wait(f"document.activeElement.value === {json.dumps(row)} && location.hash.includes('row={row}')")


LOOKS: dict[str, dict[str, Any]] = {  # a state of each view, with what is most likely not to fit or to be pale
    "next": {"model": "ngram", "text": TEXT, "top_k": 3},
    "beside": {"view": "next", "model": "ngram", "other": "mixture", "text": TEXT},
    "layers": {"view": "next", "model": "talker", "text": TEXT},
    "surprisal": {"model": "ngram", "text": f"{TEXT} unheardof"},
    "difference": {"view": "surprisal", "model": "ngram", "other": "lstm", "text": f"{TEXT} unheardof"},
    "playground": {"model": "ngram"},
    "chat": {"model": "talker", "messages": '[{"role": "user", "content": "hello"}]', "max_tokens": 4},
    "beams": {"model": "ngram"},
    "attention": {"model": "talker", "without": "true"},
    "lines": {"view": "attention", "model": "talker", "as": "lines", "special": "out"},
    "way": {"model": "talker", "text": TEXT, "top_k": 3},
    "lens": {"model": "talker", "text": TEXT},
    "changes": {"model": "talker", "text": TEXT, "off": "1.2,2.attention"},
}


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", LOOKS)
def test_how_a_view_looks(name: str, explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, **{"view": name, **LOOKS[name]})
    for dark in (False, True):
        for width in (1400, 800, 390):
            page.look(width=width, dark=dark)
            ratio, text = page.contrast
            assert ratio >= 4.5, (dark, width, text)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (dark, width)
    page.look(width=1400)
    # Tab goes through all controls in the order in which they stand in the page, and are read.
    page.evaluate("document.activeElement.blur()")
    controls = page.evaluate(f"{CONTROLS}.length")
    page.evaluate("getSelection().collapse(document.body, 0)")
    order = []
    for _ in range(controls):
        page.press("Tab")
        order.append(page.evaluate(f"{CONTROLS}.indexOf(document.activeElement)"))
    assert order == list(range(controls))


def test_colours_follow_when_the_mode_changes(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="surprisal", model="ngram", text=TEXT)
    behind = "getComputedStyle(document.querySelector('.unit')).backgroundColor"
    light = page.evaluate(behind)
    page.look(width=1400, dark=True)
    page.wait(f"{behind} !== {json.dumps(light)}")
    page.evaluate(
        "(field => { field.value = 64; field.dispatchEvent(new Event('input')) })"
        "(document.querySelector('[name=scale]'))"
    )
    page.wait(
        "location.hash.includes('scale=64') && document.querySelector('.legend').innerText.includes('64 or more')"
    )


def test_special_tokens_are_not_chosen_first_and_can_be_left_out(
    explored: Running, opened: Callable[..., Page]
) -> None:
    page = opened(explored, view="attention", model="talker", text="ke di ba")
    options = "[...document.querySelector('[aria-label=\"Token that looks\"]').options].map(one => one.text)"
    every = page.evaluate(options)
    chosen = page.evaluate("document.querySelector('[aria-label=\"Token that looks\"]').selectedOptions[0].text")
    assert "<" in every[0]
    assert chosen == every[-1]
    page.evaluate("[...document.querySelectorAll('button')].find(one => one.innerText.startsWith('Leave out')).click()")
    page.wait(f"{options}.length === {len(every) - 1}")
    assert page.evaluate(options) == every[1:]


def test_an_address_that_names_what_is_not_there_is_told(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="nowhere", model="nobody", other="none", temperature="hot", top_k="1.5", colour="red")
    told = page.evaluate("[...document.querySelectorAll('#wrong p')].map(one => one.innerText)")
    for says in (
        "view nowhere; expected next, surprisal",
        "model nobody; expected ngram, mixture",
        "other none; expected ngram",
        "temperature hot; expected a number from 0 to 2",
        "top_k 1.5; expected a whole number from 0 to 100",
        "colour red; expected a field of this page",
    ):
        assert sum(says in one for one in told) == 1, told
    assert len(told) == 6
    page.evaluate("[...document.querySelectorAll('#views button')].find(one => one.innerText === 'Surprisal').click()")
    assert page.evaluate("document.querySelector('#wrong').childElementCount") == 0
    assert "messages [; expected a conversation" in show(page, view="chat", model="talker", messages="[")
    assert "There is no head 99 in text, layer 2" in show(
        page, view="attention", model="talker", text="ke", layer=1, head=98
    )
    page.evaluate(
        "(field => { field.value = 'transformer'; field.dispatchEvent(new Event('input')) })"
        "(document.querySelector('[name=model]'))"
    )
    page.wait(f"{DONE} && location.hash.includes('transformer')")
    assert "There is no head" not in page.text  # another model has heads of its own
    assert "layer=" not in page.evaluate("location.hash")


def test_the_colours_of_differences_end_where_their_slider_says(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="surprisal", model="ngram", other="lstm", text=TEXT, difference=12)
    legend = page.evaluate("[...document.querySelectorAll('.legend .key')].map(one => one.innerText)")
    assert (legend[0], legend[-1]) == ("−12 or less", "12 or more")
    sliders = "[...document.querySelectorAll('#controls [type=range]')].map(one => [one.name, one.value])"
    assert page.evaluate(sliders) == [["difference", "12"]]
    show(page, view="surprisal", model="ngram", text=TEXT)
    assert page.evaluate(sliders) == [["scale", "32"]]
    assert "After “… di ba ke di ba ke di ba”" in show(page, view="next", model="ngram", text="ke di ba " * 4)


def test_beams_on_a_narrow_screen_are_a_list_of_lists(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="beams", model="ngram", text="ke", length=4, width=390)
    record = explored.client.post(
        "/v1/explore/beams", json={"model": "ngram", "text": "ke", "max_tokens": 4, "size": 3}
    ).json()
    assert not page.evaluate("document.querySelector('.tree').checkVisibility()")
    best = page.evaluate("[...document.querySelectorAll('.outline strong')].map(one => one.innerText).join(' ')")
    path = [record["shown"][i] for i in record["best"]]
    assert best == " ".join(path)
    assert page.evaluate("getComputedStyle(document.querySelector('button:disabled')).cursor") == "default"


def test_words_in_place_of_tokens(explored: Running, folders: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(explored, view="next", model="ngram", unit="words", text="ke d")
    expected = chainrule.load(folders["ngram"]).complete("ke d", 20)
    assert [row[0] for row in cells(page, "The likeliest words")] == [one.text for one in expected]
    page.evaluate("document.querySelector('.token').click()")
    page.wait(f"document.querySelector('[name=text]').value === {json.dumps('ke d' + expected[0].added)}")


def test_a_beam_grows_step_by_step(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="beams", model="ngram", text="ke", length=4)
    boxes = "decodeURIComponent(document.querySelector('.drawing').src).split('<g data-step').length"
    counts = [page.evaluate(boxes)]
    while page.evaluate("!document.querySelector('[aria-label=\"one step back\"]').disabled"):
        page.evaluate("document.querySelector('[aria-label=\"one step back\"]').click()")
        counts.append(page.evaluate(boxes))
    assert len(counts) > 1
    assert counts == sorted(set(counts), reverse=True)
    assert "Step 1:" in page.text


def test_a_conversation(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="chat", model="talker", max_tokens=4)
    page.evaluate("document.querySelector('[name=text]').focus()")
    page.write("<b>hello</b>")
    page.evaluate("[...document.querySelectorAll('#controls button')].find(one => one.innerText === 'Send').click()")
    page.wait(f"document.querySelectorAll('.talk article').length === 2 && {DONE}")
    shown = page.evaluate("[...document.querySelectorAll('.talk article')].map(one => one.innerText)")
    assert "<b>hello</b>" in shown[0]
    talk = [{"role": "user", "content": "<b>hello</b>"}]
    body = {"model": "talker", "messages": talk, "temperature": 1, "max_tokens": 4, "seed": 1}
    answer = explored.client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    printable = [letter for letter in answer if letter.isprintable() and letter not in "\ufffd "]
    assert all(letter in shown[1] for letter in printable)


def test_hostile_names_tokens_and_texts_stay_text(
    browser: Browser, opened: Callable[..., Page], tmp_path: Path
) -> None:
    long = "a" * 10_000
    (tmp_path / "text.txt").write_text(f"{HOSTILE} {long} {HOSTILE}\n" * 3)
    chainrule.train(tmp_path / "text.txt", chainrule.NGramConfig(order=2), tokenizer="whitespace").save(tmp_path / "lm")
    name = "<img src=x onerror=window.hacked=1>"
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    with running({name: tmp_path / "lm"}) as server:
        page = opened(server, view="next", text=HOSTILE)
        assert "‹U+202E›" in page.text
        assert max(map(len, page.text.split("\n"))) < 1000  # the long token is shortened
        assert page.evaluate("document.title").endswith(name)
        for view in ("surprisal", "beams", "playground", "next"):
            assert SCRIPT in show(page, view=view, text=HOSTILE), view
            images = "[...document.images].filter(one => !one.src.startsWith('data:')).length"
            assert page.evaluate(f"[{images}, document.scripts.length, typeof window.hacked]") == [0, 1, "undefined"]
        page.evaluate(
            "[...document.querySelectorAll('button')].find(one => one.innerText.startsWith('Save as')).click()"
        )
    saved = tmp_path / "next.html"
    for _ in range(200):
        if saved.exists():
            break
        page.evaluate("new Promise(done => setTimeout(done, 50))")
    offline = browser.open(saved.as_uri())
    offline.wait("document.readyState === 'complete' && document.querySelector('.bars')")
    assert SCRIPT in offline.text
    assert offline.evaluate(f"[{images}, document.scripts.length, typeof window.hacked]") == [0, 0, "undefined"]
    assert offline.problems == []
    assert offline.requests == [saved.as_uri()]
    offline.close()


def test_a_long_text_is_cut_and_the_page_says_so(explored: Running, opened: Callable[..., Page]) -> None:
    page = opened(explored, view="next", model="ngram")
    page.evaluate(  # lines, since browsers are slow to lay out a single one of a megabyte
        "(field => { field.value = ('ke di ba '.repeat(100) + '\\n').repeat(1200);"
        " field.dispatchEvent(new Event('input')) })(document.querySelector('[name=text]'))"
    )
    page.wait("document.querySelector('#result').innerText.includes('1,061,200 characters are not read')")
    assert page.evaluate("location.hash.length") < 1000
    page.evaluate("[...document.querySelectorAll('#views button')].find(one => one.innerText === 'Surprisal').click()")
    page.wait("document.querySelector('#result').innerText.includes('1,061,200 characters of the text are left out')")


def test_the_page_comes_back_with_the_server_and_sees_new_models(
    folders: dict[str, Path], browser: Browser, tmp_path: Path
) -> None:
    chainrule.load(folders["ngram"]).save(tmp_path / "lm")
    with running({"lm": tmp_path / "lm"}) as server:
        page = browser.open(f"{server.url}/explore/#text=ke")
        page.wait(DONE)
        assert "The files of" not in page.text
        chainrule.load(folders["likelihood"]).save(tmp_path / "lm", overwrite=True)
        show(page, text="ke di")
        assert "The files of lm have changed" in page.text
    page.evaluate("location.hash = 'text=ba'")
    page.wait("document.querySelector('#message').innerText.includes('does not answer')")
    with running({"lm": tmp_path / "lm"}, port=server.port):
        page.wait(f"{DONE} && document.querySelector('#result').innerText.includes('After “ba”')")
        assert page.evaluate("document.querySelector('#message').innerText") == ""
    page.close()


def test_a_key_is_asked_for_and_kept_in_memory_only(folders: dict[str, Path], browser: Browser) -> None:
    with running({"lm": folders["ngram"]}, key="a-secret-key") as server:
        page = browser.open(f"{server.url}/explore/#text=ke")
        page.wait("document.querySelector('[type=password]')")
        assert "The server wants its key" in page.text
        page.evaluate("document.querySelector('[type=password]').focus()")
        page.write("a-secret-key")
        page.press("Tab")
        page.press("Enter")
        page.wait("document.querySelector('.bars')")
        kept = "[location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()"
        assert "a-secret-key" not in page.evaluate(kept)
        page.close()
