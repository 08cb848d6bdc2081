"""Opens or describes what is in a folder or a file: `load` and `info`."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, cast, overload

from chainrule.base.memory import collection_paused
from chainrule.base.options import takes
from chainrule.errors import ChainruleError, SettingError, WrongModelError, prefix_errors
from chainrule.kinds import kinds
from chainrule.models.any_model import AnyKind, AnyModel, check_kind, describe_wrong_kind
from chainrule.models.files.folders import open_text_model
from chainrule.models.files.recognition import class_at, opener_of
from chainrule.models.model import Model
from chainrule.models.open_options import OpenOptions
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import open_model
from chainrule.storage.sources import local_path, locate, source_of, with_parts
from chainrule.text.tokenization.config import TokenizerConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    """Open any model: a folder, an ARPA file, a binary of KenLM's, what others write, or hf:owner/name of the Hub.

    What comes back has the verbs of its kind: CausalModel continues texts (CausalNetwork gives vectors, too),
    MaskedModel fills gaps, ClassifierModel labels, EmbeddingModel gives vectors, Seq2SeqModel writes texts from
    others, CaptionModel from pictures, SpeechModel from sounds, WordVectors compares words. A type checker knows which
    once the kind is named, or isinstance asks for it.

    kind: the class that the model must have; by default any. The options are those of `OpenOptions`. A mapped folder,
    as it is without copy, is shared by all processes, but a process ends if somebody truncates a file while it is
    mapped. Quantised weights take several times the memory with exact. Without alone, small networks read several texts
    at once, two to three times as fast. A token that is scored in windows sees at least the context less the stride,
    half of the context by default. With cache_bits=8, keys and values take little more than a quarter of the memory.
    Raises ModelFormatError; SettingError, of which a wrong kind is a WrongModelError; ServerError of the Hub.

    good:  chainrule.load("lm/", chainrule.CausalModel).perplexity("heldout.txt")
    good:  chainrule.load("bert/", chainrule.MaskedModel).fill("the [MASK] bit the man")
    good:  chainrule.load("mt/", chainrule.Seq2SeqModel).write(["ein Hund"])
    good:  chainrule.load("hf:owner/name", revision="v1.0", file="*Q4_K_M.gguf")
    """
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, AnyModel)):
        raise SettingError(f"kind is {kind!r}; expected a class of models, such as MaskedModel, or nothing")
    path = with_parts(path, options.revision, options.file)
    folder = local_path(path, progress=options.progress)
    named = os.fspath(path) if source_of(path) is not None else ""  # before messages on files that are in a cache
    with prefix_errors(named):
        opener = opener_of(folder)
        known = class_at(folder, opener)
    with prefix_errors(os.fspath(path)):
        if known is not None:
            if hasattr(known, "family"):
                options.check_taken(known.open_options, kinds()[known.family].title)
            if kind is not None and hasattr(known, "family") and not issubclass(known, kind):
                raise WrongModelError(describe_wrong_kind(known.family, known.capability, kind.capability))
    if named:
        folder, lasting = locate(path, is_whole=True, allow_pickle=options.allow_pickle, progress=options.progress)
        opener = opener_of(folder)
    with showing(options.progress) as progress, prefix_errors(named):
        if opener is not None:
            model: AnyModel = opener.opened.get()(folder, options, progress)
        elif known is not None and issubclass(known, Model):
            model = open_text_model(folder, options, load)
        else:
            assert known is not None
            model = known.open(folder, options, progress)
    if named:
        model.record |= {"opened_from": lasting, "read_from": lasting}
    with prefix_errors(os.fspath(path)):
        if folder.is_dir() and isinstance(model, Model):
            _check_tokenizer(model, options.tokenizer_config)
        model.apply(options)
        return model if kind is None else check_kind(model, kind)


def _check_tokenizer(model: Model, wanted: TokenizerConfig | None) -> None:
    """Raise SettingError where a folder is to be read with another tokenizer than its own."""
    if wanted not in (None, TokenizerConfig(kind=model.tokenizer.name)):
        raise SettingError(
            f"was trained with the {model.tokenizer.name} tokenizer, so it cannot use {wanted.kind!r}; leave tokenizer "
            "out"
        )


def open_drafting(draft: str) -> Drafting:
    """Return drafting by name, or by the model at a path. Raises ModelFormatError, SettingError."""
    from chainrule.models.drafting import NAMED_DRAFTERS, Drafting

    if draft in NAMED_DRAFTERS:
        return Drafting(draft)
    if not local_path(draft).exists():
        names = ", ".join(NAMED_DRAFTERS)
        raise SettingError(f"draft is {draft!r}; expected {names}, or a model: there is no such folder or file")
    model = load(draft, Model)
    with prefix_errors(draft):
        return Drafting(model, name=draft)


@shows_progress
def info(model: AnyModel | str | os.PathLike[str], *, progress: ProgressOption = None) -> ModelInfo:
    """Return what is known of a model, of any family: its size, settings, data, training and validation.

    model: a model, or the path of one: a folder, an ARPA file, a binary of KenLM's, or a file of word vectors. Raises
    ModelFormatError, whose `contents` say what is in a Hugging Face folder or a GGUF file that cannot be opened.

    good:  print(chainrule.info("lm/"))
    """
    if isinstance(model, AnyModel):
        return model.info()
    try:
        opened = load(model, progress=callback(progress))
    except ChainruleError as error:
        with suppress(ChainruleError):
            opener = opener_of(path := local_path(model))
            if opener is not None and opener.contents is not None:
                error.contents = opener.contents.get()(path)
        raise
    path = local_path(model, is_whole=True)
    is_file = path.is_file()
    return opened.info(size=opened.record.get("file_bytes", path.stat().st_size) if is_file else _bytes_of(path))


def _bytes_of(folder: Path) -> int:
    """Return the size in bytes as the model card gives it: of all arrays, and of the tokenizer's definition."""
    if is_hugging_face(folder):
        checkpoint = open_folder(folder)
        return sum(tensor.nbytes for tensor in checkpoint.tensors.values()) + len(checkpoint.tokenizer or b"")
    opened = open_model(folder)
    return sum(array.nbytes for array in opened.arrays.values()) + sum(map(len, opened.texts.values()))
