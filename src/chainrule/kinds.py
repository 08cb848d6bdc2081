"""The registry: what there is, in static tables of names, and how it is looked up.

Nothing that a row names is imported before it is used, so the core knows of features without importing one. The rows of
plug-ins are the same; they are read where our tables lack a name.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Lazy(NamedTuple):
    """A name in a module, which is imported when the name is first used.

    good:  Lazy("chainrule.features.speech.model:SpeechModel").get()
    """

    target: str

    def get(self) -> Any:
        """Return what the name stands for. Raises ImportError, AttributeError; of a plug-in's row SettingError."""
        module, _, name = self.target.partition(":")
        if module.startswith("chainrule."):
            return getattr(import_module(module), name)
        try:
            return getattr(import_module(module), name)
        except Exception as error:  # whatever its author's code raises
            raise SettingError(
                f"{self.target}, of a plug-in, cannot be imported: {type(error).__name__}: {error}"
            ) from error

    def names(self, value: type) -> bool:
        """Return whether this is the name of a class, without importing anything."""
        return self.target == f"{value.__module__}:{value.__qualname__}"


class Kind(NamedTuple):
    """A family of models: what the program knows of it before it opens one.

    family: as config.json has it; never renamed. title: with its article, for messages. model: the class that users
    hold. engine: its `Family`, by which it is trained, saved and restored, also inside of mixtures and classifiers;
    None where models are more than an engine and a tokenizer. configs: its classes of settings; the first that knows
    all settings of a folder is taken. learns_from: what its models are made of, where that is not plain text, and the
    way.
    """

    family: str
    title: str
    model: Lazy
    engine: Lazy | None = None
    configs: tuple[Lazy, ...] = ()
    learns_from: str = ""


class Opener(NamedTuple):
    """What others write, and how it is opened. Openers are asked in their order.

    title: what it is, for the list of what can be opened; empty where a row before it has said so. recognises: of a
    path, whether it is such, by its name or a few bytes. opened: of a path, `OpenOptions` and a progress callback, the
    model. model: of a path, the class of the model, or None where only opening it tells. tokenizer: of a path, its
    tokenizer alone. contents: of a path, names and values that say what is in it, also where it cannot be opened.
    adapter: of a path, a network's configuration, the record of the files that it came with and the shapes of its
    arrays, an adapter to put on it; None where it is no adapter.
    """

    title: str
    recognises: Lazy
    opened: Lazy
    model: Lazy | None = None
    tokenizer: Lazy | None = None
    contents: Lazy | None = None
    adapter: Lazy | None = None


class Writer(NamedTuple):
    """A format of others that a model is written in.

    name: the ending of a file, or what `convert --to` names. write: of a model, a path, settings or None, overwrite and
    progress. check: of a path and overwrite, before the work. settings: what `convert` may set. packs: compact models.
    """

    name: str
    write: Lazy
    check: Lazy
    settings: Lazy | None = None
    packs: bool = False


class Verb(NamedTuple):
    """A verb of the shell.

    name: "transcribe", or "train speech". group: of `chainrule --help`, or Models for what `train` trains. help: its
    first line. function: has the verb's parameters, and its help page as docstring. config: of a model that
    `TRAIN_ON_TEXT` trains: the class of settings, which are flags.
    """

    name: str
    group: str
    help: str
    function: Lazy
    config: Lazy | None = None


CAUSAL_MODEL = Lazy("chainrule.models.language_models:CausalModel")
CAUSAL_NETWORK = Lazy("chainrule.models.language_models:CausalNetwork")
MASKED_MODEL = Lazy("chainrule.models.language_models:MaskedModel")


TRAIN_ON_TEXT = Lazy("chainrule.cli.train.any_family:train_on_text")


class Plugin(NamedTuple):
    """What a package brings: rows of these tables. Others bring it by an entry point of the group chainrule.plugins.

    good:  [project.entry-points."chainrule.plugins"]
           markov = "chainrule_markov:PLUGIN"
    """

    kinds: Sequence[Kind] = ()
    verbs: Sequence[Verb] = ()
    openers: Sequence[Opener] = ()
    writers: Sequence[Writer] = ()
    rows: Sequence[tuple[str, str, Lazy]] = ()

    def names(self) -> set[str]:
        """Return the names that no other plug-in may have, each with the table that it is in."""
        named = {f"family {kind.family}" for kind in self.kinds} | {f"verb {verb.name}" for verb in self.verbs}
        named |= {f"writer {writer.name}" for writer in self.writers}
        return named | {f"{table} {name}" for table, name, _ in self.rows}


_plugins: dict[str, Plugin] = {}
_problems: dict[str, str] = {}
_on_problem: list[Callable[[str], object]] = [warnings.warn]
_is_read = False


def tell_problems_to(tell: Callable[[str], object]) -> None:
    """Set the function that gets a line on each plug-in that is left out; by default it warns."""
    _on_problem[:] = [tell]


def _known() -> dict[str, Plugin]:
    """Return the plug-ins that have been read, by name; the first is ours."""
    if not _plugins:
        _plugins["chainrule"] = Lazy("chainrule.registry.ours:OURS").get()
    return _plugins


def read_plugins() -> tuple[dict[str, Plugin], dict[str, str]]:
    """Read the plug-ins of other packages, once; return all by name, ours among them, and what is wrong with others.

    It takes longer than a help page, so it is done only where our tables lack a name. A plug-in that cannot be
    imported, or takes a name that is taken, is left out.
    """
    global _is_read
    if not _is_read:
        _is_read = True
        from importlib.metadata import entry_points

        for point in entry_points(group="chainrule.plugins"):
            problem = _add(point)
            if problem is not None:
                _problems[point.name] = problem
                _on_problem[0](f"the plug-in {point.name} is left out: {problem}")
    return _known(), _problems


def _add(point: EntryPoint) -> str | None:
    """Add the plug-in of an entry point; return what is wrong with it, if anything."""
    try:
        plugin = point.load()
    except Exception as error:  # whatever its author's code raises
        return f"{point.value} cannot be imported: {type(error).__name__}: {error}"
    if not isinstance(plugin, Plugin):
        return f"{point.value} is of type {type(plugin).__name__}; expected a chainrule.kinds.Plugin"
    try:
        names = plugin.names()
    except (AttributeError, TypeError, ValueError) as error:
        return f"{point.value} has a row that is none of its table: {error}"
    for other, known in _known().items():
        if taken := names & known.names():
            return f"it brings the {min(taken)}, which {other} has; choose another name"
    _plugins[point.name] = plugin
    return None


def rows(table: str) -> dict[str, Lazy]:
    """Return the rows of a table of a feature, by name."""
    return {name: lazy for plugin in _known().values() for own, name, lazy in plugin.rows if own == table}


class Table(Mapping[str, T]):
    """A table of a feature by name: its own rows, then those of the registry, which are imported when they are used."""

    def __init__(self, table: str, own: Mapping[str, T]) -> None:
        self._table, self._own = table, own

    def __getitem__(self, name: str) -> T:
        return self._own[name] if name in self._own else rows(self._table)[name].get()

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in rows(self._table)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from rows(self._table)

    def __len__(self) -> int:
        return len(self._own) + len(rows(self._table))


def openers() -> list[Opener]:
    """Return the openers in their order, of the plug-ins that have been read the last."""
    return [opener for plugin in _known().values() for opener in plugin.openers]


def writers() -> list[Writer]:
    """Return the writers, of the plug-ins that have been read the last."""
    return [writer for plugin in _known().values() for writer in plugin.writers]


def kinds() -> dict[str, Kind]:
    """Return the kinds of models by their families, of the plug-ins that have been read, too.

    A row of the table `configs` is one more class of settings of a family.
    """
    found = {kind.family: kind for plugin in _known().values() for kind in plugin.kinds}
    for family, config in rows("configs").items():
        if family in found:
            found[family] = found[family]._replace(configs=(*found[family].configs, config))
    return found


def kind_named(family: str) -> Kind | None:
    """Return the kind of models of a family, perhaps of a plug-in; None if there is none."""
    if family not in kinds():
        read_plugins()
    return kinds().get(family)


def kind_of_config(config: object) -> Kind:
    """Return the kind of models that have these settings. Raises TypeError if no kind has."""
    for _ in range(2):
        for kind in kinds().values():
            if any(own.names(type(config)) for own in kind.configs):
                return kind
        read_plugins()
    known = ", ".join(own.target.partition(":")[2] for kind in kinds().values() for own in kind.configs)
    raise TypeError(f"{config!r} is not a configuration of a model; expected one of {known}")


def configs_of(*models: Lazy) -> dict[str, type]:
    """Return the first class of settings of each of our families whose models are of these classes."""
    return {kind.family: kind.configs[0].get() for kind in _known()["chainrule"].kinds if kind.model in models}
