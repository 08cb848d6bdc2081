"""chainrule: every language model from the n-gram to the Transformer, with one small interface.

    import chainrule
    model = chainrule.train("corpus.txt")
    print(model.perplexity("heldout.txt"), model.generate("I visited San"))

Every public name is imported on first use, so that `import chainrule` is quick.
"""

# ruff: noqa: I001  # several `X as X` in one import

from typing import TYPE_CHECKING, Any

from chainrule import _moved

if TYPE_CHECKING:  # for type checkers and editors: the names that `_HOMES` has for run time
    from chainrule.api.training.train import adapt as adapt
    from chainrule.api.showing.attend import AttentionMaps as AttentionMaps, attend as attend
    from chainrule.api.models.language_models import BeamTree as BeamTree
    from chainrule.api.showing.attend import PictureAttention as PictureAttention, attend_picture as attend_picture
    from chainrule.api.seq2seq.caption_model import Caption as Caption, CaptionModel as CaptionModel
    from chainrule.api.models.language_models import CausalModel as CausalModel, CausalNetwork as CausalNetwork
    from chainrule.api.models.classifier_model import ClassifierModel as ClassifierModel
    from chainrule.api.editing.convert import convert as convert, convert_vectors as convert_vectors
    from chainrule.api.vectors.cooccurrences import count_cooccurrences as count_cooccurrences
    from chainrule.api.texts.correct import (
        correct as correct,
        corrector as corrector,
        measure_correction as measure_correction,
    )
    from chainrule.api.training.counts import count_text as count_text, train_counts as train_counts
    from chainrule.api.showing.draw import Drawing as Drawing, draw as draw, draw_sizes as draw_sizes
    from chainrule.api.showing.draw_trees import TreeDrawings as TreeDrawings, draw_trees as draw_trees
    from chainrule.api.models.embedding_model import EmbeddingModel as EmbeddingModel
    from chainrule.api.texts.data import data as data
    from chainrule.api.texts.detect import (
        DetectedText as DetectedText,
        DetectionMeasurement as DetectionMeasurement,
        detect as detect,
        draw_quiz as draw_quiz,
        draw_ranks as draw_ranks,
        measure_detection as measure_detection,
    )
    from chainrule.api.vectors.evaluate import (
        VectorsMeasurement as VectorsMeasurement,
        evaluate_vectors as evaluate_vectors,
    )
    from chainrule.api.texts.filter import Filtered as Filtered, filter as filter
    from chainrule.api.training.classifier import finetune as finetune
    from chainrule.api.texts.frequencies import Frequencies as Frequencies
    from chainrule.api.texts.harness import harness as harness
    from chainrule.api.opening import info as info
    from chainrule.api.showing.inspect import Inspection as Inspection, inspect as inspect
    from chainrule.api.showing.inspect import TextInspection as TextInspection
    from chainrule.api.opening import load as load
    from chainrule.api.training.lmplz import lmplz as lmplz
    from chainrule.api.vectors.word_vectors import load_vectors as load_vectors
    from chainrule.api.vectors.map import map_vectors as map_vectors
    from chainrule.api.models.language_models import MaskedModel as MaskedModel
    from chainrule.api.editing.mix import merge as merge
    from chainrule.api.editing.mix import mix as mix
    from chainrule.api.models.model import Model as Model
    from chainrule.api.models.model_info import ModelInfo as ModelInfo
    from chainrule.api.texts.nearest import Neighbour as Neighbour, nearest as nearest
    from chainrule.api.texts.noise import NoisyText as NoisyText, noise as noise
    from chainrule.api.seq2seq.seq2seq_model import Seq2SeqModel as Seq2SeqModel, load_pairs as load_pairs
    from chainrule.api.texts.prompt import prompt as prompt
    from chainrule.api.texts.data import draw_pixels as draw_pixels, write_pixels as write_pixels
    from chainrule.api.editing.prune import (
        prune_by_entropy as prune_by_entropy,
        prune_to_text as prune_to_text,
        prune_to_vocabulary as prune_to_vocabulary,
    )
    from chainrule.api.texts.rank import Ranked as Ranked, rank as rank
    from chainrule.api.texts.rescore import Rescored as Rescored, rescore as rescore
    from chainrule.api.texts.surprisal import Surprisals as Surprisals, surprisal as surprisal
    from chainrule.api.models.scoring_model import ScoringModel as ScoringModel
    from chainrule.api.vectors.cooccurrences import (
        CooccurrenceMatrix as CooccurrenceMatrix,
        read_cooccurrences as read_cooccurrences,
    )
    from chainrule.api.training.train import train as train
    from chainrule.api.training.channel import train_channel as train_channel, train_grammar as train_grammar
    from chainrule.api.training.captions import train_captions as train_captions
    from chainrule.api.training.classifier import train_classifier as train_classifier
    from chainrule.api.training.seq2seq import train_pairs as train_pairs
    from chainrule.api.vectors.train import train_vectors as train_vectors
    from chainrule.api.texts.correct import TunedCorrection as TunedCorrection, tune_correction as tune_correction
    from chainrule.api.opening import verify as verify
    from chainrule.api.vectors.word_vectors import WordVectors as WordVectors
    from chainrule.applications.correction.config import CorrectionConfig as CorrectionConfig
    from chainrule.applications.correction.config import CorrectionSettings as CorrectionSettings
    from chainrule.applications.config import EmbeddingConfig as EmbeddingConfig
    from chainrule.applications.labelled_pairs import (
        LabelledPair as LabelledPair,
        Pair as Pair,
        read_labelled_pairs as read_labelled_pairs,
    )
    from chainrule.base.threads import set_threads as set_threads
    from chainrule.comparison.compare import (
        compare as compare,
        compare_families as compare_families,
        compare_smoothings as compare_smoothings,
    )
    from chainrule.comparison.report import write_report as write_report
    from chainrule.comparison.supervised import LabelComparison as LabelComparison, compare_labels as compare_labels
    from chainrule.comparison.supervised import PairComparison as PairComparison, compare_pairs as compare_pairs
    from chainrule.comparison.smoothings import SmoothingTable as SmoothingTable
    from chainrule.decoding.config import BeamConfig as BeamConfig
    from chainrule.decoding.config import Limits as Limits
    from chainrule.decoding.config import SamplingConfig as SamplingConfig
    from chainrule.errors import (
        ChainruleError as ChainruleError,
        EstimationError as EstimationError,
        ModelFormatError as ModelFormatError,
        OutputError as OutputError,
        SettingError as SettingError,
        TextError as TextError,
    )
    from chainrule.evaluation.object_detection import BoxMeasurement as BoxMeasurement
    from chainrule.evaluation.classification import Classification as Classification
    from chainrule.evaluation.comparison import Comparison as Comparison
    from chainrule.evaluation.measurement import Measurement as Measurement
    from chainrule.evaluation.texts.text_scores import (
        TextScores as TextScores,
        measure_captions as measure_captions,
        measure_summaries as measure_summaries,
        measure_translations as measure_translations,
    )
    from chainrule.experiments.findings import Findings as Findings
    from chainrule.experiments.run import experiment as experiment
    from chainrule.explorer.show import TextView as TextView, show as show
    from chainrule.mixture.config import CacheConfig as CacheConfig, MixtureConfig as MixtureConfig
    from chainrule.neural.config import (
        BagConfig as BagConfig,
        BilinearConfig as BilinearConfig,
        ConvolutionConfig as ConvolutionConfig,
        FeedforwardConfig as FeedforwardConfig,
        GridConfig as GridConfig,
        MaskedConfig as MaskedConfig,
        MaskedRecurrentConfig as MaskedRecurrentConfig,
        RecurrentConfig as RecurrentConfig,
        TransformerConfig as TransformerConfig,
        BidirectionalConfig as BidirectionalConfig,
        preset as preset,
    )
    from chainrule.neural.config.seq2seq import CaptionConfig as CaptionConfig
    from chainrule.neural.config.seq2seq import Seq2SeqConfig as Seq2SeqConfig
    from chainrule.neural.config.language_models import TreeConfig as TreeConfig
    from chainrule.ngram.config import NGramConfig as NGramConfig
    from chainrule.protocol import LanguageModel as LanguageModel, Scorer as Scorer
    from chainrule.pictures.boxes import BoxLabels as BoxLabels, Detection as Detection
    from chainrule.pictures.picture import (
        LabelledPicture as LabelledPicture,
        Picture as Picture,
        as_picture as as_picture,
    )
    from chainrule.pictures.labelled import read_pixel_labels as read_pixel_labels
    from chainrule.pictures.boxes import read_boxes as read_boxes
    from chainrule.pictures.captions import CaptionedPicture as CaptionedPicture, read_captions as read_captions
    from chainrule.pictures.labelled import read_pictures as read_pictures
    from chainrule.serving.config import ServerLimits as ServerLimits
    from chainrule.serving.processes import serve as serve
    from chainrule.structures.graph import Edge as Edge, Graph as Graph, LabelledGraph as LabelledGraph
    from chainrule.structures.graph_files import read_graphs as read_graphs
    from chainrule.structures.tree_files import read_trees as read_trees
    from chainrule.structures.tree import LabelledTree as LabelledTree, Tree as Tree
    from chainrule.structures.linearized import Treebank as Treebank
    from chainrule.text.corpus.corpus import Corpus as Corpus, Lines as Lines
    from chainrule.text.labelled import UnitLabels as UnitLabels
    from chainrule.text.labelled import Labelled as Labelled, read_labelled as read_labelled
    from chainrule.text.corpus.mix import Mix as Mix
    from chainrule.text.parallel import Pairs as Pairs, parallel as parallel
    from chainrule.text.corpus.reading import Reading as Reading
    from chainrule.text.corpus.sample import sample_lines as sample_lines
    from chainrule.text.corpus.splits import split as split, write_split as write_split
    from chainrule.text.tokenization.config import TokenizerConfig as TokenizerConfig
    from chainrule.serving.shards import ShardClient as ShardClient, serve_shards as serve_shards
    from chainrule.training.config import TrainingConfig as TrainingConfig
    from chainrule.training.config import FineTuningConfig as FineTuningConfig
    from chainrule.training.config import ClassifierTrainingConfig as ClassifierTrainingConfig
    from chainrule.training.config import TrainingRun as TrainingRun
    from chainrule.uniform import UniformConfig as UniformConfig
    from chainrule.vectors.config import VectorsConfig as VectorsConfig
    from chainrule.vectors.config import CooccurrenceConfig as CooccurrenceConfig

__version__ = "0.1.0"

_moved.install()

# The module, below chainrule, that defines each public name.
_HOMES = {
    "AttentionMaps": "api.showing.attend",
    "BagConfig": "neural.config",
    "BeamConfig": "decoding.config",
    "BeamTree": "api.models.language_models",
    "BoxLabels": "pictures.boxes",
    "BoxMeasurement": "evaluation.object_detection",
    "BilinearConfig": "neural.config",
    "CacheConfig": "mixture.config",
    "Caption": "api.seq2seq.caption_model",
    "CaptionConfig": "neural.config.seq2seq",
    "CaptionModel": "api.seq2seq.caption_model",
    "CaptionedPicture": "pictures.captions",
    "CausalModel": "api.models.language_models",
    "CausalNetwork": "api.models.language_models",
    "ChainruleError": "errors",
    "Classification": "evaluation.classification",
    "ClassifierModel": "api.models.classifier_model",
    "Comparison": "evaluation.comparison",
    "Seq2SeqConfig": "neural.config.seq2seq",
    "ConvolutionConfig": "neural.config",
    "CooccurrenceConfig": "vectors.config",
    "Corpus": "text.corpus.corpus",
    "CorrectionConfig": "applications.correction.config",
    "CorrectionSettings": "applications.correction.config",
    "DetectedText": "api.texts.detect",
    "Detection": "pictures.boxes",
    "DetectionMeasurement": "api.texts.detect",
    "Drawing": "api.showing.draw",
    "Edge": "structures.graph",
    "EmbeddingConfig": "applications.config",
    "EmbeddingModel": "api.models.embedding_model",
    "EstimationError": "errors",
    "FeedforwardConfig": "neural.config",
    "Filtered": "api.texts.filter",
    "Findings": "experiments.findings",
    "FineTuningConfig": "training.config",
    "Frequencies": "api.texts.frequencies",
    "Graph": "structures.graph",
    "GridConfig": "neural.config",
    "Labelled": "text.labelled",
    "LabelledPicture": "pictures.picture",
    "Inspection": "api.showing.inspect",
    "LabelComparison": "comparison.supervised",
    "ClassifierTrainingConfig": "training.config",
    "LabelledPair": "applications.labelled_pairs",
    "LabelledGraph": "structures.graph",
    "LabelledTree": "structures.tree",
    "LanguageModel": "protocol",
    "Limits": "decoding.config",
    "Lines": "text.corpus.corpus",
    "MaskedConfig": "neural.config",
    "MaskedRecurrentConfig": "neural.config",
    "MaskedModel": "api.models.language_models",
    "Measurement": "evaluation.measurement",
    "Mix": "text.corpus.mix",
    "MixtureConfig": "mixture.config",
    "Model": "api.models.model",
    "ModelFormatError": "errors",
    "ModelInfo": "api.models.model_info",
    "NGramConfig": "ngram.config",
    "Neighbour": "api.texts.nearest",
    "OutputError": "errors",
    "Pair": "applications.labelled_pairs",
    "Pairs": "text.parallel",
    "PairComparison": "comparison.supervised",
    "Picture": "pictures.picture",
    "PictureAttention": "api.showing.attend",
    "Reading": "text.corpus.reading",
    "RecurrentConfig": "neural.config",
    "Rescored": "api.texts.rescore",
    "Surprisals": "api.texts.surprisal",
    "SamplingConfig": "decoding.config",
    "Scorer": "protocol",
    "ScoringModel": "api.models.scoring_model",
    "ServerLimits": "serving.config",
    "TextView": "explorer.show",
    "SettingError": "errors",
    "ShardClient": "serving.shards",
    "SmoothingTable": "comparison.smoothings",
    "NoisyText": "api.texts.noise",
    "TextError": "errors",
    "TextInspection": "api.showing.inspect",
    "Seq2SeqModel": "api.seq2seq.seq2seq_model",
    "TextScores": "evaluation.texts.text_scores",
    "CooccurrenceMatrix": "api.vectors.cooccurrences",
    "TokenizerConfig": "text.tokenization.config",
    "Tree": "structures.tree",
    "TreeConfig": "neural.config.language_models",
    "TreeDrawings": "api.showing.draw_trees",
    "Treebank": "structures.linearized",
    "TrainingConfig": "training.config",
    "TrainingRun": "training.config",
    "TunedCorrection": "api.texts.correct",
    "TransformerConfig": "neural.config",
    "BidirectionalConfig": "neural.config",
    "UniformConfig": "uniform",
    "UnitLabels": "text.labelled",
    "VectorsConfig": "vectors.config",
    "VectorsMeasurement": "api.vectors.evaluate",
    "WordVectors": "api.vectors.word_vectors",
    "adapt": "api.training.train",
    "as_picture": "pictures.picture",
    "attend_picture": "api.showing.attend",
    "attend": "api.showing.attend",
    "compare": "comparison.compare",
    "compare_families": "comparison.compare",
    "compare_labels": "comparison.supervised",
    "compare_pairs": "comparison.supervised",
    "compare_smoothings": "comparison.compare",
    "convert": "api.editing.convert",
    "convert_vectors": "api.editing.convert",
    "correct": "api.texts.correct",
    "corrector": "api.texts.correct",
    "draw_pixels": "api.texts.data",
    "measure_captions": "evaluation.texts.text_scores",
    "measure_correction": "api.texts.correct",
    "measure_detection": "api.texts.detect",
    "measure_summaries": "evaluation.texts.text_scores",
    "measure_translations": "evaluation.texts.text_scores",
    "count_text": "api.training.counts",
    "count_cooccurrences": "api.vectors.cooccurrences",
    "draw": "api.showing.draw",
    "draw_quiz": "api.texts.detect",
    "draw_ranks": "api.texts.detect",
    "draw_sizes": "api.showing.draw",
    "draw_trees": "api.showing.draw_trees",
    "data": "api.texts.data",
    "detect": "api.texts.detect",
    "evaluate_vectors": "api.vectors.evaluate",
    "experiment": "experiments.run",
    "filter": "api.texts.filter",
    "finetune": "api.training.classifier",
    "harness": "api.texts.harness",
    "info": "api.opening",
    "inspect": "api.showing.inspect",
    "load": "api.opening",
    "lmplz": "api.training.lmplz",
    "load_pairs": "api.seq2seq.seq2seq_model",
    "load_vectors": "api.vectors.word_vectors",
    "map_vectors": "api.vectors.map",
    "merge": "api.editing.mix",
    "mix": "api.editing.mix",
    "nearest": "api.texts.nearest",
    "noise": "api.texts.noise",
    "parallel": "text.parallel",
    "preset": "neural.config",
    "prompt": "api.texts.prompt",
    "rank": "api.texts.rank",
    "Ranked": "api.texts.rank",
    "prune_by_entropy": "api.editing.prune",
    "prune_to_text": "api.editing.prune",
    "prune_to_vocabulary": "api.editing.prune",
    "read_boxes": "pictures.boxes",
    "read_captions": "pictures.captions",
    "read_pictures": "pictures.labelled",
    "read_graphs": "structures.graph_files",
    "read_pixel_labels": "pictures.labelled",
    "read_trees": "structures.tree_files",
    "read_labelled": "text.labelled",
    "read_labelled_pairs": "applications.labelled_pairs",
    "read_cooccurrences": "api.vectors.cooccurrences",
    "rescore": "api.texts.rescore",
    "surprisal": "api.texts.surprisal",
    "sample_lines": "text.corpus.sample",
    "serve": "serving.processes",
    "serve_shards": "serving.shards",
    "set_threads": "base.threads",
    "show": "explorer.show",
    "split": "text.corpus.splits",
    "train": "api.training.train",
    "train_channel": "api.training.channel",
    "train_captions": "api.training.captions",
    "train_classifier": "api.training.classifier",
    "train_counts": "api.training.counts",
    "train_grammar": "api.training.channel",
    "train_pairs": "api.training.seq2seq",
    "train_vectors": "api.vectors.train",
    "tune_correction": "api.texts.correct",
    "verify": "api.opening",
    "write_pixels": "api.texts.data",
    "write_report": "comparison.report",
    "write_split": "text.corpus.splits",
}

__all__ = sorted(_HOMES)


# Public names of 0.1 that were renamed; the old ones work, with a warning.
_RENAMED = {
    "ConditionalConfig": "Seq2SeqConfig",
    "LabelTraining": "ClassifierTrainingConfig",
    "Shown": "TextView",
    "Spoilt": "NoisyText",
    "TextPairModel": "Seq2SeqModel",
    "Together": "CooccurrenceMatrix",
    "TwoSidedConfig": "BidirectionalConfig",
    "count_together": "count_cooccurrences",
    "read_together": "read_cooccurrences",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from warnings import warn

        warn(f"chainrule.{name} is chainrule.{_RENAMED[name]} now", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'chainrule' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chainrule.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
