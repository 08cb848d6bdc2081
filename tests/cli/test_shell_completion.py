"""Completion for every shell."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import Literal, get_args

import pytest
from samples import sampled
from verb_options import VERBS

from chainrule.cli.main import app

Shell = Literal["bash", "zsh", "fish"]


@cache
def completion(shell: Shell) -> str:
    """It names all options; making it takes seconds."""
    return app.generate_completion(shell=shell)


@pytest.mark.parametrize("shell", sampled(get_args(Shell), ["bash"]))
def test_completion_names_every_verb_and_option(shell: Shell) -> None:
    script = completion(shell)
    for verb, parameters in VERBS.items():
        assert re.search(rf"\b{verb.split()[-1]}\b", script), verb
        for name in parameters:
            if name.startswith("--"):
                assert name.removeprefix("--") in script, name


def test_bash_can_read_its_completion() -> None:
    result = subprocess.run(["bash", "-n"], input=completion("bash"), text=True, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.thorough
def test_completion_is_installed_where_asked(tmp_path) -> None:
    command = [sys.executable, "-m", "chainrule", "--install-completion", "--shell", "zsh", "-o", str(tmp_path / "_it")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "chainrule" in (tmp_path / "_it").read_text()
