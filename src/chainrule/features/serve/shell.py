"""The verbs serve (models over HTTP, for programs written for OpenAI's interface) and shard-serve (n-gram shards)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import NO_FLAGS, Flags, ModelPath, given_settings
from chainrule.cli.shared.screen import note
from chainrule.cli.shared.server_options import key_in
from chainrule.features.serve.config import ServeOptions, ServerLimits, ShardOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORTEST_KEY = 8  # characters


def serve(
    *models: Annotated[
        str,
        Parameter(
            help="Models: folders or files, each perhaps with a name before it: name=lm/. The first is the default."
        ),
    ],
    options: Flags[ServeOptions] = NO_FLAGS,
    limits: Flags[ServerLimits] = NO_FLAGS,
    api_key_file: Annotated[
        Path | None,
        Parameter(
            help="A file with the key that every request must have. Without it, on 127.0.0.1, nobody needs a key."
        ),
    ] = None,
    log_requests: Annotated[
        bool, Parameter(negative=(), help="Log each request: its route, status and time, never its text.")
    ] = False,
) -> None:
    """Serve models over HTTP, with OpenAI's interface.

        $ chainrule serve lm/ --port 8000

    Completions with log-probabilities of prompts and answers, chat, embeddings,
    scores and tokenizers, for clients such as openai, lm-evaluation-harness, llm
    and LangChain; /openapi.json lists all routes. Models open when they are
    first asked for, and again when their files change. Ctrl-C lets running
    answers end. Needs FastAPI: pip install 'chainrule[serve]'.
    """
    from chainrule.features.serve.guard import is_loopback, log_to_stderr
    from chainrule.features.serve.processes import serve as serve_models

    if not models:
        raise CycloptsError(msg="A model to serve is missing.")
    given = given_settings(options)
    key = None if api_key_file is None else key_in(api_key_file, shortest=_SHORTEST_KEY)
    if key is None and not given.get("open_to_all") and "host" in given and not is_loopback(given["host"]):
        raise CycloptsError(
            msg=f"--host {given['host']} lets other machines in: give --api-key-file, or --no-key to let everybody in."
        )
    log_to_stderr(requests=log_requests)
    named = name_models(models)
    many = f" with {given['workers']} workers" if given.get("workers", 1) > 1 else ""

    def print_address(address: str) -> None:
        print(f"serving {', '.join(named)}{many} on {address}/v1; Ctrl-C stops", flush=True)

    serve_models(
        named,
        key=key,
        limits=ServerLimits(**given_settings(limits)),
        on_start=print_address,
        on_event=note_event,
        **given,
    )
    note("stopped")


def name_models(models: Sequence[str]) -> dict[str, Path]:
    """Return paths by name. Raises CycloptsError."""
    named: dict[str, Path] = {}
    for model in models:
        name, equals, path = model.partition("=")
        if not equals or os.sep in name:
            name, path = "", model
        elif not name:
            raise CycloptsError(msg=f"{model} has no name before =: give one, as in name={path}, or leave out =.")
        name = name or Path(os.path.abspath(path)).name
        if name in named:
            raise CycloptsError(msg=f"Two models are called {name}: name one of them, as in other={path}.")
        named[name] = Path(path)
    return named


def note_event(event: str, name: str) -> None:
    if event != "opened":
        note(f"model {name}: {event}")


def shard_serve(model: ModelPath, /, *, options: Flags[ShardOptions] = NO_FLAGS) -> None:
    """Serve shards of an n-gram model to programs that look up batches of n-grams.

        $ chainrule shard-serve big/ --shards 0 1 --port 9000

    big/ is what `chainrule convert lm/ big/ --shards 4` makes. Several
    processes, on one machine or more, each serve some of the shards;
    chainrule.ShardClient asks all of them, one request a batch. Ctrl-C stops.
    """
    from chainrule.features.serve.shards import serve_shards

    def print_address(address: str, shards: Sequence[int], total: int) -> None:
        numbers = " ".join(map(str, shards))
        print(f"serving shards {numbers} of {total} on {address}; Ctrl-C stops", flush=True)

    serve_shards(model, on_start=print_address, **given_settings(options))
    note("stopped")
