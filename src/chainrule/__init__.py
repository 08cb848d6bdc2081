"""chainrule: every language model from the n-gram to the Transformer, behind one small interface.

    import chainrule
    model = chainrule.train("corpus.txt")
    print(model.perplexity("heldout.txt"), model.generate("I visited San"))

The names below are imported when they are first used, so that `import chainrule` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.adapted import adapt
    from chainrule.attended import AttentionMaps, attend
    from chainrule.compared import compare, compare_families, compare_smoothings
    from chainrule.conditional import TextPairModel, load_pairs
    from chainrule.converted import convert
    from chainrule.decoding.beam import BeamConfig
    from chainrule.decoding.limits import Limits
    from chainrule.decoding.sampling import SamplingConfig
    from chainrule.embedding_config import EmbeddingConfig
    from chainrule.errors import ChainruleError, EstimationError, ModelFormatError, OutputError, SettingError, TextError
    from chainrule.evaluation.classification import Classification
    from chainrule.evaluation.comparison import Comparison
    from chainrule.evaluation.likelihood import Measurement
    from chainrule.experiments.findings import Findings
    from chainrule.experiments.named import experiment
    from chainrule.filtered import Filtered, filter
    from chainrule.finetuned import finetune
    from chainrule.frequencies import Frequencies
    from chainrule.from_counts import count_text, train_counts
    from chainrule.informing import info
    from chainrule.jit import set_threads
    from chainrule.merged import merge
    from chainrule.mixed import mix
    from chainrule.mixture.config import CacheConfig, MixtureConfig
    from chainrule.model import Model
    from chainrule.model_info import ModelInfo
    from chainrule.nearest_words import Neighbour, nearest
    from chainrule.neural.config import (
        BagConfig,
        BilinearConfig,
        ConvolutionConfig,
        FeedforwardConfig,
        MaskedConfig,
        MaskedRecurrentConfig,
        RecurrentConfig,
        TransformerConfig,
        TwoSidedConfig,
        preset,
    )
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.ngram.config import NGramConfig
    from chainrule.noised import Spoilt, noise
    from chainrule.opening import load
    from chainrule.protocol import LanguageModel, Scorer
    from chainrule.pruned import prune_by_entropy, prune_to_text, prune_to_vocabulary
    from chainrule.rescored import Rescored, rescore
    from chainrule.smoothing_table import SmoothingTable
    from chainrule.text.corpus import Corpus, Lines
    from chainrule.text.labelled import Labelled, read_labelled
    from chainrule.text.mix import Mix
    from chainrule.text.pairs import Pairs, parallel
    from chainrule.text.reading import Reading
    from chainrule.text.sample import sample_lines
    from chainrule.text.splits import split
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.trained import train
    from chainrule.trained_pairs import train_pairs
    from chainrule.training.config import TrainingConfig
    from chainrule.training.finetuning_config import FineTuningConfig
    from chainrule.uniform import UniformConfig
    from chainrule.verified import verify

__version__ = "0.1.0"

_HOMES = {
    "AttentionMaps": "attended",
    "BagConfig": "neural.config",
    "BeamConfig": "decoding.beam",
    "BilinearConfig": "neural.config",
    "CacheConfig": "mixture.config",
    "ChainruleError": "errors",
    "Classification": "evaluation.classification",
    "Comparison": "evaluation.comparison",
    "ConditionalConfig": "neural.config.conditional",
    "ConvolutionConfig": "neural.config",
    "Corpus": "text.corpus",
    "EmbeddingConfig": "embedding_config",
    "EstimationError": "errors",
    "FeedforwardConfig": "neural.config",
    "Filtered": "filtered",
    "Findings": "experiments.findings",
    "FineTuningConfig": "training.finetuning_config",
    "Frequencies": "frequencies",
    "Labelled": "text.labelled",
    "LanguageModel": "protocol",
    "Limits": "decoding.limits",
    "Lines": "text.corpus",
    "MaskedConfig": "neural.config",
    "MaskedRecurrentConfig": "neural.config",
    "Measurement": "evaluation.likelihood",
    "Mix": "text.mix",
    "MixtureConfig": "mixture.config",
    "Model": "model",
    "ModelFormatError": "errors",
    "ModelInfo": "model_info",
    "NGramConfig": "ngram.config",
    "Neighbour": "nearest_words",
    "OutputError": "errors",
    "Pairs": "text.pairs",
    "Reading": "text.reading",
    "RecurrentConfig": "neural.config",
    "Rescored": "rescored",
    "SamplingConfig": "decoding.sampling",
    "Scorer": "protocol",
    "SettingError": "errors",
    "SmoothingTable": "smoothing_table",
    "Spoilt": "noised",
    "TextError": "errors",
    "TextPairModel": "conditional",
    "TokenizerConfig": "text.tokenizer_config",
    "TrainingConfig": "training.config",
    "TransformerConfig": "neural.config",
    "TwoSidedConfig": "neural.config",
    "UniformConfig": "uniform",
    "adapt": "adapted",
    "attend": "attended",
    "compare": "compared",
    "compare_families": "compared",
    "compare_smoothings": "compared",
    "convert": "converted",
    "count_text": "from_counts",
    "experiment": "experiments.named",
    "filter": "filtered",
    "finetune": "finetuned",
    "info": "informing",
    "load": "opening",
    "load_pairs": "conditional",
    "merge": "merged",
    "mix": "mixed",
    "nearest": "nearest_words",
    "noise": "noised",
    "parallel": "text.pairs",
    "preset": "neural.config",
    "prune_by_entropy": "pruned",
    "prune_to_text": "pruned",
    "prune_to_vocabulary": "pruned",
    "read_labelled": "text.labelled",
    "rescore": "rescored",
    "sample_lines": "text.sample",
    "set_threads": "jit",
    "split": "text.splits",
    "train": "trained",
    "train_counts": "from_counts",
    "train_pairs": "trained_pairs",
    "verify": "verified",
}

__all__ = [
    "AttentionMaps",
    "BagConfig",
    "BeamConfig",
    "BilinearConfig",
    "CacheConfig",
    "ChainruleError",
    "Classification",
    "Comparison",
    "ConditionalConfig",
    "ConvolutionConfig",
    "Corpus",
    "EmbeddingConfig",
    "EstimationError",
    "FeedforwardConfig",
    "Filtered",
    "Findings",
    "FineTuningConfig",
    "Frequencies",
    "Labelled",
    "LanguageModel",
    "Limits",
    "Lines",
    "MaskedConfig",
    "MaskedRecurrentConfig",
    "Measurement",
    "Mix",
    "MixtureConfig",
    "Model",
    "ModelFormatError",
    "ModelInfo",
    "NGramConfig",
    "Neighbour",
    "OutputError",
    "Pairs",
    "Reading",
    "RecurrentConfig",
    "Rescored",
    "SamplingConfig",
    "Scorer",
    "SettingError",
    "SmoothingTable",
    "Spoilt",
    "TextError",
    "TextPairModel",
    "TokenizerConfig",
    "TrainingConfig",
    "TransformerConfig",
    "TwoSidedConfig",
    "UniformConfig",
    "adapt",
    "attend",
    "compare",
    "compare_families",
    "compare_smoothings",
    "convert",
    "count_text",
    "experiment",
    "filter",
    "finetune",
    "info",
    "load",
    "load_pairs",
    "merge",
    "mix",
    "nearest",
    "noise",
    "parallel",
    "preset",
    "prune_by_entropy",
    "prune_to_text",
    "prune_to_vocabulary",
    "read_labelled",
    "rescore",
    "sample_lines",
    "set_threads",
    "split",
    "train",
    "train_counts",
    "train_pairs",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chainrule' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chainrule.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
