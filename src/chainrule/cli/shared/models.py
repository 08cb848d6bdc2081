"""Helpers for models that several verbs share: open one, save one, check before the work that one may be written."""

from __future__ import annotations

from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from cyclopts import CycloptsError

from chainrule.base.files import describe_duplicate
from chainrule.cli.shared.options import given_settings
from chainrule.cli.shared.screen import note
from chainrule.errors import OutputError, SettingError, prefix_errors
from chainrule.models.config import DynamicOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.base.progress import Progress
    from chainrule.cli.shared.options import Flags
    from chainrule.models.any_model import AnyKind, AnyModel
    from chainrule.models.config import ReadingOptions
    from chainrule.models.drafting import Drafting
    from chainrule.models.model import Model
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers


@overload
def open_model(
    path: Path,
    tokenizer: TokenizerConfig | str | None,
    markers: Markers | None,
    progress: Progress,
    *,
    kind: type[AnyKind],
    allow_pickle: bool = False,
) -> AnyKind: ...


@overload
def open_model(
    path: Path,
    tokenizer: TokenizerConfig | str | None,
    markers: Markers | None,
    progress: Progress,
    *,
    allow_pickle: bool = False,
) -> Model: ...


def open_model(
    path: Path,
    tokenizer: TokenizerConfig | str | None,
    markers: Markers | None,
    progress: Progress,
    *,
    kind: type[AnyModel] | None = None,
    allow_pickle: bool = False,
) -> AnyModel:
    """Opens a model, with notes on what its file lacks. kind: the kind that it must be.

    Raises ModelFormatError, SettingError.
    """
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model
    from chainrule.models.open_options import without_effect

    wanted = Model if kind is None else kind
    model = load(path, wanted, tokenizer=tokenizer, markers=markers, allow_pickle=allow_pickle, progress=progress)
    note_warnings(model.record, path)
    if isinstance(model, Model):
        if markers is not None and not model.tokenizer.sees_markers:
            note(
                f"--markers has no effect on {path}, whose tokens are subwords or characters: a literal <unk> "
                "is read like any other text"
            )
        for name, why in without_effect(model.engine).items():
            note(f"--{name.replace('_', '-')} has no effect on {path}, which {why}")
    return model


def names_of(paths: tuple[Path, ...]) -> list[str]:
    """A name for each model: that of its folder or file, after as many folders above it as tell it from the others.

    Raises CycloptsError if one is there twice.

    good:  names_of((Path("small/5g"), Path("large/5g"), Path("lstm"))) == ["small-5g", "large-5g", "lstm"]
    """
    if twice := describe_duplicate([str(path) for path in paths]):
        raise CycloptsError(msg=f"The models are {twice}; name each once.")
    parts = [path.resolve().parts for path in paths]
    names = [own[-1:] for own in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        shared = {name for name in names if names.count(name) > 1}
        names = [own[-depth:] if name in shared else name for own, name in zip(parts, names, strict=True)]
    return ["-".join(part.strip("/") for part in name) for name in names]


def as_read(models: Mapping[str, ScoringModel], reading: Flags[ReadingOptions]) -> dict[str, Any]:
    """Return the models by name, with a limit of context each that is given, as `lm-words-2`, or as ones that learn, as
    `lm-dynamic`. Raises SettingError.
    """
    found: dict[str, Any] = {}
    sizes_of = given_settings(reading)
    learns = sizes_of.pop("dynamic", False)
    learning = {own.name: sizes_of.pop(own.name) for own in fields(DynamicOptions) if own.name in sizes_of}
    for name, model in models.items():
        with prefix_errors(name):
            if learns:
                found[f"{name}-dynamic"] = model.dynamic(**learning)
            for option, sizes in sizes_of.items():
                unit = option.removeprefix("context_")
                found |= {f"{name}-{unit}-{size}": model.limited(**{option: size}) for size in sizes}
    return found or dict(models)


def note_warnings(record: Mapping[str, Any], path: Path) -> None:
    """Notes what is odd about a model that was opened, if it is a file."""
    from chainrule.storage.sources import local_path

    for warning in record.get("warnings", []) if local_path(path).is_file() else ():
        note(warning)


def note_drafts(drafting: Drafting | None) -> None:
    """Says how many tokens were drafted, if any could be."""
    if drafting is None:
        return
    if drafting.passes and not drafting.drafted:
        note(f"nothing was drafted: in {drafting.passes:,} passes, no draft would have saved time")
    elif drafting.passes:
        note(f"{drafting.accepted:,} of {drafting.drafted:,} drafted tokens were right; {drafting.passes:,} passes")
    else:
        note("nothing was drafted: drafting works for one text of two tokens or more at a time; see --stream")


def is_arpa(path: Path) -> bool:
    """Whether this is the name of an ARPA file."""
    from chainrule.base.files import ARPA_SUFFIXES, ends_in

    return ends_in(path, ARPA_SUFFIXES)


def is_model(folder: Path) -> bool:
    """Whether a folder holds a finished model, or a source has one of this name."""
    from chainrule.storage.config_json import CONFIG
    from chainrule.storage.sources import source_of

    return source_of(folder) is not None or (folder / CONFIG).exists()


def save_or_keep(model: AnyModel, target: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves a model after the work; if `target` can no longer be written, under a new name next to it.

    Raises OutputError, which says where the model is.
    """
    try:
        model.save(target, overwrite=overwrite, progress=progress)
    except OutputError as error:
        beside = _free_name(target)
        try:
            model.save(beside, progress=progress)
        except OutputError:
            raise error from None
        raise OutputError(f"{error}. The model is not lost: it was saved as {beside}") from error


def _free_name(target: Path) -> Path:
    """A path that does not exist yet: lm-2 for lm, lm-2.arpa.gz for lm.arpa.gz."""
    from chainrule.base.files import ARPA_SUFFIXES, ending_of

    at = len(target.name) - len(ending_of(target, ARPA_SUFFIXES))
    stem, suffix = target.name[:at], target.name[at:]
    names = (target.with_name(f"{stem}-{number}{suffix}") for number in count(2))
    return next(name for name in names if not name.exists())


def check_model_target(target: Path, *, overwrite: bool, compact: bool = False, ngrams: bool = False) -> None:
    """Checks, before the work, that a model folder may be written or, where the name says so, an ARPA file.

    compact: whether the model will be compact. ngrams: whether it may be one of n-grams, and so an ARPA file.
    Raises OutputError, SettingError.
    """
    from chainrule.base.files import check_new_file
    from chainrule.storage.model_folder import check_target

    if not ngrams or not is_arpa(target):
        check_target(target, overwrite=overwrite)
        return
    if compact:
        raise SettingError(f"{target}: an ARPA file has no compact form; name a folder, or leave out --compact")
    if target.is_dir():
        raise OutputError(f"{target}: is a folder; an ARPA model is a file, so choose another name")
    check_new_file(target, overwrite=overwrite)


def check_shards_target(target: Path, *, compact: bool) -> None:
    """Raises CycloptsError unless a model that is cut into shards may be written."""
    if is_arpa(target):
        raise CycloptsError(msg=f"--shards makes a folder, and {target} is the name of an ARPA file; name a folder.")
    if compact:
        raise CycloptsError(msg="--shards is for a folder that is not compact: leave out --compact.")
