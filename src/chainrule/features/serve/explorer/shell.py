"""chainrule explore MODELS: a page that shows next words, surprisal, samples, beams and attention of models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlencode

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import NO_FLAGS, Flags, Needs, Overwrite, WholeNumber, given_settings
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.features.serve.explorer.config import PageOptions
from chainrule.features.serve.shell import name_models, note_event

if TYPE_CHECKING:
    from collections.abc import Sequence

PORT = 8100
ALL = "(all)"  # as views/next.js calls all models beside the first


def explore(
    *models: Annotated[
        str,
        Parameter(help="Models: folders or files, each perhaps with a name before it: name=lm/. The first is shown."),
    ],
    also: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="Further models; the page opens with their next words beside those of the first.",
            show_default=False,
        ),
    ] = (),
    port: Annotated[int, WholeNumber, Parameter(help="The port of the page; 0 chooses a free one.")] = PORT,
    no_browser: Annotated[
        bool, Parameter(negative=(), help="Print the address of the page, and open no browser.")
    ] = False,
    static: Annotated[
        bool, Parameter(negative=(), help="Write the page as one file that computes by itself, without a server.")
    ] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="static: the file to write, .html."), Needs("static")
    ] = None,
    options: Flags[PageOptions] = NO_FLAGS,
    overwrite: Annotated[Overwrite, Needs("static")] = False,
) -> None:
    """Look into models on a page: next words, surprisal, samples, beams, attention.

        $ chainrule explore lm/ --no-browser
        $ chainrule explore lm/ --also other/

    The page comes from this machine alone, and only this machine can open it.
    Ctrl-C stops it. chainrule serve has it too, under /explore/. Needs FastAPI:
    pip install 'chainrule[serve]'.

    --static lm/ -o page.html writes one file of at most 5 MB instead, which any
    browser opens from the disk. The page computes all views except chat, beams,
    whole words and what is lost without each head. For n-gram models and small
    Transformers, LSTMs and GRUs.
    """
    if not models:
        raise CycloptsError(msg="A model to explore is missing.")
    if also and (static or len(models) > 1):
        msg = "--also goes with one model, and a server. Name all models without it, and choose Beside it on the page."
        raise CycloptsError(msg=msg)
    if static:
        if no_browser or port != PORT:
            raise CycloptsError(msg="--port and --no-browser are for a server, and --static has none: leave them out.")
        _write_page(models, output, given_settings(options), overwrite=overwrite)
        return
    from chainrule.features.serve.processes import serve as serve_models

    def show_page(address: str) -> None:
        beside = urlencode({"other": ALL if len(also) > 1 else [*named][1]}) if also else ""
        page = f"{address}/explore/{beside and '#'}{beside}"
        print(f"{page} shows {', '.join(named)}; Ctrl-C stops", flush=True)
        if not no_browser:
            _open_browser(page)

    named = name_models([*models, *also])
    serve_models(named, port=port, on_start=show_page, on_event=note_event)
    note("stopped")


def _write_page(models: Sequence[str], output: Path | None, settings: dict[str, Any], *, overwrite: bool) -> None:
    """Write the explorer as one file."""
    from chainrule.features.serve.explorer.offline.page import check_page_file
    from chainrule.features.serve.explorer.offline.page import explore as explore_without_server

    if output is None:
        raise CycloptsError(msg="--static writes a file: name it with -o page.html.")
    check_page_file(output, overwrite=overwrite)
    named = name_models(models)
    with progress_bar() as progress:
        opened = {name: open_model(path, None, None, progress) for name, path in named.items()}
    page = explore_without_server(opened, **settings)
    page.save(output, overwrite=overwrite)
    print(f"{output}: {', '.join(named)} in {len(page.html.encode()):,} bytes; open it in a browser")


class Explorer(NamedTuple):
    """How to explore the models of a report: the command that starts the explorer, and the address of its page."""

    command: Sequence[str]
    address: str


def explorer_of(models: Sequence[str]) -> Explorer | None:
    """Return the explorer of saved models, if there are any; it opens with the surprisal of the first two."""
    if not models:
        return None
    names = [Path(os.path.abspath(model)).name for model in models]
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    named = [f"{name}={model}" for name, model in zip(names, models, strict=True)]
    state = {"view": "surprisal", **dict(zip(("model", "other"), names, strict=False))}
    return Explorer(["chainrule", "explore", *named], f"http://127.0.0.1:{PORT}/explore/#{urlencode(state)}")


def _open_browser(page: str) -> None:
    """Open the page if this machine has a screen: in a terminal, a text browser would take it over."""
    import sys
    import threading
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
