"""Opens or describes what is in a folder or a file: `load` and `info`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, cast, overload

from chainrule.base.arguments import as_path
from chainrule.base.memory import collection_paused
from chainrule.base.options import takes
from chainrule.errors import ChainruleError, ModelFormatError, SettingError, WrongModelError, prefix_errors
from chainrule.kinds import KINDS, OPENERS, kinds
from chainrule.models.any_model import AnyKind, AnyModel, check_kind, describe_wrong_kind
from chainrule.models.open_options import OpenOptions
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.storage.config_json import read_config
from chainrule.storage.gguf import describe_wrong_magic
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import open_model, saved_family

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.kinds import Kind, Opener
    from chainrule.models.drafting import Drafting
    from chainrule.models.model_info import ModelInfo

P = ParamSpec("P")


class _Load(Protocol[P]):
    """What type checkers see of `load`: the class that is named is the class that comes back."""

    @overload
    def __call__(
        self, path: str | os.PathLike[str], kind: type[AnyKind], *args: P.args, **options: P.kwargs
    ) -> AnyKind: ...
    @overload
    def __call__(
        self, path: str | os.PathLike[str], kind: None = None, *args: P.args, **options: P.kwargs
    ) -> AnyModel: ...


def _opens(options: Callable[P, OpenOptions]) -> Callable[[Callable[..., AnyModel]], _Load[P]]:
    return cast("Any", takes(options))


@_opens(OpenOptions)
@collection_paused()
def load(path: str | os.PathLike[str], kind: type[AnyModel] | None = None, *, options: OpenOptions) -> AnyModel:
    """Opens any model: a folder, with what it holds; an ARPA file; a binary of KenLM's; what others write.

    What comes back has the verbs of its kind: CausalModel continues texts (CausalNetwork gives vectors, too),
    MaskedModel fills gaps, ClassifierModel labels, EmbeddingModel gives vectors, Seq2SeqModel writes texts from
    others, CaptionModel from pictures, SpeechModel from sounds, WordVectors compares words. A type checker knows which
    once the kind is named, or isinstance asks for it.

    kind: the class that the model must have; by default any. The options are those of `OpenOptions`. A mapped folder,
    as it is without copy, is shared by all processes, but a process ends if somebody truncates a file while it is
    mapped. Quantised weights take several times the memory with exact. Without alone, small networks read several texts
    at once, two to three times as fast. A token that is scored in windows sees at least the context less the stride,
    half of the context by default. With cache_bits=8, keys and values take little more than a quarter of the memory.
    Raises ModelFormatError; SettingError, of which a wrong kind is a WrongModelError.

    good:  chainrule.load("lm/", chainrule.CausalModel).perplexity("heldout.txt")
    good:  chainrule.load("bert/", chainrule.MaskedModel).fill("the [MASK] bit the man")
    good:  chainrule.load("mt/", chainrule.Seq2SeqModel).write(["ein Hund"])
    """
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, AnyModel)):
        raise SettingError(f"kind is {kind!r}; expected a class of models, such as MaskedModel, or nothing")
    folder = as_path(path)
    opener = opener_of(folder)
    known = class_at(folder, opener)
    with prefix_errors(os.fspath(path)):
        if known is not None:
            options.check_taken(known.open_options, known.capability)
            if kind is not None and hasattr(known, "family") and not issubclass(known, kind):
                raise WrongModelError(describe_wrong_kind(known.family, known.capability, kind.capability))
    with showing(options.progress) as progress:
        if opener is not None:
            model: AnyModel = opener.opened.get()(folder, options, progress)
        else:
            assert known is not None
            model = known.open(folder, options, progress)
    with prefix_errors(os.fspath(path)):
        model.apply(options)
        return model if kind is None else check_kind(model, kind)


def opener_of(path: Path) -> Opener | None:
    """Return the row of what others write that a path is; None for a folder of ours.

    Raises ModelFormatError where a file is nothing that can be opened.
    """
    if saved_family(path) is not None:
        return None
    found = next((opener for opener in OPENERS if opener.recognises.get()(path)), None)
    if found is None and path.is_file():
        wrong = describe_wrong_magic(path)
        expected = "; ".join(opener.title for opener in OPENERS if opener.title)
        raise ModelFormatError(f"{path}: {wrong or f'a model is a folder or a file: {expected}'}")
    return found


def class_at(path: Path, opener: Opener | None) -> type[AnyModel] | None:
    """Return the class that `load` would give; None where only opening it shows that. opener: as `opener_of` gives it.

    Raises ModelFormatError where a folder of ours is damaged, or of a family that this version does not know.
    """
    if opener is not None:
        return None if opener.model is None else opener.model.get()(path)
    family, known = read_config(path).family, kinds()
    if family not in known:
        raise ModelFormatError(
            f"{path}: family {family!r} is not known to this version; expected one of {', '.join(known)}"
        )
    own: type[AnyModel] = known[family].model.get()
    return own


def model_class_at(path: str | os.PathLike[str]) -> type[AnyModel] | None:
    """Return the class that `load` would give; None where only opening it shows that, or nothing can be opened.

    Raises ModelFormatError where the configuration of a folder is damaged.
    """
    folder = as_path(path)
    with suppress(ModelFormatError):
        opener = opener_of(folder)
        return class_at(folder, opener) if opener is not None or folder.is_dir() else None
    return None


def kind_at(path: str | os.PathLike[str]) -> Kind | None:
    """Return the row of the models that `load` would give; None as `model_class_at`.

    Families that share a class share a row: the first.
    """
    own = model_class_at(path)
    return None if own is None else next((kind for kind in KINDS if kind.model.names(own)), None)


def open_drafting(draft: str) -> Drafting:
    """Drafting by name, or by the model at a path. Raises ModelFormatError, SettingError."""
    from chainrule.models.drafting import NAMED_DRAFTERS, Drafting
    from chainrule.models.model import Model

    if draft in NAMED_DRAFTERS:
        return Drafting(draft)
    if not Path(draft).exists():
        names = ", ".join(NAMED_DRAFTERS)
        raise SettingError(f"draft is {draft!r}; expected {names}, or a model: there is no such folder or file")
    model = load(draft, Model)
    with prefix_errors(draft):
        return Drafting(model, name=draft)


@shows_progress
def info(model: AnyModel | str | os.PathLike[str], *, progress: ProgressOption = None) -> ModelInfo:
    """What is known of a model, of any family: its size, settings, data, training and validation.

    model: a model, or the path of one: a folder, an ARPA file, a binary of KenLM's, or a file of word vectors. Raises
    ModelFormatError, whose `contents` say what is in a Hugging Face folder or a GGUF file that cannot be opened.

    good:  print(chainrule.info("lm/"))
    """
    if isinstance(model, AnyModel):
        return model.info()
    path = as_path(model)
    try:
        opened = load(path, progress=callback(progress))
    except ChainruleError as error:
        with suppress(ChainruleError):
            opener = opener_of(path)
            if opener is not None and opener.contents is not None:
                error.contents = opener.contents.get()(path)
        raise
    return opened.info(size=path.stat().st_size if path.is_file() else _bytes_of(path))


def _bytes_of(folder: Path) -> int:
    """The size in bytes as the model card gives it: of all arrays, and of the tokenizer's definition."""
    if is_hugging_face(folder):
        checkpoint = open_folder(folder)
        return sum(tensor.nbytes for tensor in checkpoint.tensors.values()) + len(checkpoint.tokenizer or b"")
    opened = open_model(folder)
    return sum(array.nbytes for array in opened.arrays.values()) + sum(map(len, opened.texts.values()))
