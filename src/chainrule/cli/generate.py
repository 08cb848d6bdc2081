"""chainrule generate MODEL PROMPT: sampled texts, one a line."""

from __future__ import annotations

import secrets
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelPath, Seed
from chainrule.cli.screen import note, print_json


def generate(
    model: ModelPath,
    prompt: Annotated[str, Parameter(help="What every text begins with.", allow_leading_hyphen=True)] = "",
    *,
    number: Annotated[int, Parameter(name=("--number", "-n"), help="How many texts.")] = 1,
    max_tokens: Annotated[int, Parameter(help="A text ends after this many tokens at the latest.")] = 100,
    temperature: Annotated[
        float, Parameter(help="Below 1 sharper, above 1 flatter; 0 takes the likeliest token.")
    ] = 1.0,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Print texts sampled from the model's own distribution. Unknown tokens are never drawn."""
    from chainrule.model import load

    if seed is None:
        seed = secrets.randbelow(10**6)
        note(f"--seed {seed} gives these texts again")
    texts = load(model).generate(prompt, number, max_tokens=max_tokens, temperature=temperature, seed=seed)
    for text in texts:
        if json:
            print_json({"text": text})
        else:
            print(text)
