"""Model: a model with its tokenizer, its speller and the record of its training; what all kinds share, and saving.

What a model can do depends on its kind, which has a module of its own: a CausalModel continues texts, a MaskedModel
fills gaps, a ClassifierModel labels, an EmbeddingModel gives vectors. Models are saved as folders, which
`load` opens, as checkpoints of Hugging Face, or as the files in `ngram_files.py`.

    model = chainrule.train("corpus.txt", chainrule.NGramConfig(order=5))
    model.score(["a sentence", "another one"])
    model.save("lm/")
    chainrule.load("lm/").perplexity("heldout.txt")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from chainrule.base.arguments import as_path
from chainrule.errors import SettingError, WrongModelError
from chainrule.kinds import rows
from chainrule.models.any_model import AnyModel, describe_wrong_kind
from chainrule.models.families.table import FAMILIES
from chainrule.models.model_info import ModelParts, info_of_model, size_of
from chainrule.models.open_options import set_reading
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.drawing.drawn import Drawn
    from chainrule.models.families.family import Quantization, Task
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions
    from chainrule.neural.inspection import LayerGates
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.protocol import LanguageModel
    from chainrule.storage.safetensors import MappedFile
    from chainrule.text.corpus.reading import Document
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Markers


_DOES: dict[Task, str] = {
    "continue": "continues texts",
    "fill": "fills gaps in texts",
    "embed": "gives vectors of texts and predicts no tokens",
    "classify": "labels texts",
}


class Model(AnyModel):
    """A model of text, usually a language model: an engine, a tokenizer and a speller."""

    capability: ClassVar[str] = "is a model of texts"
    open_options: ClassVar[frozenset[str] | None] = None

    def __init__(
        self,
        family: str,
        engine: Any,
        tokenizer: Tokenizer,
        record: dict[str, Any] | None = None,
        speller: Speller | MixedSpeller | None = None,
        *,
        mapped: MappedFile | None = None,
    ) -> None:
        """Store the parts of the model.

        engine: what the family trains, usually a LanguageModel. speller: by default one learned from the vocabulary.
        mapped: the file that the arrays are mapped from.
        """
        self.family, self._engine, self._tokenizer = family, engine, tokenizer
        self._mapped = mapped
        self.record = record or {}
        self._speller = speller
        self.base: Model | None = None  # what its adapter stands on, kept so that other adapters share its weights

    def apply(self, options: OpenOptions) -> None:
        """Implement `AnyModel.apply`; options of networks are for those in mixtures, too."""
        if options.markers is not None:
            self.set_markers(options.markers)
        set_reading(self.engine, self.tokenizer, self.record, options)

    def does(self) -> str:
        """Implement `AnyModel.does`."""
        return _DOES[FAMILIES[self.family].job]

    def besides(self) -> str:
        """Implement `AnyModel.besides`."""
        return "; it can score, embed and judge minimal pairs" if FAMILIES[self.family].job == "fill" else ""

    def attention(self, source: Any, target: str | None = None) -> Drawn:
        """Return the maps of all layers and heads while a network reads a text; trees for models of these.

        Raises SettingError.
        """
        from chainrule.models.attending import attend_text

        if self.family in rows("attention"):
            return super().attention(source, target)
        if target is not None:
            raise SettingError(
                f"a language model reads one text; leave out the target, {target!r}, or give a seq2seq model"
            )
        return attend_text(self.require_engine("continue", "fill", "embed"), self.tokenizer, self.record, source)

    def drawn_network(self) -> Any:
        """Implement `AnyModel.drawn_network`."""
        return getattr(self.engine, "network", None)

    @property
    def reads_pictures(self) -> bool:
        """Whether it reads pictures and no texts."""
        return False

    def gates(self, tokens: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], list[LayerGates]]:
        """Return the tokens that a recurrent network reads for a text, and what its layers compute at each.

        Raises SettingError for other models.
        """
        from chainrule.neural.inspection import gates_of_text

        return gates_of_text(self.engine, tokens)

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`."""
        return info_of_model(self.parts, size=size)

    def __repr__(self) -> str:
        size = size_of(self.record)
        kind, tokens = type(self).__name__, f"{self.vocabulary_size:,} tokens"
        return f"<{kind}: {self.family}, {self.tokenizer.name} tokenizer, {tokens}{size}>"

    def _repr_html_(self) -> str:
        return info_of_model(self.parts)._repr_html_()

    @property
    def engine(self) -> Any:
        """What the family trains. Raises ModelFormatError if its file has changed since it was opened."""
        self._check_file()
        return self._engine

    @property
    def parts(self) -> ModelParts:
        return ModelParts(self.family, self.engine, self.tokenizer, self.speller, self.record)

    @property
    def language_model(self) -> LanguageModel[Any]:
        """The engine, if it continues texts. Raises WrongModelError if not; ModelFormatError as `engine`."""
        return cast("LanguageModel[Any]", self.require_engine("continue"))

    def require_engine(self, *jobs: Task) -> Any:
        """Return the engine, if it does one of these jobs. Raises WrongModelError if not; ModelFormatError as
        `engine`.
        """
        if FAMILIES[self.family].job not in jobs:
            wanted = " or ".join(_DOES[job] for job in jobs)
            raise WrongModelError(describe_wrong_kind(self.family, self.does(), wanted) + self.besides())
        return self.engine

    @property
    def is_bidirectional(self) -> bool:
        """Whether its scores are pseudo-log-likelihoods, and it fills gaps."""
        return FAMILIES[self.family].job == "fill"

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises ModelFormatError as `engine`: the vocabulary is in the same file."""
        self._check_file()
        return self._tokenizer

    def _check_file(self) -> None:
        if self._mapped is not None:
            self._mapped.check()

    @property
    def document(self) -> Document | None:
        """What part of a file was a document in training; None if the record does not say, or file names decided."""
        from chainrule.text.corpus.reading import document_in

        return document_in(self.record)

    def set_markers(self, markers: Markers) -> None:
        """Set the rule for literal <s>, </s> and <unk> in texts: error, skip or keep. Raises SettingError."""
        self._tokenizer = self.tokenizer.with_markers(markers)

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    @property
    def speller(self) -> Speller | MixedSpeller:
        """The model of the spelling of unknown tokens."""
        if self._speller is None:
            from chainrule.ngram.speller import Speller

            self._speller = Speller.of_vocabulary(self.tokenizer)
        return self._speller

    @property
    def layout(self) -> str | None:
        """The layout of an n-gram table, in memory and on disk: fast or compact; None for other models."""
        return FAMILIES[self.family].layout(self.engine)

    @shows_progress
    def compact(self, progress: ProgressOption = None, *, bits: int | None = None) -> Self:
        """Return the same model, quantised: an n-gram model takes a fifth of the memory, with 256 values for the
        probabilities of each order; a Transformer takes little more than a quarter, with matrices in int8 and a scale
        for every 32 weights.

        bits: of a Transformer's weights, 4, 5, 6 or 8, in blocks as those of GGUF files; products then also round
        vectors to eight bits, which is several times as fast.
        Raises SettingError where it has no compact form, ModelFormatError where it is damaged, EstimationError where
        there is not enough memory.

        good:  chainrule.load("lm/").compact().save("small/")
        good:  chainrule.load("lm/").compact(bits=4).save("smaller/")
        """
        if bits not in (None, 4, 5, 6, 8):
            raise SettingError(f"bits is {bits!r}; expected 4, 5, 6 or 8, or nothing")
        alone = self.merge()
        if bits is not None and "merged_adapter" in alone.record and alone.is_compact:  # but for what was merged
            alone = alone.unpack(progress)
        engine = self._compaction.compact(alone.engine, callback(progress), bits)
        return self._with_engine(engine, {**alone.record, "quantised": True})

    @shows_progress
    def unpack(self, progress: ProgressOption = None) -> Self:
        """Return the fast layout of a compact model, quantised as it was. Raises as `compact` does."""
        return self._with_engine(self._compaction.unpack(self.engine, callback(progress)), self.record)

    def merge(self) -> Self:
        """Return the same model with its adapter added to the weights of its base, in float32; itself, if it has none.

        good:  chainrule.load("law/").merge().save("law-alone/")
        """
        if "adapter" not in self.record:
            return self
        from chainrule.neural.saving import merged

        record = {name: value for name, value in self.record.items() if name != "adapter"}
        return self._with_engine(merged(self.engine), {**record, "merged_adapter": self.record["adapter"]})

    @property
    def is_compact(self) -> bool:
        """Whether `unpack` would change it."""
        compaction = FAMILIES[self.family].compaction
        return compaction is not None and compaction.is_compact(self.engine)

    @property
    def _compaction(self) -> Quantization:
        """How models of the family become compact. Raises SettingError."""
        compaction = FAMILIES[self.family].compaction
        if compaction is None:
            raise SettingError(
                f"a model of family {self.family!r} has no compact form; expected an n-gram model or a Transformer"
            )
        return compaction

    def _with_engine(self, engine: Any, record: dict[str, Any]) -> Self:
        if engine is self._engine:
            return self
        return type(self)(self.family, engine, self.tokenizer, record, self.speller)

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder, or a file where the path ends in .gguf (for llama.cpp), in .arpa, in .fst.txt (an
        automaton of OpenFst, with its symbols beside it) or in .combined (a word list of Android keyboards), or in one
        of the last three and .gz, .zst, .xz or .bz2.

        Raises OutputError; SettingError if the model has no such form.
        """
        from chainrule.models.files.saving import save_folder
        from chainrule.models.files.writing import writer_of

        progress = callback(progress)
        path = as_path(path)
        writer = writer_of(path)
        if writer is None:
            save_folder(self.parts, path, overwrite=overwrite, progress=progress)
        else:
            writer.write.get()(self, path, None, overwrite=overwrite, progress=progress)
