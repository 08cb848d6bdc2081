"""A package of others, tests/plugin, brings a kind of models: all verbs know it; what is wrong with one is one line."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from command_line import Result, run_elsewhere

PLUGIN = Path(__file__).with_name("plugin")
# Serves, and asks the explorer and a route for its next words, in one process.
SERVE = """
import json, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from running import running
with running({"markov": Path(sys.argv[1])}) as server:
    body = {"model": "markov", "prompt": "the dog", "max_tokens": 3, "seed": 1}
    print(json.dumps(server.client.post("/v1/completions", json=body).json()["choices"][0]))
    print(server.client.get("/explore/").status_code)
"""


def install(home: Path, name: str, entry: str) -> None:
    """Write what an installer writes: the metadata of a distribution with an entry point."""
    folder = home / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[chainrule.plugins]\n{name} = {entry}\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installation, with a text and the models markov, of the plug-in, and ngram."""
    home = tmp_path_factory.mktemp("plugins")
    shutil.copytree(PLUGIN / "chainrule_markov", home / "chainrule_markov")
    points = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]["chainrule.plugins"]
    [(name, entry)] = points.items()
    install(home, name, entry)
    (home / "text").write_text("the dog bit the man\nthe man saw the dog\na dog saw a man\n" * 40)
    (home / "heldout").write_text("the dog saw the man\na man bit the dog\nthe dog bit\n")
    trained, counted = verbs(
        home,
        ["train", "markov", "text", "-o", "markov", "--reach", 2],
        ["train", "ngram", "text", "-o", "ngram", "--order", 2],
    )
    assert (trained.status, trained.err) == (0, "")
    assert counted.status == 0
    return home


def verbs(home: Path, *commands: list[object]) -> list[Result]:
    """Run verbs where the packages of a folder are installed."""
    return run_elsewhere(commands, home, home)


def log_prob(home: Path, tokens: list[str], reach: int = 2) -> float:
    """log P of a text and its end by the recursion of Witten and Bell, from counts of the training text."""
    lines = [["<s>", *line.split(), "</s>"] for line in (home / "text").read_text().splitlines()]
    counts = Counter(
        (tuple(line[i - n : i]), line[i])
        for line in lines
        for i in range(1, len(line))
        for n in range(min(reach, i) + 1)
    )
    kinds = {word for line in lines for word in line[1:]} | {"<unk>"}

    def p(context: tuple[str, ...], word: str) -> float:
        lower = p(context[1:], word) if context else 1 / len(kinds)
        followers = {token: count for (before, token), count in counts.items() if before == context}
        if not followers:
            return lower
        return (followers.get(word, 0) + len(followers) * lower) / (sum(followers.values()) + len(followers))

    text = ["<s>", *(token if token in kinds else "<unk>" for token in tokens), "</s>"]
    return sum(math.log(p(tuple(text[max(0, i - reach) : i]), text[i])) for i in range(1, len(text)))


def test_all_verbs_know_the_model_of_a_plug_in(home: Path) -> None:
    scored, measured, written, compared, mixed, again, verified, listed = verbs(
        home,
        ["score", "markov", "heldout", "--json"],
        ["evaluate", "markov", "heldout", "--json"],
        ["generate", "markov", "the", "--seed", 1, "-n", 2],
        ["compare", "markov", "ngram", "--text", "heldout"],
        ["mix", "markov", "ngram", "--tune", "heldout", "-o", "mixed"],
        ["evaluate", "mixed", "heldout", "--json"],
        ["verify", "mixed", "--distribution"],
        ["plugins", "--json"],
    )
    expected = [log_prob(home, line.split()) for line in (home / "heldout").read_text().splitlines()]
    assert [json.loads(line)["log_prob"] for line in scored.lines] == pytest.approx(expected, rel=1e-4), scored.err
    assert 1 < measured.json["perplexity"] < 40
    assert written.out.count("the") >= 2
    assert {"markov", "ngram"} <= set(re.findall(r"^\w+", compared.out, re.MULTILINE)), compared.err
    assert mixed.status == 0, mixed.err
    assert again.json["perplexity"] <= measured.json["perplexity"] * 1.001
    assert "yes" in verified.out
    assert listed.json == [{"plugin": "markov", "brings": ["family markov", "verb train markov"], "problem": None}]


def test_a_model_of_a_plug_in_is_served(home: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(home), *sys.path])}
    command = [sys.executable, "-c", SERVE, home / "markov", Path(__file__).parent / "features" / "serve"]
    served = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=home)
    assert served.stdout.splitlines()[-1:] == ["200"], served.stderr
    assert json.loads(served.stdout.splitlines()[0])["finish_reason"] in ("stop", "length")


def test_what_is_wrong_with_a_plug_in_is_told_in_a_line_and_all_else_works(home: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    (tmp_path / "taker.py").write_text(
        "from chainrule.kinds import Lazy, Plugin, Verb\n"
        "PLUGIN = Plugin(verbs=[Verb('score', 'Measure', 'Another score.', Lazy('taker:score'))])\n"
    )
    (tmp_path / "stranger.py").write_text("PLUGIN = 5\n")
    for name in ("broken", "taker", "stranger"):
        install(tmp_path, name, f"{name}:PLUGIN")
    measured, refused, unknown = verbs(
        tmp_path,
        ["evaluate", home / "ngram", home / "heldout"],
        ["train", "markov", home / "text", "-o", "m"],
        ["evaluate", home / "markov", home / "heldout"],
    )
    assert (measured.status, measured.err) == (0, "")
    assert refused.status == 2
    notes = sorted(refused.err.splitlines()[:3])
    assert notes[0].startswith("note: the plug-in broken is left out: broken:PLUGIN cannot be imported: ModuleNotFound")
    assert notes[1].startswith(
        "note: the plug-in stranger is left out: stranger:PLUGIN is of type int; expected a chainrule"
    )
    assert notes[2] == (
        "note: the plug-in taker is left out: it brings the verb score, which chainrule has; choose another name"
    )
    assert "family 'markov' is not known to this version" in unknown.err
    assert "the plug-in that brings it" in unknown.err
    assert "UserWarning" not in unknown.err


def test_a_row_of_a_plug_in_that_names_nothing_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "holes.py").write_text(
        "from chainrule.kinds import Lazy, Plugin, Verb\n"
        "PLUGIN = Plugin(verbs=[Verb('hole', 'Use', 'Nothing.', Lazy('holes:nothing'))])\n"
    )
    (tmp_path / "words.py").write_text("from chainrule.kinds import Plugin\nPLUGIN = Plugin(verbs=['x'])\n")
    for name in ("holes", "words"):
        install(tmp_path, name, f"{name}:PLUGIN")
    called, listed = verbs(tmp_path, ["hole"], ["plugins"])
    *_, message = called.err.splitlines()
    assert called.status == 1
    assert message.startswith("chainrule: holes:nothing, of a plug-in, cannot be imported: AttributeError: ")
    assert listed.status == 0, listed.err
    assert "words:PLUGIN has a row that is none of its table" in listed.out


def test_the_page_on_plug_ins_has_the_code_of_this_one() -> None:
    page = (PLUGIN.parents[1] / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", page, re.DOTALL)
    for path in ("pyproject.toml", "chainrule_markov/__init__.py", "chainrule_markov/model.py"):
        assert (PLUGIN / path).read_text() in blocks, path
