"""The explorer as one HTML file: the page's own modules, models as data, and answers that are computed in the page.

The modules stay as they are. Their addresses become names of an import map, whose values are `data:` addresses, so that
a page opened from the disk needs no server; `server.js`, which asks one, is replaced by `offline/answers.js`, which has
the same functions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.files import check_new_file, replace_file
from chainrule.base.options import takes
from chainrule.errors import SettingError
from chainrule.features.serve.explorer.config import PageOptions
from chainrule.features.serve.explorer.example import example_of
from chainrule.features.serve.explorer.offline.arrays import packed
from chainrule.features.serve.explorer.offline.tables import is_table, speller_of, table_model
from chainrule.features.serve.explorer.offline.tokens import tokenizer_record
from chainrule.features.serve.explorer.show import page_files
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel
from chainrule.models.model import Model

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy import ndarray

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]

MOST = 5_000_000  # bytes of a page
_IMPORT = re.compile(r'(?<=from ")(\.[^"]+)(?=";)')
_SERVER = "server.js"


@dataclass(frozen=True)
class ExplorerPage:
    """The explorer with its models, as one HTML file that computes in the page."""

    names: tuple[str, ...]
    html: str = field(repr=False)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the file, .html. Raises OutputError, SettingError."""
        target = Path(path)
        check_page_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(self.html.encode())


def check_page_file(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a page may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"{path}: the name of a page must end in .html")
    check_new_file(path, overwrite=overwrite)


@takes(PageOptions)
def explore(models: Model | Mapping[str, Model], options: PageOptions) -> ExplorerPage:
    """Return the explorer as one file without a server, for models that are small enough: n-gram models and networks.

    models: one, or several by name, the first of which is shown. The page computes itself; its log-probabilities are
    those of `score` to 1e-4 nats a token. Raises SettingError where the page cannot compute with a model, or would be
    larger than 5 MB.

    good:  chainrule.explore(chainrule.load("lm/")).save("page.html")
    good:  chainrule.explore({"trigram": trigram, "bigram": bigram}, text="the dog bit the man")
    """
    named = {"model": models} if isinstance(models, Model) else dict(models)
    if not named:
        raise SettingError("there is no model to explore; give at least one")
    if options.int8 and all(is_table(model.engine) for model in named.values()):
        raise SettingError(
            "int8 quantises the matrices of networks, and n-gram models have none: leave it out, or make the table "
            "compact (chainrule convert --compact)"
        )
    parts = {name: _packed_model(name, model, options) for name, model in named.items()}
    html = _page(parts)
    size = len(html.encode())
    if size > MOST:
        raise SettingError(
            f"the page would have {size:,} bytes, and {MOST:,} are the most; {_to_shrink(named, options)}"
        )
    return ExplorerPage(tuple(named), html)


def _to_shrink(models: Mapping[str, Model], options: PageOptions) -> str:
    """Say what makes a page smaller."""
    if all(is_table(model.engine) for model in models.values()):
        return "prune the model (chainrule prune), or train one of a lower order"
    if not any(model.family == "transformer" for model in models.values()):
        return "train a smaller network: about a million weights fit"
    if options.int8:
        return "train a smaller network: about 3 million weights in eight bits fit"
    return "store matrices in eight bits (--int8), or train a smaller network: about 3 million such weights fit"


def _packed_model(name: str, model: Model, options: PageOptions) -> str:
    """Return a model as the page reads it. Raises SettingError, with the name of the model."""
    own = check_kind(model, CausalModel)
    arrays: Arrays = {}
    try:
        engine = table_model(own, arrays) if is_table(own.engine) else None
        if engine is None:
            from chainrule.features.serve.explorer.offline.networks import check_network, network_model  # needs torch

            check_network(own.engine)
            if options.int8 and own.family != "transformer":
                raise SettingError(
                    f"int8 quantises the matrices of Transformers alone, and this model is of family {own.family}; "
                    "leave it out: the page then has the weights as they are"
                )
            own = own.compact() if options.int8 else own
            engine = network_model(own.engine, arrays)
        record = {
            "name": name,
            "model": engine,
            "tokenizer": tokenizer_record(own.tokenizer, arrays),
            "speller": speller_of(own, arrays),
            "is_distribution": own.is_distribution,
            "example": example_of(own) if options.text is None else _example(options.text),
        }
    except SettingError as error:
        raise SettingError(f"{name}: {error}") from None
    return packed(record, arrays)


def _example(text: str) -> Json:
    """Return a text that all views begin with, in the form of `example_of`."""
    return {"text": text, "begin": text, "gap": text, "given": None}


def _page(models: Mapping[str, str]) -> str:
    contents = {name: content.decode() for name, (content, _) in page_files().items()}
    modules = {name: content for name, content in contents.items() if name.endswith(".js")}
    own = files("chainrule.features.serve.explorer") / "static" / "offline"
    modules |= {f"offline/{one.name}": one.read_text("utf-8") for one in own.iterdir() if one.name.endswith(".js")}
    modules[_SERVER] = 'export * from "./offline/answers.js";\n'
    imports = {f"page/{name}": _address(_named_imports(name, module)) for name, module in modules.items()}
    start = "".join(f"import {json.dumps(f'page/{name}')};\n" for name in ("main.js",))
    scripts = {"importmap": json.dumps({"imports": imports}), "module": start}
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts.values())
    policy = f"default-src 'none'; script-src {hashes} data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    blocks = "".join(
        f'<script type="application/octet-stream" class="model">{data}</script>\n' for data in models.values()
    )
    page = contents["index.html"]
    for old, new in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="stylesheet" href="style.css">', f"<style>{contents['style.css']}</style>"),
        (
            '<script type="module" src="main.js"></script>',
            f'<script type="importmap">{scripts["importmap"]}</script>\n'
            f'<script type="module">{scripts["module"]}</script>',
        ),
        ("</body>", f"{blocks}</body>"),
    ):
        assert page.count(old) == 1, old
        page = page.replace(old, new)
    return page


def _named_imports(name: str, module: str) -> str:
    """Return a module of the page that imports others by the names of the import map."""
    folder = posixpath.dirname(name)
    return _IMPORT.sub(lambda match: "page/" + posixpath.normpath(posixpath.join(folder, match[1])), module)


def _address(module: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module.encode()).decode()


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
