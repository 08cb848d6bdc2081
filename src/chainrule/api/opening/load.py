"""Opens a model of any kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast, overload

from chainrule.api.conditional.caption_model import CaptionModel, captions_pictures, load_captioner
from chainrule.api.conditional.pair_model import TextPairModel, holds_pairs, load_pairs
from chainrule.api.models.build_model import kind_of
from chainrule.api.models.load_model import load as load_model
from chainrule.api.models.model import Kind, Model, as_kind
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.vectors.load_vectors import is_vectors_folder
from chainrule.errors import ModelFormatError, SettingError, prefix_errors
from chainrule.families.table import FAMILIES
from chainrule.storage.model_folder import saved_family

if TYPE_CHECKING:
    from chainrule.api.models.causal_model import CausalNetwork
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers


@overload
def load(
    path: str | os.PathLike[str],
    kind: type[TextPairModel],
    *,
    progress: ProgressOption = None,
) -> TextPairModel: ...


@overload
def load(
    path: str | os.PathLike[str],
    kind: type[CaptionModel],
    *,
    progress: ProgressOption = None,
) -> CaptionModel: ...


@overload
def load(
    path: str | os.PathLike[str],
    kind: type[Kind],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    progress: ProgressOption = None,
) -> Kind: ...


@overload
def load(
    path: str | os.PathLike[str],
    kind: None = None,
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    progress: ProgressOption = None,
) -> CausalNetwork: ...


@shows_progress
def load(
    path: str | os.PathLike[str],
    kind: type[Model] | type[TextPairModel] | type[CaptionModel] | None = None,
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    progress: ProgressOption = None,
) -> Model | TextPairModel | CaptionModel:
    """Opens any model: a folder, with what it holds; an ARPA file; or a binary of KenLM's.

    What comes back has the verbs of its kind: CausalModel continues texts (CausalNetwork gives vectors, too),
    MaskedModel fills gaps, ClassifierModel labels, EmbeddingModel gives vectors, TextPairModel writes texts from
    others, CaptionModel from pictures. An editor that reads types alone sees the first; name the kind where it is
    another.

    kind: what the model must be; by default what is there. tokenizer: how text is cut for an ARPA file or a binary,
    which do not say; by default as the marks in its tokens show. Pieces of a subword tokenizer need the path of its
    tokenizer.json, or of a model folder that has it. A model folder has its own tokenizer. markers: the rule for
    literal <s>, </s> and <unk>; by default the model's own, or error. copy: whether to read a model folder's numbers
    into memory; without it they are the file's pages, which all processes share, but which end the process where
    somebody cuts the file off in place while they are read. allow_pickle: whether to open a Hugging Face folder whose
    weights are pickles; say so only where you trust who made it, though torch reads nothing of it but tensors.
    Raises ModelFormatError, SettingError.

    good:  chainrule.load("lm/").perplexity("heldout.txt")
    good:  chainrule.load("bert/", chainrule.MaskedModel).fill("the [MASK] bit the man")
    good:  chainrule.load("mt/", chainrule.TextPairModel).write(["ein Hund"])
    """
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, Model | TextPairModel | CaptionModel)):
        raise SettingError(f"kind is {kind!r}; expected a class of models, such as MaskedModel, or nothing")
    folder = Path(path)
    if is_vectors_folder(folder):
        raise ModelFormatError(f"{path}: holds word vectors, not a model of texts; open it with load_vectors")
    if kind is CaptionModel or captions_pictures(folder):
        if kind not in (None, CaptionModel):
            raise ModelFormatError(f"{path}: is a model that captions pictures, a CaptionModel")
        if (tokenizer, markers, copy) != (None, None, False):
            raise SettingError(f"{path}: a model that captions takes no tokenizer, markers or copy; leave them out")
        return load_captioner(path, progress=callback(progress))
    is_pairs = holds_pairs(folder)
    if is_pairs:
        if kind not in (None, TextPairModel):
            raise ModelFormatError(
                f"{path}: is a model of one text given another, a TextPairModel; expected a model of one text"
            )
        if (tokenizer, markers, copy) != (None, None, False):
            raise SettingError(
                f"{path}: a model of one text given another takes no tokenizer, markers or copy; leave them out"
            )
    if is_pairs or kind is TextPairModel:
        return load_pairs(path, allow_pickle=allow_pickle, progress=callback(progress))
    model = load_model(
        path, tokenizer=tokenizer, markers=markers, copy=copy, allow_pickle=allow_pickle, progress=callback(progress)
    )
    with prefix_errors(os.fspath(path)):
        return model if kind is None else as_kind(model, cast("type[Model]", kind))


def kind_at(path: str | os.PathLike[str]) -> type[Model] | type[TextPairModel] | type[CaptionModel] | None:
    """What `load` would open, as the configuration of a folder says; None where only opening it shows that.

    Raises ModelFormatError if the configuration is damaged.
    """
    folder = Path(path)
    if captions_pictures(folder):
        return CaptionModel
    if holds_pairs(folder):
        return TextPairModel
    family = saved_family(folder)
    return kind_of(family) if family in FAMILIES else None
