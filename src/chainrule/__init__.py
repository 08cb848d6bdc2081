"""chainrule: every language model from the n-gram to the Transformer, behind one small interface.

    import chainrule
    model = chainrule.train("corpus.txt")
    print(model.perplexity("heldout.txt"), model.generate("I visited San"))

The names below are imported when they are first used, so that `import chainrule` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.api.adapt import adapt
    from chainrule.api.attend import AttentionMaps, attend
    from chainrule.api.convert import convert
    from chainrule.api.counts import count_text, train_counts
    from chainrule.api.filter import Filtered, filter
    from chainrule.api.finetune import finetune
    from chainrule.api.frequencies import Frequencies
    from chainrule.api.harness import harness
    from chainrule.api.info import info
    from chainrule.api.load import load
    from chainrule.api.merge import merge
    from chainrule.api.mix import mix
    from chainrule.api.model import Model
    from chainrule.api.model_info import ModelInfo
    from chainrule.api.nearest import Neighbour, nearest
    from chainrule.api.noise import Spoilt, noise
    from chainrule.api.pair_model import TextPairModel, load_pairs
    from chainrule.api.prune import prune_by_entropy, prune_to_text, prune_to_vocabulary
    from chainrule.api.rescore import Rescored, rescore
    from chainrule.api.train import train
    from chainrule.api.train_pairs import train_pairs
    from chainrule.api.verify import verify
    from chainrule.applications.embedding_config import EmbeddingConfig
    from chainrule.base.jit import set_threads
    from chainrule.comparison.compare import compare, compare_families, compare_smoothings
    from chainrule.comparison.smoothing_table import SmoothingTable
    from chainrule.decoding.beam import BeamConfig
    from chainrule.decoding.limits import Limits
    from chainrule.decoding.sampling import SamplingConfig
    from chainrule.errors import ChainruleError, EstimationError, ModelFormatError, OutputError, SettingError, TextError
    from chainrule.evaluation.classification import Classification
    from chainrule.evaluation.comparison import Comparison
    from chainrule.evaluation.likelihood import Measurement
    from chainrule.experiments.findings import Findings
    from chainrule.experiments.named import experiment
    from chainrule.mixture.config import CacheConfig, MixtureConfig
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
    from chainrule.protocol import LanguageModel, Scorer
    from chainrule.text.corpus import Corpus, Lines
    from chainrule.text.labelled import Labelled, read_labelled
    from chainrule.text.mix import Mix
    from chainrule.text.pairs import Pairs, parallel
    from chainrule.text.reading import Reading
    from chainrule.text.sample import sample_lines
    from chainrule.text.splits import split
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.training.config import TrainingConfig
    from chainrule.training.finetuning_config import FineTuningConfig
    from chainrule.uniform import UniformConfig

__version__ = "0.1.0"

_HOMES = {
    "AttentionMaps": "api.attend",
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
    "EmbeddingConfig": "applications.embedding_config",
    "EstimationError": "errors",
    "FeedforwardConfig": "neural.config",
    "Filtered": "api.filter",
    "Findings": "experiments.findings",
    "FineTuningConfig": "training.finetuning_config",
    "Frequencies": "api.frequencies",
    "Labelled": "text.labelled",
    "LanguageModel": "protocol",
    "Limits": "decoding.limits",
    "Lines": "text.corpus",
    "MaskedConfig": "neural.config",
    "MaskedRecurrentConfig": "neural.config",
    "Measurement": "evaluation.likelihood",
    "Mix": "text.mix",
    "MixtureConfig": "mixture.config",
    "Model": "api.model",
    "ModelFormatError": "errors",
    "ModelInfo": "api.model_info",
    "NGramConfig": "ngram.config",
    "Neighbour": "api.nearest",
    "OutputError": "errors",
    "Pairs": "text.pairs",
    "Reading": "text.reading",
    "RecurrentConfig": "neural.config",
    "Rescored": "api.rescore",
    "SamplingConfig": "decoding.sampling",
    "Scorer": "protocol",
    "SettingError": "errors",
    "SmoothingTable": "comparison.smoothing_table",
    "Spoilt": "api.noise",
    "TextError": "errors",
    "TextPairModel": "api.pair_model",
    "TokenizerConfig": "text.tokenizer_config",
    "TrainingConfig": "training.config",
    "TransformerConfig": "neural.config",
    "TwoSidedConfig": "neural.config",
    "UniformConfig": "uniform",
    "adapt": "api.adapt",
    "attend": "api.attend",
    "compare": "comparison.compare",
    "compare_families": "comparison.compare",
    "compare_smoothings": "comparison.compare",
    "convert": "api.convert",
    "count_text": "api.counts",
    "experiment": "experiments.named",
    "filter": "api.filter",
    "finetune": "api.finetune",
    "harness": "api.harness",
    "info": "api.info",
    "load": "api.load",
    "load_pairs": "api.pair_model",
    "merge": "api.merge",
    "mix": "api.mix",
    "nearest": "api.nearest",
    "noise": "api.noise",
    "parallel": "text.pairs",
    "preset": "neural.config",
    "prune_by_entropy": "api.prune",
    "prune_to_text": "api.prune",
    "prune_to_vocabulary": "api.prune",
    "read_labelled": "text.labelled",
    "rescore": "api.rescore",
    "sample_lines": "text.sample",
    "set_threads": "base.jit",
    "split": "text.splits",
    "train": "api.train",
    "train_counts": "api.counts",
    "train_pairs": "api.train_pairs",
    "verify": "api.verify",
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
    "harness",
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
