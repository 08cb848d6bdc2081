"""chainrule generate MODEL PROMPT: sampled texts, one a line."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, Seed, WholeNumber
from chainrule.cli.models import opened
from chainrule.cli.screen import note, print_json, progress


def generate(
    model: ModelPath,
    prompt: Annotated[str, Parameter(help="What every text begins with.", allow_leading_hyphen=True)] = "",
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many texts.")] = 1,
    max_tokens: Annotated[int, WholeNumber, Parameter(help="A text ends after this many tokens at the latest.")] = 100,
    temperature: Annotated[
        float, Parameter(help="Below 1 sharper, above 1 flatter; 0 takes the likeliest token.")
    ] = 1.0,
    seed: Seed = None,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Sample texts from the model's own distribution.

    Unknown tokens are never drawn.
    """
    import secrets

    drawn = secrets.randbelow(10**6) if seed is None else seed
    with progress() as told:
        texts = opened(model, tokenizer, markers, told).generate(
            prompt, number, max_tokens=max_tokens, temperature=temperature, seed=drawn, progress=told
        )
    if seed is None:
        note(f"--seed {drawn} gives these texts again")
    for text in texts:
        if json:
            print_json({"text": text})
        else:
            print(text)
