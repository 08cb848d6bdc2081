"""The help of every verb."""

from __future__ import annotations

import inspect
import re

import pytest
from rich.console import Console
from samples import sampled
from verb_options import VERBS

from chainrule.cli import verbs as cli_verbs
from chainrule.cli.main import app, train
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

PARAMETER = re.compile(
    r"^│ (?:\* )? *(--[\w-]+|[A-Z]+(?:\.\.\. [A-Z]+)?)(?: -\w)?(?: --no-[\w-]+)?(?: [A-Z]+(?:\.\.\.)?)?  +(\S.*?) *│$",
    re.MULTILINE,
)


def commands_of(*apps) -> set[str]:
    return {name for here in apps for name in here if not name.startswith("-")}


def test_the_table_of_options_names_every_verb() -> None:
    assert {verb.split()[0] for verb in VERBS} == commands_of(app)
    assert {verb.split()[1] for verb in VERBS if verb.startswith("train ")} == commands_of(train)


@pytest.mark.parametrize("apps", [(app, cli_verbs.VERBS), (train, cli_verbs.FAMILIES)])
def test_the_line_of_a_verb_in_the_list_is_the_first_paragraph_of_its_docstring(apps) -> None:
    commands, verbs = apps
    for name, summary in ((name, verb.help) for name, verb in verbs.items()):
        if not name.startswith("-"):
            docstring = inspect.getdoc(commands[name].default_command)
            assert docstring is not None
            assert summary == " ".join(docstring.split("\n\n")[0].split()), name


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal so wide that no help text is folded."""
    monkeypatch.setattr(app, "_console", Console(width=400))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("verb", sampled(VERBS, list(VERBS)[::3]))
def test_the_help_of_a_verb_has_its_docstring_and_every_parameter(verb: str, chainrule) -> None:
    result = chainrule(*verb.split(), "--help")
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].startswith(f"Usage: chainrule {verb}")
    told = dict(PARAMETER.findall(result.out))
    assert told.keys() == VERBS[verb]
    for name, text in told.items():
        words = re.sub(r"\[(required|default: .*|choices: .*)\]", "", text)
        assert len(words.split()) >= 3, name
    here = app
    for name in verb.split():
        here = here[name]
    docstring = inspect.getdoc(here.default_command)
    assert docstring is not None
    assert " ".join(docstring.split()) in " ".join(result.out.split())


@pytest.mark.usefixtures("wide")
def test_what_stands_in_angle_brackets_is_no_markup(chainrule) -> None:
    assert "</s> is the end of the line, <unk> all unknown tokens together." in chainrule("next", "--help").out
    assert "What to do about a literal <s>, </s> or <unk> in the text" in chainrule("train", "ngram", "--help").out


@pytest.mark.parametrize("verb", sampled(["", *VERBS], ["", *VERBS][::6]))
def test_help_fits_a_terminal_of_80_columns(verb: str, chainrule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_console", Console(width=80))
    lines = chainrule(*verb.split(), "--help").lines
    assert lines[0].startswith("Usage: ")
    assert max(map(len, lines)) == 80


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_command_alone_lists_every_verb_with_a_line(arguments: list[str], chainrule) -> None:
    result = chainrule(*arguments)
    assert (result.status, result.err) == (0, "")
    listed = dict(re.findall(r"^│ ([a-z][a-z-]*) +(\S.*?) *│$", result.out, re.M))
    assert listed.keys() == commands_of(app)
    assert all(len(text.split()) >= 3 for text in listed.values())
    assert "--debug" in result.out


def test_the_verb_train_alone_lists_every_family(chainrule) -> None:
    result = chainrule("train")
    assert (result.status, result.err) == (0, "")
    others = {
        "ngram",
        "seq2seq",
        "caption",
        "paragraph",
        "vectors",
        "classifier",
        "channel",
        "uniform",
        "tree",
        "speech",
    }
    families = ({*others, *NETWORKS, *BIDIRECTIONAL} - {"two-sided"}) | {"bidirectional"}  # the first, in files
    listed = re.findall(r"^│ ([a-z0-9-]+) +\S", result.out, re.M)
    assert listed == list(cli_verbs.FAMILIES)  # the commonest first
    assert set(listed) == families


@pytest.mark.parametrize(("former", "name"), cli_verbs.FORMER_FAMILIES.items())
def test_a_former_name_of_a_verb_works_with_a_note_and_is_not_listed(chainrule, former: str, name: str) -> None:
    told = chainrule("train", former, "--help")
    assert (told.status, told.out) == (0, chainrule("train", name, "--help").out)
    assert told.err == f"note: train {former} is now called train {name}\n"
    assert former not in commands_of(train)
    assert f" {former} " not in chainrule("train").out


def test_what_every_verb_takes_is_no_option_of_a_verb() -> None:
    """It would be taken from the arguments before the verb sees them."""
    everywhere = set(re.findall(r"--[a-z-]+", cli_verbs.EVERYWHERE))
    assert {"--threads", "--bos"} <= everywhere
    assert [verb for verb, options in VERBS.items() if everywhere & options] == []
