"""Trains captioners: the model itself, its phrase model for regions, and an adversarial phase.

The phrase model comes before a captioner that attends to regions. In the adversarial phase, a discriminator judges the
paragraphs that the model writes (Liang et al. 2017).
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.options import takes
from chainrule.errors import SettingError, TextError
from chainrule.features.seq2seq.generation import with_sentence_end
from chainrule.features.seq2seq.network.config import CaptionConfig
from chainrule.features.vision.model import FAMILY, CaptionModel
from chainrule.features.vision.options import TrainCaptionsOptions
from chainrule.features.vision.picture_encoder import PictureEncoder, encode_pictures, open_encoder
from chainrule.features.vision.pictures.captions import CaptionedPicture, check_captions, digest_of_captions
from chainrule.features.vision.pictures.picture import fit_to_frame
from chainrule.features.vision.regions import MOST_REGIONS, RegionReader
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.progress_line import showing
from chainrule.models.run import record_header, seconds_since, training_run
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.corpus import Lines
from chainrule.text.tokenization.config import as_config
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Shaped
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.network.network import Seq2SeqNetwork
    from chainrule.features.seq2seq.objective import TokenPairs
    from chainrule.features.seq2seq.options import Regions
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.training.config import TrainingRun

PHRASES = "phrases"  # of checkpoints, in the folder of the run
_SHARE = 0.25  # of the budget of the whole
_STEPS = 1000  # at most, of what writes phrases


def check_regions(encoder: PictureEncoder, regions: Regions, *, phrases: bool, tuned: bool, features: object) -> None:
    """Raise SettingError where an encoder cannot give such regions."""
    if regions not in ("grid", "given", "proposed"):
        raise SettingError(f"regions is {regions!r}; expected grid, given or proposed")
    if regions == "grid":
        if phrases:
            raise SettingError("a grid has no phrases; use regions='given', regions='proposed' or phrases=False")
        return
    if encoder.vectors is not None:
        raise SettingError(f"{encoder.name}: has the vectors of places, not of regions; use regions='grid'")
    if tuned:
        raise SettingError(
            "regions are of an encoder that is kept as it is; name a classifier of pictures or of boxes, and leave "
            "tuned out"
        )
    if features is not None:
        raise SettingError("features keeps the vectors of a grid; leave it out, or use regions='grid'")
    if regions == "proposed" and encoder.detector is None:
        raise SettingError(
            f"the encoder {encoder.name} proposes no boxes; train a classifier with unit='box', or use regions='given'"
        )


def check_phrases(pictures: Sequence[CaptionedPicture]) -> None:
    """Raise TextError where a phrase of each region is to be learned, but a picture has no boxes."""
    for item in pictures:
        if item.boxes is None:
            raise TextError(
                f"{item.place}: there are no boxes, whose phrases are to be learned; add boxes beside the captions, or "
                "use phrases=False"
            )
    if not any(len(item.boxes) for item in pictures if item.boxes is not None):
        raise TextError(
            f"{pictures[0].place}: neither here nor in what follows is there a box with a phrase; add boxes beside the "
            "captions, or use phrases=False"
        )


def open_regions(encoder: PictureEncoder, regions: Regions, tokenizer: Tokenizer) -> RegionReader:
    """Return a reader of regions, without phrases so far. `check_regions` has checked the encoder."""
    from chainrule.features.vision.network.captioner import without_pool

    assert encoder.config is not None
    assert encoder.body is not None
    return RegionReader(
        encoder.config, without_pool(encoder.body), encoder.detector if regions == "proposed" else None, tokenizer
    )


def train_phrases(
    reader: RegionReader,
    pictures: Sequence[CaptionedPicture],
    config: CaptionConfig,
    training: TrainingConfig,
    run: TrainingRun,
) -> RegionReader:
    """Return the reader of regions with a network that writes phrases, trained on the boxes given with pictures.

    Raises as `train_captions`.
    """
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.seq2seq.objective import TokenPairs, pairs_job
    from chainrule.training.run import run_job

    sources = [cells for item in pictures for cells in reader.cells(item)]
    phrases = [phrase for item in pictures if item.boxes is not None for phrase in _kept(reader, item)]
    targets = documents_of(reader.tokenizer.encode_texts(phrases).ids)
    settled = CaptionConfig(
        width=config.width,
        dropout=config.dropout,
        source_grid=(),
        source_width=sources[0].shape[1],
        max_source=len(sources[0]),
    )
    origin = {"family": PHRASES, "pictures": digest_of_captions(pictures)}
    job = pairs_job(
        TokenPairs(sources, list(targets)),
        None,
        (0, reader.tokenizer.vocabulary_size),
        settled,
        replace(training, valid_share=0, **_budget(training)),
        origin,
    )
    folder = None if run.folder is None else run.folder / PHRASES
    network, _ = run_job(replace(job, run_config=training), replace(run, folder=folder))
    return replace(reader, phrases=NeuralSeq2SeqModel(network))


def _kept(reader: RegionReader, item: CaptionedPicture) -> Sequence[str]:
    """Return the phrases of the boxes that the frame does not cut off."""
    from chainrule.features.vision.pictures.boxes import boxes_framed

    assert item.picture is not None
    assert item.boxes is not None
    return boxes_framed(item.picture, item.boxes, reader.encoder.frame)


def phase_budget(training: TrainingConfig) -> dict[str, Any]:
    """Return a quarter of the budget of a run, for a phase of it."""
    from chainrule.training.config import BUDGETS, DEFAULT_MINUTES

    given = {name: getattr(training, name) for name in BUDGETS if getattr(training, name) is not None}
    [(name, whole)] = (given or {"minutes": DEFAULT_MINUTES}).items()
    share = whole * _SHARE
    return {**dict.fromkeys(BUDGETS), name: max(1, int(share)) if name in ("steps", "tokens") else share}


def _budget(training: TrainingConfig) -> dict[str, Any]:
    """Return the budget for phrases: few steps, unless minutes were given, since they are learned in few passes over
    many boxes.
    """
    budget = phase_budget(training)
    if training.minutes is not None:
        return budget
    return {**dict.fromkeys(budget), "steps": min(_STEPS, budget["steps"] or _STEPS)}


DISCRIMINATOR = "discriminator"  # of checkpoints, in the folder of the run
_ADVERSARIAL_RATE = 3e-4  # of AdamW: a tenth of the first phase's


def check_discriminator(config: CaptionConfig, weight: float) -> None:
    """Raise SettingError if the weight of the discriminator does not suit the model."""
    if weight < 0:
        raise SettingError(f"discriminator is {weight:g}; expected 0 or more, the weight of its rewards")
    if weight and (config.decoder != "hierarchical" or config.attention == "hard"):
        raise SettingError(
            "the discriminator judges sentences of paragraphs; set decoder to hierarchical, without hard attention, or "
            "discriminator to 0"
        )


def train_adversarial(
    network: Seq2SeqNetwork,
    pairs: TokenPairs,
    training: TrainingConfig,
    run: TrainingRun,
    origin: dict[str, Any],
    weight: float,
) -> Seq2SeqNetwork:
    """Return the network after a shorter second phase, for a quarter of the budget.

    weight: of the discriminator's rewards. Raises as `train_captions`.
    """
    from chainrule.features.vision.adversarial import adversarial_job
    from chainrule.training.run import run_job

    settled = replace(
        training,
        valid_share=0,
        optimiser="adamw",
        learning_rate=_ADVERSARIAL_RATE,
        matrix_learning_rate=None,
        **phase_budget(training),
    )
    job = adversarial_job(lambda: copy.deepcopy(network), pairs, settled, origin, weight=weight)
    folder = None if run.folder is None else run.folder / DISCRIMINATOR
    judged, _ = run_job(replace(job, run_config=training), replace(run, folder=folder))
    return judged.writer


_RATE = 3e-3  # of AdamW beside Muon; at that of translation, 1e-2, additive attention does not learn where to look
_TUNING_RATE = 1e-3  # of AdamW, with an encoder that is trained with the rest


@takes(TrainCaptionsOptions)
def train_captions(options: TrainCaptionsOptions) -> CaptionModel:
    """Train a model of captions given pictures.

    encoder: what gives a vector for each place of a picture: a classifier of pictures or its path, whose weights do not
    change; the name or configuration of a network of pictures, which is trained with the rest; or the path of a file
    .npy with a row for each picture: N x places x numbers, or N x rows x columns x numbers. tuned: whether a classifier
    is trained with the rest, too. features: a file (.safetensors) that keeps the vectors of an encoder that is not
    tuned, so that they are computed once. regions: what gets a vector: the places of a grid; the boxes given with each
    picture; or those that the encoder, a classifier of boxes, proposes. phrases: whether to learn first a phrase for
    each region, from the boxes given with the pictures; the decoder attends to it, too. discriminator: in a second
    phase, the weight of rewards for sentences that a discriminator, by their words and the sentences before them, takes
    for given ones; 0 for no such phase. validation: pictures to choose the best weights by; by default, the last ones.
    The other arguments, and the errors, are those of `train`.

    good:  model = train_captions(chainrule.read_captions("train.jsonl"), encoder="resnet/", folder="captions/")
           model.save("captions/")
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainCaptionsOptions, progress: Progress) -> CaptionModel:
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.seq2seq.objective import pairs_job
    from chainrule.features.vision.network.captioner import attach_body, attached_body, new_body
    from chainrule.training.run import run_job

    run = training_run(options, progress)
    start_time = time.perf_counter()
    features, regions, phrases, discriminator = (
        options.features,
        options.regions,
        options.phrases,
        options.discriminator,
    )
    opened, training = open_encoder(options.encoder, progress), options.training or TrainingConfig()
    tuned = _is_tuned(opened, options.tuned, features)
    check_regions(opened, regions, phrases=phrases, tuned=tuned, features=features)
    with_pictures = opened.vectors is None
    pictures = check_captions(options.pictures, with_pictures=with_pictures)
    held = None if options.validation is None else check_captions(options.validation, with_pictures=with_pictures)
    if opened.vectors is not None and held is not None:
        raise SettingError("the vectors are those of the training pictures; leave validation out")
    config = options.config or CaptionConfig()
    check_discriminator(config, discriminator)
    if tuned:
        training = replace(training, optimiser=training.optimiser or "adamw")
    if training.learning_rate is None and training.optimiser != "sgd":
        training = replace(training, learning_rate=_TUNING_RATE if tuned else _RATE)
    texts = [caption for item in pictures for caption in item.captions]
    if phrases:
        check_phrases(pictures)
        texts += [phrase for item in pictures for phrase in item.boxes or ()]
    learned_texts = Lines(texts, "the captions")
    both = tokenize_source(learned_texts, as_config(options.tokenizer), options.markers, progress=progress)
    config = with_sentence_end(config, both.tokenizer)
    held_back = _held_back(pictures, training) if held is None and training.valid_share else 0
    reader = None if regions == "grid" else open_regions(opened, regions, both.tokenizer)
    if reader is not None and phrases:
        reader = train_phrases(reader, pictures, config, training, run)
    config = resolve_config(config, opened, reader)
    if reader is not None:
        sources: Sequence[Any] = reader.sources([*pictures, *(held or [])], progress)
    else:
        sources = _sources(opened, [*pictures, *(held or [])], features, tuned=tuned, progress=progress)
    count = sum(len(item.captions) for item in pictures)
    learned = _pairs(sources[: len(pictures)], pictures, documents_of(both.stream)[:count])
    split = _Split(learned, None)
    if held is not None:
        ids = documents_of(both.tokenizer.encode_texts([caption for item in held for caption in item.captions]).ids)
        split = _Split(learned, _pairs(sources[len(pictures) :], held, ids).first(training.valid_tokens))
    elif held_back:
        cut = sum(len(item.captions) for item in pictures[:-held_back])
        kept = learned.chosen(range(cut, len(learned.targets))).first(training.valid_tokens)
        split = _Split(learned.chosen(range(cut)), kept)
    digests = [digest_of_captions(part) for part in (pictures, held or [])]
    origin = {
        "family": FAMILY,
        "tokenizer": both.tokenizer.name,
        "encoder": opened.record(),
        "tuned": tuned,
        "pictures": digests,
        **({} if reader is None else {"regions": regions, "phrases": phrases}),
    }
    sizes = (0, both.tokenizer.vocabulary_size)

    def make_body() -> Any:
        assert opened.config is not None
        return new_body(opened.config) if opened.body is None else copy.deepcopy(opened.body)

    job = pairs_job(split.learned, split.held, sizes, config, training, origin, tuned=make_body if tuned else None)
    network, run_record = run_job(job, run)
    if discriminator:
        network = train_adversarial(network, split.learned, training, run, origin, discriminator)
    if opened.body is not None and not tuned and reader is None:
        attach_body(network, opened.body)
    model = NeuralSeq2SeqModel(network)
    record = {
        **record_header(FAMILY, config),
        "seconds": seconds_since(start_time, run_record),
        "data": {"captioned pictures": digests[0]},
        "encoder": origin["encoder"],
        "tuned": tuned,
        "regions": regions,
        "phrases": phrases,
        **({"discriminator": discriminator} if discriminator else {}),
        "pictures": len(pictures),
        "documents": len(split.learned.targets),
        "tokens": split.learned.predicted(),
        "unknown_tokens": sum(int(np.count_nonzero(row == UNKNOWN)) for row in learned.targets),
        **run_record,
        "parameters": run_record["parameters"] + (0 if reader is None else reader.phrase_parameters),
    }
    shows = reader is not None or attached_body(model) is not None
    return CaptionModel(model, opened.config if shows else None, both.tokenizer, record, reader)


class _Split(NamedTuple):
    """Pairs to learn from, and to validate on."""

    learned: TokenPairs
    held: TokenPairs | None


def _is_tuned(encoder: PictureEncoder, tuned: bool | None, features: object) -> bool:
    """Return whether the encoder is trained with the rest. Raises SettingError."""
    is_new = encoder.vectors is None and encoder.body is None
    if tuned is None:
        tuned = is_new
    if tuned and encoder.vectors is not None:
        raise SettingError("vectors have no encoder that could be tuned; leave tuned out")
    if not tuned and is_new:
        raise SettingError(
            f"the encoder {encoder.name} has no trained weights to keep; name a classifier of pictures, or leave "
            "tuned out"
        )
    if features is not None and (tuned or encoder.vectors is not None):
        raise SettingError("features keeps the vectors of an encoder that is not tuned; leave it out")
    return tuned


def resolve_config(config: CaptionConfig, encoder: PictureEncoder, reader: RegionReader | None = None) -> CaptionConfig:
    """Return the configuration with the number and width of the vectors that an encoder or a reader of regions
    gives.
    """
    rows, columns, width = encoder.grid()
    if reader is not None:
        return replace(
            config,
            source_grid=(),
            source_width=reader.width(width),
            phrase_width=reader.phrase_width,
            max_source=1 + MOST_REGIONS,
        )
    return replace(config, source_grid=(rows, columns), source_width=width, max_source=rows * columns)


def _sources(
    encoder: PictureEncoder,
    pictures: Sequence[CaptionedPicture],
    features: str | os.PathLike[str] | None,
    *,
    tuned: bool,
    progress: Progress,
) -> Sequence[Shaped[ndarray, "S ..."]]:
    """Return what the network reads of each picture: its vectors, or its pixels. Raises SettingError,
    EstimationError.
    """
    if encoder.vectors is not None:
        if len(encoder.vectors) != len(pictures):
            raise SettingError(
                f"{encoder.name}: has the vectors of {len(encoder.vectors):,} pictures, but there are captions of "
                f"{len(pictures):,}; expected a row for each line of captions"
            )
        return list(encoder.vectors.reshape(len(pictures), -1, encoder.vectors.shape[-1]))
    shown = [item.picture for item in pictures if item.picture is not None]
    if tuned:
        assert encoder.config is not None
        return [fit_to_frame(picture, encoder.config.frame) for picture in shown]
    return list(encode_pictures(encoder, shown, features, progress))


def _pairs(sources: Sequence[Any], pictures: Sequence[CaptionedPicture], targets: Sequence[Any]) -> TokenPairs:
    """Return a pair for each caption."""
    from chainrule.features.seq2seq.objective import TokenPairs

    repeated = [source for source, item in zip(sources, pictures, strict=True) for _ in item.captions]
    return TokenPairs(repeated, list(targets))


def _held_back(pictures: Sequence[CaptionedPicture], training: TrainingConfig) -> int:
    """Return how many of the last pictures are validated on. Raises TextError if none, or all, would be."""
    count = int(training.valid_share * len(pictures))
    if not 0 < count < len(pictures):
        raise TextError(
            f"the last {training.valid_share:g} of {len(pictures):,} pictures leaves nothing to train or validate on; "
            "give pictures for it (validation=...), more pictures, or valid_share=0"
        )
    return count
