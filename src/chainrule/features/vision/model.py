"""CaptionModel: captions pictures. A seq2seq model with its encoder of pictures, a tokenizer, and the training record.

model = chainrule.train_captions(chainrule.read_captions("train.jsonl"), encoder="resnet/")
model.caption(["dog.jpg"])[0][0].text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule.base.arguments import as_path
from chainrule.base.options import takes
from chainrule.base.progress import silent
from chainrule.base.results import finite
from chainrule.decoding.beam import search, with_greedy
from chainrule.decoding.config import Limits
from chainrule.decoding.limits import constraints_for
from chainrule.drawing.plots import PICTURE_SUFFIXES
from chainrule.errors import SettingError, opening_folder
from chainrule.features.classify.network.config import labelling_settings
from chainrule.features.metrics.text_scores import measure_captions
from chainrule.features.seq2seq.generation import BEAM, score_targets, search_sources, sentence_slices
from chainrule.features.seq2seq.measurement import PairMeasurement, measure_targets
from chainrule.features.seq2seq.options import MAX_TOKENS, CaptionOptions
from chainrule.features.vision.pictures.captions import CaptionedPicture, check_captions
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.models.any_model import AnyModel
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry, tokenizer_from
from chainrule.models.language_models import BeamTree, CausalModel
from chainrule.models.model_info import info_of_network, size_of
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.neural.config import settings_of
from chainrule.storage.model_folder import TOKENIZER, VOCABULARY_ARRAYS, open_model, save_model
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Self

    from jaxtyping import Float32, Float64, Shaped
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.decoding.beam import Hypothesis
    from chainrule.decoding.config import BeamConfig
    from chainrule.decoding.limits import Constraints
    from chainrule.decoding.sampling import Ending
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.vision.network.config import PictureLabelling
    from chainrule.features.vision.regions import RegionReader
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions
    from chainrule.text.tokenization.tokenizer import Tokenizer

FAMILY = "caption"
_PLACE = 4  # pixels of the frame for each place that attention to regions is drawn on


class Caption(NamedTuple):
    """A caption of a picture.

    log_prob: in nats. score: what hypotheses are ranked by. ending: end, if </s> was written, which log_prob then
    includes; length, if the caption was cut at the limit. tokens: as the tokenizer marks them. attention: the weights
    of each token, and of </s> if it was written, (tokens, rows, columns) over the picture's places; or over its
    regions, each as a place.
    """

    text: str
    log_prob: float
    score: float
    ending: Ending
    tokens: list[str]
    attention: Float32[ndarray, "tokens rows columns"] | Float32[ndarray, "tokens regions"] | None

    def as_json(self) -> dict[str, Any]:
        """Return all of it for JSON, with the weights of attention to four decimals."""
        return {
            **self._asdict(),
            "log_prob": finite(self.log_prob),
            "score": finite(self.score),
            "attention": None if self.attention is None else self.attention.round(4).tolist(),
        }


class Sentence(NamedTuple):
    """A sentence of a paragraph. stop: the probability that none follows it."""

    text: str
    stop: float


class CaptionModel(AnyModel):
    """P(caption | picture)."""

    family = FAMILY
    attention_files: ClassVar[tuple[str, ...]] = PICTURE_SUFFIXES
    capability: ClassVar[str] = "captions pictures (chainrule caption, or chainrule.load(path).caption)"

    def __init__(
        self,
        model: NeuralSeq2SeqModel,
        encoder: PictureLabelling | None,
        tokenizer: Tokenizer,
        record: dict[str, Any] | None = None,
        regions: RegionReader | None = None,
    ) -> None:
        """Store the model, and what reads its pictures.

        encoder: the settings of the encoder of pictures; None where the model is given vectors. regions: the reader of
        the regions that the model attends to; None where it attends to the places of a grid.
        """
        self.model, self.encoder, self.tokenizer, self.record = model, encoder, tokenizer, record or {}
        self.regions = regions

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Implement `AnyModel.open`."""
        from chainrule.features.vision.network.captioner import put_together_captioner
        from chainrule.features.vision.regions import REGION_ARRAYS, check_regions_suit, regions_from_state

        entry, arrays, texts, _ = open_model(path)
        with opening_folder(path, ValueError):
            tokenizer = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, texts.get(TOKENIZER))
            weights = {name: array for name, array in arrays.items() if not name.startswith(VOCABULARY_ARRAYS)}
            own = entry.settings.get("regions")
            regions = None if own is None else regions_from_state(own, weights, tokenizer)
            model, encoder = put_together_captioner(
                entry.settings.get("network"),
                None if regions is not None else entry.settings.get("encoder"),
                {name: array for name, array in weights.items() if not name.startswith(REGION_ARRAYS)},
                tokenizer.vocabulary_size,
            )
            if regions is not None:
                check_regions_suit(regions, model.network.config)
        return cls(model, encoder if regions is None else regions.encoder, tokenizer, entry.record, regions)

    def drawn_network(self) -> Any:
        """Implement `AnyModel.drawn_network`."""
        return self.model.network

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`."""
        return info_of_network(FAMILY, self.tokenizer.name, self.tokenizer.vocabulary_size, self.record, size=size)

    def __repr__(self) -> str:
        size = size_of(self.record)
        return f"<CaptionModel: {self.tokenizer.name} tokenizer, {self.tokenizer.vocabulary_size:,} tokens{size}>"

    def _repr_html_(self) -> str:
        return self.info()._repr_html_()

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of a picture's places; for a model of regions, those of the grid that attention is drawn
        on.
        """
        if self.encoder is not None and self.regions is not None:
            return -(-self.encoder.frame.height // _PLACE), -(-self.encoder.frame.width // _PLACE)
        rows, columns = self.model.network.config.source_grid
        return (self.encoder and self.encoder.patches) or (rows, columns)

    @property
    def needs_boxes(self) -> bool:
        """Whether the regions of a picture have to be given with it."""
        return self.regions is not None and self.regions.detector is None

    def on_grid(
        self, weights: Float32[ndarray, "tokens S"], source: Float32[ndarray, "S F"]
    ) -> Float32[ndarray, "tokens rows columns"]:
        """Return attention to the vectors of a source, on the rows and columns of the picture."""
        if self.regions is None:
            rows, columns = self.grid
            return weights[:, -rows * columns :].reshape(len(weights), rows, columns)
        from chainrule.features.vision.network.visual_sources import boxes_of, spread_on_picture

        return spread_on_picture(weights, boxes_of(source), *self.grid)

    def given(self, picture: Any) -> CausalModel:
        """Return P(text | picture) as a language model, which can be used like any other.

        picture: a Picture, the path of one, or pixels, bytes of height x width x 3; or its vectors, float32 of places x
        numbers; or, where regions are given, a CaptionedPicture with its boxes. Raises TextError, SettingError.
        """
        return CausalModel(FAMILY, self.model.given(self.sources([picture])), self.tokenizer, self.record)

    def sources(self, pictures: Iterable[Any]) -> list[Shaped[ndarray, "S ..."]]:
        """Return what the network reads of pictures, given as for `given`. Raises TextError, SettingError."""
        if self.regions is None:
            return [self._source(picture) for picture in pictures]
        return self._region_sources(list(pictures), silent)

    @shows_progress
    def vectors(self, pictures: Iterable[Any], *, progress: ProgressOption = None) -> list[Float32[ndarray, "L F"]]:
        """Return the vectors of the places of pictures, by the model's encoder; they stand for the pictures in every
        call.

        Raises TextError, SettingError.
        """
        return self._encoded(self.sources(pictures), callback(progress))

    @takes(CaptionOptions)
    def caption(self, pictures: Iterable[Any], options: CaptionOptions) -> list[list[Caption]]:
        """Return the likeliest captions of each picture, best first.

        pictures: each as for `given`. The options are those of `CaptionOptions`. Raises TextError, SettingError.

        good:  [captions] = model.caption(["dog.jpg"]); captions[0].text
        """
        if isinstance(pictures, str):
            raise TypeError("caption takes several pictures; put a single one in a list")
        with showing(options.progress) as progress:
            sources = self._encoded(self.sources(pictures), progress)
            searched = self._search(sources, options.beam, options.max_tokens, progress, alignments=options.alignments)
        return [
            [self._caption(hypothesis, source) for hypothesis in several]
            for several, source in zip(searched, sources, strict=True)
        ]

    def beam_tree(self, picture: Any, beam: BeamConfig | None = None, *, max_tokens: int = MAX_TOKENS) -> BeamTree:
        """Return all that the search of `caption` considers for a picture, with the path of greedy search.

        Raises TextError, SettingError.

        good:  model.beam_tree("dog.jpg").save("tree.html")
        """
        beam, constraints, prefix = beam or BEAM, self._constraints(max_tokens), np.empty(0, np.int32)
        given = self.model.given(self.sources([picture]))
        [result] = search(given, [prefix], beam, constraints, keep_tree=True)
        tree = with_greedy(given, prefix, result.tree, beam, constraints)
        return BeamTree("Beam search given a picture", "", tree, self.tokenizer)

    def sentences(self, picture: Any, text: str) -> list[Sentence]:
        """Return the sentences of a text about a picture, such as the model's own, with the probability that it stops
        there.

        picture: as for `given`. Raises TextError, SettingError.
        """
        [source] = self._encoded(self.sources([picture]), silent)
        given, tokens = self.model.given([source]), self.tokenizer.encode_texts([text]).ids[:-1]
        written = []
        for part in sentence_slices(tokens, self.tokenizer):
            [log_probs] = given.next_log_probs(given.start([tokens[: part.stop]]))
            written.append(Sentence(self.tokenizer.decode(tokens[part]), float(np.exp(log_probs[given.end]))))
        return written

    @shows_progress
    def score(
        self, pictures: Sequence[CaptionedPicture], *, progress: ProgressOption = None
    ) -> list[Float64[ndarray, " captions"]]:
        """Return log P of each caption of each picture with its </s>, in nats. Raises TextError, SettingError."""
        progress = callback(progress)
        pictures = check_captions(pictures, with_pictures=self.encoder is not None)
        return self._score(self._encoded(self._pictures(pictures), progress), pictures, progress)

    @shows_progress
    def evaluate(
        self,
        pictures: Sequence[CaptionedPicture],
        beam: BeamConfig | None = None,
        *,
        vectors: Float32[ndarray, "N L F"] | None = None,
        max_tokens: int = MAX_TOKENS,
        progress: ProgressOption = None,
    ) -> PairMeasurement:
        """Return perplexity and bits per byte of given captions; BLEU, METEOR, ROUGE-L and CIDEr-D of captions that the
        model writes.

        vectors: the vectors of the pictures, in their place; a model without an encoder of pictures needs them. Raises
        TextError, SettingError.
        """
        progress = callback(progress)
        pictures = check_captions(pictures, with_pictures=self.encoder is not None and vectors is None)
        if vectors is not None and len(vectors) != len(pictures):
            raise SettingError(f"there are vectors of {len(vectors):,} pictures, but captions of {len(pictures):,}")
        sources = self._encoded(self._pictures(pictures) if vectors is None else self.sources(vectors), progress)
        log_probs = self._score(sources, pictures, progress)
        written = self._search(sources, beam, max_tokens, progress)
        texts = [self.tokenizer.decode(several[0].tokens) if several else "" for several in written]
        captions = [caption for item in pictures for caption in item.captions]
        scores = measure_captions(texts, [item.captions for item in pictures])
        return measure_targets(captions, np.concatenate(log_probs), self.tokenizer, scores, of="picture")

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder, with the encoder of pictures. Raises OutputError."""
        from chainrule.features.vision.regions import take_apart_regions
        from chainrule.neural.saving import arrays_of

        arrays = arrays_of(self.model.network)
        arrays |= {VOCABULARY_ARRAYS + name: array for name, array in self.tokenizer.vocabulary.arrays().items()}
        definition = self.tokenizer.splitter.definition
        texts = {} if definition is None else {TOKENIZER: definition}
        size = sum(array.nbytes for array in arrays.values()) + sum(map(len, texts.values()))
        encoder = None if self.encoder is None else labelling_settings(self.encoder)
        settings: dict[str, Any] = {"network": settings_of(self.model.network.config), "encoder": encoder}
        if self.regions is not None:
            settings["regions"], own = take_apart_regions(self.regions)
            arrays |= own
        save_model(
            as_path(path),
            family=FAMILY,
            settings=settings,
            tokenizer=tokenizer_entry(self.tokenizer),
            arrays=arrays,
            record=self.record,
            card=model_card(self.info(size=size).rows()),
            texts=texts,
            overwrite=overwrite,
            progress=callback(progress),
        )

    def _source(self, given: Any) -> Shaped[ndarray, "S ..."]:
        if isinstance(given, np.ndarray) and given.dtype == np.float32:
            return given.reshape(-1, given.shape[-1]) if given.ndim == 3 else given
        if self.encoder is None:
            raise SettingError(
                "this model was trained on vectors, not on pictures; give it the vectors of its own encoder"
            )
        return fit_to_frame(as_picture(given), self.encoder.frame)

    def _pictures(self, pictures: Sequence[CaptionedPicture]) -> list[Any]:
        """Return what the network reads of the pictures. Raises SettingError."""
        if self.encoder is None:
            raise SettingError("this model was trained on vectors; give those of the pictures, too")
        return self.sources(pictures if self.regions is not None else (item.picture for item in pictures))

    def _region_sources(self, pictures: list[Any], progress: Progress) -> list[Float32[ndarray, "S F"]]:
        """Return the sources of regions; vectors stay unchanged."""
        assert self.regions is not None
        fresh = [given for given in pictures if not (isinstance(given, np.ndarray) and given.dtype == np.float32)]
        read = iter(self.regions.sources(fresh, progress))
        return [
            given if isinstance(given, np.ndarray) and given.dtype == np.float32 else next(read) for given in pictures
        ]

    def _encoded(self, sources: list[Any], progress: Progress) -> list[Any]:
        """Return sources as vectors, so that the encoder reads each picture once."""
        from chainrule.features.seq2seq.network.vector_sources import check_vectors
        from chainrule.features.vision.network.captioner import attached_body
        from chainrule.features.vision.network.visual_sources import vectors_of_pictures

        body = attached_body(self.model)
        check_vectors(sources, self.model.network.config, body)
        pixels = [source for source in sources if source.dtype == np.uint8]
        if not pixels:
            return sources
        assert body is not None  # else check_vectors refuses pixels
        encoded = iter(vectors_of_pictures(body, pixels, progress))
        return [next(encoded) if source.dtype == np.uint8 else source for source in sources]

    def _constraints(self, max_tokens: int) -> Constraints:
        """Return the constraints of a text with at most so many tokens. Raises SettingError."""
        return constraints_for(Limits(max_tokens=max_tokens), self.tokenizer, "")

    def _search(
        self,
        sources: list[Any],
        beam: BeamConfig | None,
        max_tokens: int,
        progress: Progress,
        *,
        alignments: bool = False,
    ) -> list[list[Hypothesis]]:
        constraints = self._constraints(max_tokens)
        return search_sources(self.model, sources, beam or BEAM, constraints, progress, alignments=alignments)

    def _score(
        self, sources: Sequence[Any], pictures: Sequence[CaptionedPicture], progress: Progress
    ) -> list[Float64[ndarray, " captions"]]:
        counts = [len(item.captions) for item in pictures]
        targets = documents_of(
            self.tokenizer.encode_texts([caption for item in pictures for caption in item.captions]).ids
        )
        repeated = [source for source, count in zip(sources, counts, strict=True) for _ in range(count)]
        scores = score_targets(self.model, repeated, targets, progress)
        return np.split(scores, np.cumsum(counts)[:-1])

    def _caption(self, hypothesis: Hypothesis, source: Any) -> Caption:
        attention = hypothesis.attention
        if attention is not None:
            attention = attention[:, : len(source)] if self.regions is not None else self.on_grid(attention, source)
        return Caption(
            self.tokenizer.decode(hypothesis.tokens),
            hypothesis.log_prob,
            hypothesis.score,
            "length" if hypothesis.ending == "stop" else hypothesis.ending,
            [self.tokenizer.vocabulary.token(token) for token in hypothesis.tokens.tolist()],
            attention,
        )
