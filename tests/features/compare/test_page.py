"""The page of a comparison: all figures are on it, nothing on it is markup of others, and nothing is loaded."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.drawing.plots import svg_of
from chainrule.evaluation.measurement import GROUPS, Breakdown
from chainrule.features.compare.comparison import PLOT_NAMES, Comparison, Contender
from chainrule.features.compare.page import report_page
from chainrule.features.serve.explorer.shell import explorer_of

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = '</script><script>alert(1)</script>" onload="x" & <b>\x1b[2J\ud800'
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each; fails where an end has no beginning."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture(scope="module")
def comparison(fixtures: Path) -> Comparison:
    contenders = []
    for name, order in (("one", 1), (HOSTILE, 2)):
        model = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=order))
        frequencies = np.arange(model.vocabulary_size)
        contenders.append(
            Contender(
                name=name,
                measurement=model.evaluate(fixtures / "heldout.txt", frequencies=frequencies),
                train_seconds=1.25,
                parameters=54321,
                size=7_600_000,
                curve=((1.0, 3.0), (2.0, 2.5)) if order == 2 else (),
                level=2.75 if order == 1 else None,
                samples=("a sample", HOSTILE),
                record={"settings": {"order": order}, "note": HOSTILE},
            )
        )
    return Comparison(contenders)


def page_of(comparison: Comparison) -> str:
    drawn = {plot.name: svg_of(plot.figure()) for plot in comparison.plots()}
    return report_page(comparison, drawn, about=HOSTILE, command=["chainrule", HOSTILE], notes=[HOSTILE])


def test_the_page_leads_to_the_explorer(comparison: Comparison) -> None:
    explorer = explorer_of(["lm/", "other/lm", "a&b.arpa"])
    page = report_page(comparison, {}, about="", command=[], notes=[], explorer=explorer)
    assert "chainrule explore 1-lm=lm/ 2-lm=other/lm &#39;3-a&amp;b.arpa=a&amp;b.arpa&#39;" in page
    assert 'href="http://127.0.0.1:8100/explore/#view=surprisal&amp;model=1-lm&amp;other=2-lm"' in page
    assert "Look into the models" not in page_of(comparison)
    assert explorer_of([]) is None


def test_the_table_has_every_figure(comparison: Comparison) -> None:
    page = page_of(comparison)
    for contender in comparison.contenders:
        found = contender.measurement
        low, high = found.interval
        for cell in (f"{found.bits_per_byte:.4f}", f"{low:.4f}-{high:.4f}", f"{found.word_perplexity:,.1f}"):
            assert f">{cell}<" in page
        assert found.signature in page.replace("&lt;", "<").replace("&gt;", ">")
    for cell in ("54,321", "7.6 MB", "1.2 s", "a sample"):
        assert f">{cell}<" in page


def test_nothing_of_others_is_markup_and_nothing_is_loaded_from_elsewhere(comparison: Comparison) -> None:
    page = Page(page_of(comparison))
    assert "script" not in {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "srcset", "poster", "data"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    styles = "".join(page.texts["style"])
    assert not re.search(r"url\(|@import|</", styles)
    policies = [one.get("content") for tag, one in page.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert not any(c < " " and c != "\n" for text in page.texts.values() for c in "".join(text))


def test_headings_landmarks_and_tables_can_be_read_aloud(comparison: Comparison) -> None:
    page = Page(page_of(comparison))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == 1
    assert dict(page.elements)["html"] == {"lang": "en"}
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")
    assert tags.count("table") == tags.count("caption") == 2 + len(PLOT_NAMES)
    assert all("aria-label" in attributes for tag, attributes in page.elements if tag == "svg")
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    assert links == {f"#{attributes['id']}" for tag, attributes in page.elements if tag == "h2"}


def test_identifiers_are_unique_and_all_references_lead_somewhere(comparison: Comparison) -> None:
    page = page_of(comparison)
    names = [attributes["id"] for _, attributes in Page(page).elements if "id" in attributes]
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)|url\(#([^)]+)\)', page)) <= {(name, "") for name in names} | {
        ("", name or "") for name in names
    }


def test_every_plot_has_its_numbers_beside_it(comparison: Comparison) -> None:
    plots = comparison.plots()
    assert tuple(plot.name for plot in plots) == PLOT_NAMES
    curves, position, frequency = plots
    assert [line.label for line in curves.lines] == [HOSTILE]
    assert curves.levels == {"one": 2.75}
    page = page_of(comparison)
    assert ">2.5000<" in page
    for plot in (position, frequency):
        for line in plot.lines:
            assert all(f">{y:.4f}<" in page for y in line.y)


def test_without_matplotlib_a_page_has_the_tables_open(comparison: Comparison) -> None:
    with_plots, without = Page(page_of(comparison)), Page(report_page(comparison, {}, about="", command=[], notes=[]))
    tags, bare = [tag for tag, _ in with_plots.elements], [tag for tag, _ in without.elements]
    assert tags.count("svg") == len(PLOT_NAMES)
    assert "svg" not in bare
    assert tags.count("table") == bare.count("table")
    assert sum("open" in attributes for tag, attributes in without.elements if tag == "details") == len(PLOT_NAMES)


def test_a_comparison_gives_a_figure_of_matplotlibs(comparison: Comparison) -> None:
    [axes] = comparison.plot().axes
    assert axes.get_title(loc="left") == "Bits per byte by seconds of training"
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 3.0], [2.0, 2.5]]
    assert set(axes.lines[1].get_ydata()) == {2.75}
    assert comparison.plot("by-frequency").axes[0].get_xlabel() == "times in the training text"
    with pytest.raises(chainrule.SettingError, match="no data for the plot by-age; expected one of learning-curves"):
        comparison.plot("by-age")


def test_there_are_no_plots_without_numbers(comparison: Comparison) -> None:
    nothing = Breakdown(np.zeros(GROUPS), np.zeros(GROUPS, np.int64))
    bare = [
        replace(
            each, curve=(), level=None, measurement=replace(each.measurement, by_position=nothing, by_frequency=None)
        )
        for each in comparison.contenders
    ]
    assert Comparison(bare).plots() == []
    with pytest.raises(chainrule.SettingError, match="there is no data for the plot of these models"):
        Comparison(bare).plot()


def test_models_that_would_dwarf_the_others_are_left_out_of_plots(comparison: Comparison) -> None:
    one, two = comparison.contenders
    far = replace(one, measurement=replace(one.measurement, text_log_prob=4 * one.measurement.text_log_prob))
    assert [line.label for line in Comparison([far, two]).plots()[1].lines] == [HOSTILE]
