"""What users meet, as text: public names and their signatures, help, bodies of requests, modules that load.

Nothing here names a module of chainrule, so that moving code changes no record.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from rich.console import Console

import chainrule
from chainrule.cli.main import app, run, train
from chainrule.cli.verbs import FAMILIES
from chainrule.features.serve.app import build_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAVY = ("numpy", "numba", "torch", "pydantic", "fastapi", "matplotlib", "pyarrow", "tokenizers", "transformers")
_PROTOCOL = ("__call__", "__contains__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__")
_QUOTED_OR_DOTTED = re.compile(r"""('[^']*'|"[^"]*")|\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)""")


def public_names() -> dict[str, Any]:
    """What `chainrule.__all__` offers, by name: signatures, fields, methods, properties."""
    return {name: _described(getattr(chainrule, name)) for name in chainrule.__all__}


def _described(value: Any) -> Any:
    if inspect.isclass(value):
        return _class(value)
    return _signature(value) if callable(value) else short(repr(value))


def _class(kind: type) -> dict[str, Any]:
    public = [base.__name__ for base in kind.__mro__[1:] if base.__name__ in chainrule.__all__]
    described: dict[str, Any] = {"bases": public} if public else {}
    if dataclasses.is_dataclass(kind):
        described["fields"] = {each.name: _field(each) for each in dataclasses.fields(kind)}
    else:
        described["made with"] = _signature(kind)
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "chainrule":
            members |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
            members |= {name: member for name, member in vars(base).items() if name in _PROTOCOL}
    fields = described.get("fields", {})
    methods = {name: _member(member) for name, member in sorted(members.items()) if name not in fields}
    return described | {"members": methods} if methods else described


def _field(field: dataclasses.Field[Any]) -> str:
    default = "" if field.default is dataclasses.MISSING else f" = {short(repr(field.default))}"
    if field.default_factory is not dataclasses.MISSING:
        default = f" = {short(repr(field.default_factory()))}"
    return _type(field.type) + default


def _member(member: Any) -> str:
    if isinstance(member, property) or hasattr(member, "__set_name__"):
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        return "property" + (_signature(function).partition("->")[2] and f": {_signature(function).split('-> ')[-1]}")
    if isinstance(member, staticmethod | classmethod):
        return f"{type(member).__name__} {_signature(member.__func__)}"
    return _signature(member) if callable(member) else type(member).__name__


def _signature(function: Any) -> str:
    """As `(text: str, n: int = 1) -> list[str]`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "callable"
    parameters = []
    for parameter in signature.parameters.values():
        annotation = "" if parameter.annotation is parameter.empty else _type(parameter.annotation)
        default = "" if parameter.default is parameter.empty else short(repr(parameter.default))
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        named = stars + parameter.name + (annotation and f": {annotation}") + (default and f" = {default}")
        parameters.append((parameter.kind, named))
    shown: list[str] = []
    for kind, named in parameters:
        is_first_keyword = kind is inspect.Parameter.KEYWORD_ONLY and not any(each.startswith("*") for each in shown)
        shown += ["*", named] if is_first_keyword else [named]
    gives = signature.return_annotation
    return f"({', '.join(shown)})" + ("" if gives is signature.empty else f" -> {_type(gives)}")


def _type(annotation: Any) -> str:
    """A type without the modules of its parts."""
    return short(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def short(text: str) -> str:
    """A text without modules before names and without addresses in memory."""
    text = re.sub(r"<(?:class|function|enum) '?([\w.]+)'?(?: at 0x[0-9a-f]+)?>", r"\1", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return _QUOTED_OR_DOTTED.sub(lambda match: match[1] or match[2], text)


def help_texts() -> str:
    """The help of the program, of its groups and of every verb, 200 columns wide."""
    parts = []
    before = app._console
    app._console = Console(width=200, color_system=None, force_terminal=False)
    try:
        for words in verbs():
            with redirect_stdout(StringIO()) as out:
                status = run([*words, "--help"])
            assert status == 0, words
            lines = [re.sub("[─ │╭╮╰╯]+$", "", line) for line in out.getvalue().splitlines()]  # not the frames' ends
            parts.append("\n".join([f"$ chainrule {' '.join([*words, '--help'])}", *lines]).rstrip() + "\n")
    finally:
        app._console = before
    return "\n".join(parts)


def verbs() -> Iterator[list[str]]:
    """The words of every command, the program itself first."""
    yield []
    for name in sorted(name for name in app if not name.startswith("-")):
        yield [name]
    for name in sorted(name for name in train if not name.startswith("-")):
        assert name in FAMILIES
        yield ["train", name]


def request_bodies() -> dict[str, Any]:
    """What each route of the server takes, by method and path: parameters, and the schema of the body."""
    paths = build_app(Mock(), Mock()).openapi()["paths"]  # routes ask the service only when they are called
    bodies = {}
    for path, methods in paths.items():
        for method, route in methods.items():
            content = route.get("requestBody", {}).get("content", {})
            kinds = {kind: _normalised(each["schema"]) for kind, each in content.items()}
            record = {"summary": route.get("summary", ""), "parameters": _normalised(route.get("parameters", []))}
            bodies[f"{method.upper()} {path}"] = record | ({"body": kinds} if kinds else {})
    return bodies


def _normalised(schema: Any) -> Any:
    """A schema whose lists of required fields are sorted; the file sorts the keys."""
    if isinstance(schema, dict):
        return {
            key: sorted(value) if key == "required" and isinstance(value, list) else _normalised(value)
            for key, value in schema.items()
        }
    return [_normalised(each) for each in schema] if isinstance(schema, list) else schema


# Prints what `import chainrule` and the list of verbs import, and which heavy packages every verb's help does.
# A copy of the process shows a verb. While nothing heavy is loaded, that copy goes on with the next verb, so that what
# all verbs share is loaded once; otherwise it ends, and the process that it was copied from goes on.
_IMPORTS = """
import sys
before = set(sys.modules)
import chainrule
def loaded():
    return sorted(set(sys.modules) - before)
first = loaded()
import contextlib, io, json, os
from chainrule.cli.main import run
def show(words):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run([*words, "--help"]) == 0, words
    return loaded()
def tell(name, found):
    os.write(1, (json.dumps([name, found]) + chr(10)).encode())
tell("import chainrule", first)
tell("chainrule --help", show([]))
verbs, heavy = json.loads(sys.argv[1]), set(json.loads(sys.argv[2]))
for words in verbs:
    copy = os.fork()
    if copy:
        _, status = os.waitpid(copy, 0)
        if os.waitstatus_to_exitcode(status) != 3:
            os._exit(os.waitstatus_to_exitcode(status))
        continue
    found = sorted(heavy & set(show(words)))
    tell(" ".join(["chainrule", *words, "--help"]), found)
    if found:
        os._exit(3)
os._exit(0)
"""


def imports(tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """The packages beside chainrule and the standard library that are loaded; of a verb's help, the heavy ones."""
    shown = [words for words in verbs() if words]
    command = [sys.executable, "-c", _IMPORTS, json.dumps(shown), json.dumps(HEAVY)]
    loaded = dict(
        json.loads(line)
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    )
    packages = {name: {each.partition(".")[0] for each in modules} for name, modules in loaded.items()}
    for name in ("import chainrule", "chainrule --help"):
        number = sum(each.partition(".")[0] == "chainrule" for each in loaded[name])
        tell(f"{name} loads {number} modules of chainrule, and {len(loaded[name])} in all")
    return {
        "packages": {
            name: sorted(packages[name] - {"chainrule"} - set(sys.stdlib_module_names))
            for name in ("import chainrule", "chainrule --help")
        },
        "heavy": {name: sorted(own & set(HEAVY)) for name, own in packages.items()},
    }
