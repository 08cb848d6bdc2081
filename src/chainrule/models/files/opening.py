"""Opens or describes what is in a folder or a file: `load`, `info`, `open_shards`; `verify` (checksums) and
`verify_distribution`: whether a model is what it claims to be.

`open_shards` opens some shards of an n-gram model, for a process that serves them.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, overload

import numpy as np

from chainrule.base.arguments import as_path, check_least
from chainrule.errors import ChainruleError, ModelFormatError, SettingError, prefix_errors
from chainrule.features.open.contents import contents_of
from chainrule.features.seq2seq.model import Seq2SeqModel, is_seq2seq, load_pairs
from chainrule.features.speech.model import SpeechModel, hears_sounds, load_speech
from chainrule.features.vectors.learning.fasttext import is_fasttext
from chainrule.features.vectors.model import is_vectors_folder, load_vectors
from chainrule.features.vision.model import CaptionModel, captions_pictures, load_captioner
from chainrule.models.drafting import NAMED_DRAFTERS, Drafting
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.load_model import kind_of
from chainrule.models.files.load_model import load as load_model
from chainrule.models.model import Kind, Model, check_kind
from chainrule.models.model_info import (
    ModelInfo,
    info_of_captioner,
    info_of_model,
    info_of_pairs,
    info_of_speech,
    info_of_vectors,
)
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.ngram.config import SHARDS
from chainrule.protocol import UNKNOWN
from chainrule.storage.config_json import read_config
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import CARD, open_data_file, open_model, saved_family, verify_model
from chainrule.text.corpus.corpus import source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.evaluation.distribution import DistributionChecks, ServedScores
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.models.embedding_model import EmbeddingModel
    from chainrule.models.language_models import CausalModel, CausalNetwork, MaskedModel
    from chainrule.ngram.trie.table import Table
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers

    # What `load` gives where no kind is named.
    AnyModel = (
        CausalModel
        | CausalNetwork
        | MaskedModel
        | EmbeddingModel
        | ClassifierModel
        | Seq2SeqModel
        | CaptionModel
        | SpeechModel
    )


@overload
def load(
    path: str | os.PathLike[str],
    kind: type[Seq2SeqModel],
    *,
    progress: ProgressOption = None,
) -> Seq2SeqModel: ...


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
    kind: type[SpeechModel],
    *,
    progress: ProgressOption = None,
) -> SpeechModel: ...


@overload
def load(
    path: str | os.PathLike[str],
    kind: type[Kind],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    exact: bool | None = None,
    alone: bool | None = None,
    window_stride: int | None = None,
    cache_bits: int | None = None,
    bos: str | None = None,
    float64_layers: int | None = None,
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
    exact: bool | None = None,
    alone: bool | None = None,
    window_stride: int | None = None,
    cache_bits: int | None = None,
    bos: str | None = None,
    float64_layers: int | None = None,
    progress: ProgressOption = None,
) -> AnyModel: ...


@shows_progress
def load(
    path: str | os.PathLike[str],
    kind: type[Model] | type[Seq2SeqModel] | type[CaptionModel] | type[SpeechModel] | None = None,
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    exact: bool | None = None,
    alone: bool | None = None,
    window_stride: int | None = None,
    cache_bits: int | None = None,
    bos: str | None = None,
    float64_layers: int | None = None,
    progress: ProgressOption = None,
) -> Model | Seq2SeqModel | CaptionModel | SpeechModel:
    """Opens any model: a folder, with what it holds; an ARPA file; or a binary of KenLM's.

    What comes back has the verbs of its kind: CausalModel continues texts (CausalNetwork gives vectors, too),
    MaskedModel fills gaps, ClassifierModel labels, EmbeddingModel gives vectors, Seq2SeqModel writes texts from
    others, CaptionModel from pictures, SpeechModel from sounds. For a type checker, that is any of these kinds, until
    the kind is named or isinstance asks for it.

    kind: the class that the model must have; by default any. tokenizer: the tokenizer of an ARPA file or a binary,
    which do not name one; by default it follows from the marks in the tokens. Pieces of a subword tokenizer need the
    path of its tokenizer.json, or of a model folder that has it. A model folder has its own tokenizer. markers: the
    rule for literal <s>, </s> and <unk>; by default the model's own, or error. copy: whether to read a model folder's
    numbers into memory; without it they are mapped from the file, so that all processes share them, but a process ends
    if somebody truncates the file while it is mapped. allow_pickle: whether to open a Hugging Face folder whose weights
    are pickles; allow it only where you trust who made the folder, although torch reads nothing but tensors from it.
    exact: whether weights that a file has quantised in blocks are widened to float32, which takes several times the
    memory; without it, they are computed with as they are stored, and vectors are rounded to eight bits. By default,
    what the environment variable CHAINRULE_EXACT says, as the option --exact of every command sets it.
    alone: whether a network reads each text that it scores in a pass of its own, so that its figures are the same to
    the last bit whatever else is scored; without it, small networks read several texts at once, which is two to three
    times as fast for sentences. window_stride: texts longer than a network's context are scored in windows that begin
    so many tokens apart; a token sees at least the context less the stride. By default half of the context. bos: the
    token that a network reads before each text, by its name, such as <|endoftext|>; by default the one that the model's
    own files name (bos_token). cache_bits: 8 to keep the keys and values of a Transformer, of the tokens that it has
    read, in eight bits: little more than a quarter of the memory; they are rounded where texts are scored, too. By
    default they have 32. float64_layers: how many of the first layers of a Transformer compute in float64 where whole
    texts are scored: what float32 rounds off there, later layers amplify. By default none. Without alone,
    window_stride, bos, cache_bits and float64_layers, the environment variables CHAINRULE_ALONE,
    CHAINRULE_WINDOW_STRIDE, CHAINRULE_BOS, CHAINRULE_CACHE_BITS and CHAINRULE_FLOAT64_LAYERS count, which --alone,
    --window-stride, --bos, --cache-bits and --float64-layers set.
    Raises ModelFormatError, SettingError.

    good:  chainrule.load("lm/").perplexity("heldout.txt")
    good:  chainrule.load("lm/", chainrule.CausalModel).perplexity("heldout.txt")  # an editor knows what it can do
    good:  chainrule.load("bert/", chainrule.MaskedModel).fill("the [MASK] bit the man")
    good:  chainrule.load("mt/", chainrule.Seq2SeqModel).write(["ein Hund"])
    """
    kinds = Model | Seq2SeqModel | CaptionModel | SpeechModel
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, kinds)):
        raise SettingError(f"kind is {kind!r}; expected a class of models, such as MaskedModel, or nothing")
    folder = as_path(path)
    if is_vectors_folder(folder):
        raise ModelFormatError(f"{path}: holds word vectors, not a model of texts; open it with load_vectors")
    of_one_text = {
        "tokenizer": tokenizer,
        "markers": markers,
        "bos": bos,
        "cache_bits": cache_bits,
        "float64_layers": float64_layers,
    }

    def refuse_given(reader: str) -> None:
        given = [name for name, value in of_one_text.items() if value is not None] + ["copy"] * copy
        if given:
            raise SettingError(f"{path}: {reader} takes no {' and no '.join(given)}; leave it out")

    if kind is CaptionModel or captions_pictures(folder):
        if kind not in (None, CaptionModel):
            raise ModelFormatError(f"{path}: is a captioner, a CaptionModel")
        refuse_given("a captioner")
        return load_captioner(path, progress=callback(progress))
    if kind is SpeechModel or hears_sounds(folder):
        if kind not in (None, SpeechModel):
            raise ModelFormatError(f"{path}: is a model that hears, a SpeechModel")
        refuse_given("a model that hears")
        return load_speech(path, progress=callback(progress))
    is_pairs = is_seq2seq(folder)
    if is_pairs:
        if kind not in (None, Seq2SeqModel):
            raise ModelFormatError(f"{path}: is a seq2seq model, a Seq2SeqModel; expected a model of one text")
        refuse_given("a seq2seq model")
    if is_pairs or kind is Seq2SeqModel:
        return load_pairs(path, allow_pickle=allow_pickle, progress=callback(progress))
    model = load_model(
        path,
        tokenizer=tokenizer,
        markers=markers,
        copy=copy,
        allow_pickle=allow_pickle,
        exact=exact,
        alone=alone,
        window_stride=window_stride,
        cache_bits=cache_bits,
        bos=bos,
        float64_layers=float64_layers,
        progress=callback(progress),
    )
    with prefix_errors(os.fspath(path)):
        return model if kind is None else check_kind(model, cast("type[Model]", kind))


def open_drafting(draft: str) -> Drafting:
    """Drafting by name, or by the model at a path. Raises ModelFormatError, SettingError."""
    if draft in NAMED_DRAFTERS:
        return Drafting(draft)
    if not Path(draft).exists():
        names = ", ".join(NAMED_DRAFTERS)
        raise SettingError(f"draft is {draft!r}; expected {names}, or a model: there is no such folder or file")
    with prefix_errors(draft):
        return Drafting(load_model(draft), name=draft)


def model_class_at(
    path: str | os.PathLike[str],
) -> type[Model] | type[Seq2SeqModel] | type[CaptionModel] | type[SpeechModel] | None:
    """What `load` would open, as the configuration of a folder says; None where only opening it shows that.

    Raises ModelFormatError if the configuration is damaged.
    """
    folder = Path(path)
    if captions_pictures(folder):
        return CaptionModel
    if hears_sounds(folder):
        return SpeechModel
    if is_seq2seq(folder):
        return Seq2SeqModel
    family = saved_family(folder)
    return kind_of(family) if family is not None and family in FAMILIES else None


@shows_progress
def info(
    model: Model | Seq2SeqModel | CaptionModel | SpeechModel | str | os.PathLike[str],
    *,
    progress: ProgressOption = None,
) -> ModelInfo:
    """What is known of a model, of any family: its size, settings, data, training and validation.

    model: a model, or the path of one: a folder, an ARPA file, a binary of KenLM's, or a file of word vectors. Raises
    ModelFormatError, whose `contents` say what is in a Hugging Face folder or a GGUF file that cannot be opened.

    good:  print(chainrule.info("lm/"))
    """
    size = None
    if isinstance(model, str | os.PathLike):
        path = as_path(model)
        if is_vectors_folder(path) or is_fasttext(path):
            return info_of_vectors(load_vectors(path))
        try:
            model = load(path, progress=callback(progress))
        except ChainruleError as error:
            if path.is_file():
                with suppress(ChainruleError):
                    return info_of_vectors(load_vectors(path, progress=callback(progress)))
            error.contents = contents_of(path)
            raise
        size = path.stat().st_size if path.is_file() else _bytes_of(path)
    if isinstance(model, SpeechModel):
        return info_of_speech(model.labels, model.record, size=size)
    if isinstance(model, CaptionModel):
        return info_of_captioner(model.tokenizer, model.record, size=size)
    if isinstance(model, Seq2SeqModel):
        return info_of_pairs(model.target, model.source, model.record, size=size)
    return info_of_model(model.parts, size=size)


def _bytes_of(folder: Path) -> int:
    """The size in bytes as the model card gives it: of all arrays, and of the tokenizer's definition."""
    if is_hugging_face(folder):
        checkpoint = open_folder(folder)
        return sum(tensor.nbytes for tensor in checkpoint.tensors.values()) + len(checkpoint.tokenizer or b"")
    opened = open_model(folder)
    return sum(array.nbytes for array in opened.arrays.values()) + sum(map(len, opened.texts.values()))


_TEXTS = 1000  # that are read to verify a distribution
_DRAWN = 20  # of a model's own, where none are given


class Verified(NamedTuple):
    """A folder whose checksums are right. bytes: the size of its data files."""

    bytes: int
    has_card: bool


@shows_progress
def verify(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> Verified:
    """Reads every byte of a model folder, compares the checksums, and opens the model.

    Raises ModelFormatError, which names all files that differ, or says why the model cannot be opened.

    good:  chainrule.verify("lm/").bytes
    """
    folder = as_path(path)
    if folder.is_file():
        raise ModelFormatError(f"{folder}: is a file; expected a model folder, which has checksums")
    if is_hugging_face(folder):
        raise ModelFormatError(
            f"{folder}: is a Hugging Face folder, which has no checksums; convert it to a model folder"
        )
    entry = verify_model(folder, callback(progress))
    if is_vectors_folder(folder):
        load_vectors(folder)
    else:
        load(folder)
    return Verified(sum(file.bytes for file in entry.files.values()), (folder / CARD).exists())


@shows_progress
def verify_distribution(
    model: Model | ServedScores,
    source: Source | Paths | None = None,
    *,
    contexts: int = 20,
    seed: int = 0,
    progress: ProgressOption = None,
) -> DistributionChecks:
    """Checks that a model's probabilities are a distribution, at random contexts of a text.

    model: one that continues texts, or a server: a `chainrule.models.client.Client`. source: the text; by default the
    model draws it itself, and a server needs one. contexts: how many. Raises SettingError, TextError, ServerError.

    good:  assert chainrule.verify_distribution(lm, "heldout.txt").is_distribution
    """
    from chainrule.decoding.limits import Constraints
    from chainrule.decoding.sampling import sample
    from chainrule.evaluation.distribution import check_distribution, check_server
    from chainrule.models.language_models import CausalModel

    check_least("seed", seed, 0)
    check_least("contexts", contexts, 1)
    blocks = () if source is None else source_of(source).blocks(callback(progress))
    texts = list(islice((text for block in blocks for text in block.documents()), _TEXTS))
    if not isinstance(model, Model):
        if source is None:
            raise SettingError("a server draws no text to be checked on; give source, a text")
        return check_server(model, texts, contexts=contexts, seed=seed, progress=callback(progress))
    causal = check_kind(model, CausalModel)
    if source is None:
        drawn = sample(
            causal.language_model,
            [np.empty(0, np.int32)],
            constraints=Constraints(banned=(UNKNOWN,)),
            seed=seed,
            texts_per_prefix=_DRAWN,
        )
        ids = [text.tokens for text in drawn]
    else:
        ids = [causal.tokenizer.encode_texts([text]).ids[:-1] for text in texts]
    return check_distribution(causal.language_model, ids, contexts=contexts, seed=seed, progress=callback(progress))


def open_shards(folder: Path, numbers: Sequence[int]) -> tuple[list[int], dict[int, Table], str]:
    """Some shards of a model folder, by number, whether the others are there or not; the edges and a digest of all.

    numbers: by default all. edges: as `ShardedModel` has them. digest: equal for copies of a model only.

    Raises ModelFormatError, SettingError.
    """
    from chainrule.ngram.saving import file_of, index_of, table_of_shard

    entry = read_config(folder)
    if entry.settings.get("layout") != SHARDS:
        raise ModelFormatError(f"{folder}: is not a model in shards; chainrule convert --shards makes one")
    if "backoff_weight" in entry.settings or "begins" in entry.settings:
        raise ModelFormatError(
            f"{folder}: is of stupid backoff, or of documents that begin with several <s>; only plain n-gram "
            "models are served by their shards"
        )
    with prefix_errors(str(folder)):
        edges, sizes = index_of(entry.settings)
    if len(set(numbers)) < len(numbers):
        raise SettingError(f"shards is {' '.join(map(str, numbers))}; name each shard once")
    tables = {}
    for k in numbers or range(len(sizes)):
        if not 0 <= k < len(sizes):
            raise SettingError(f"there is no shard {k}; the model has {len(sizes)}, from 0")
        arrays = open_data_file(folder, entry, f"{file_of(k)}.safetensors")
        with prefix_errors(str(folder)):
            tables[k] = table_of_shard(k, sizes[k], {f"{file_of(k)}/{name}": array for name, array in arrays.items()})
    files = sorted((name, file.sha256) for name, file in entry.files.items())
    return edges, tables, hashlib.sha256(repr((files, edges)).encode()).hexdigest()
