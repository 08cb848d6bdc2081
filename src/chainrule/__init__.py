"""chainrule: every language model from the n-gram to the Transformer, with one small interface.

    import chainrule
    model = chainrule.train("corpus.txt")
    print(model.perplexity("heldout.txt"), model.generate("I visited San"))

Every public name is imported on first use, so that `import chainrule` is quick.
"""

from typing import Any

from chainrule import _moved

__version__ = "0.1.0"

_moved.install()

# The public names of each module below chainrule; type checkers and editors read them in `__init__.pyi`.
_PUBLIC = {
    "api.editing.convert": ("convert", "convert_vectors"),
    "api.editing.mix": ("exchange", "merge", "mix"),
    "api.editing.prune": ("prune_by_entropy", "prune_to_text", "prune_to_vocabulary"),
    "api.models.classifier_model": ("ClassifierModel",),
    "api.models.drafting": ("Drafting",),
    "api.models.embedding_model": ("EmbeddingModel",),
    "api.models.language_models": ("BeamTree", "CausalModel", "CausalNetwork", "MaskedModel"),
    "api.models.model": ("Model",),
    "api.models.model_info": ("ModelInfo",),
    "api.models.scoring_model": ("ScoringModel",),
    "api.opening": ("info", "load", "verify", "verify_distribution"),
    "api.seq2seq.caption_model": ("Caption", "CaptionModel"),
    "api.seq2seq.seq2seq_model": ("Seq2SeqModel", "load_pairs"),
    "api.showing.alignment": ("SoundAlignment",),
    "api.showing.attend": ("AttentionMaps", "PictureAttention", "attend", "attend_picture"),
    "api.showing.draw": ("Drawing", "draw", "draw_sizes"),
    "api.showing.draw_trees": ("TreeDrawings", "draw_trees"),
    "api.showing.effects": ("CausalEffects",),
    "api.showing.inspect": ("Inspection", "TextInspection", "inspect"),
    "api.speech.ctc": ("DecodedUtterance", "Heard", "HeardWord", "decode_ctc"),
    "api.speech.measurement": ("SpeechMeasurement",),
    "api.speech.speech_model": ("AlignedText", "SpeechModel"),
    "api.texts.correct": ("TunedCorrection", "correct", "corrector", "measure_correction", "tune_correction"),
    "api.texts.data": ("data", "draw_pixels", "write_pixels"),
    "api.texts.detect": (
        "DetectedText",
        "DetectionMeasurement",
        "detect",
        "draw_quiz",
        "draw_ranks",
        "measure_detection",
    ),
    "api.texts.filter": ("Filtered", "filter"),
    "api.texts.frequencies": ("Frequencies",),
    "api.texts.harness": ("harness",),
    "api.texts.nearest": ("Neighbour", "nearest"),
    "api.texts.noise": ("NoisyText", "noise"),
    "api.texts.prompt": ("prompt",),
    "api.texts.rank": ("Ranked", "rank"),
    "api.texts.rescore": ("Rescored", "rescore"),
    "api.texts.surprisal": ("Surprisals", "surprisal"),
    "api.training.captions": ("train_captions",),
    "api.training.channel": ("train_channel", "train_grammar"),
    "api.training.classifier": ("finetune", "train_classifier"),
    "api.training.counts": ("count_text", "train_counts"),
    "api.training.lmplz": ("lmplz",),
    "api.training.seq2seq": ("train_pairs",),
    "api.training.speech": ("train_speech",),
    "api.training.train": ("adapt", "train"),
    "api.vectors.cooccurrences": ("CooccurrenceMatrix", "count_cooccurrences", "read_cooccurrences"),
    "api.vectors.evaluate": ("VectorsMeasurement", "evaluate_vectors"),
    "api.vectors.map": ("map_vectors",),
    "api.vectors.train": ("train_vectors",),
    "api.vectors.word_vectors": ("WordVectors", "load_vectors"),
    "applications.config": ("EmbeddingConfig",),
    "applications.correction.config": ("CorrectionConfig", "CorrectionSettings"),
    "applications.labelled_pairs": ("LabelledPair", "Pair", "read_labelled_pairs"),
    "base.threads": ("set_threads",),
    "comparison.compare": ("compare", "compare_families", "compare_smoothings"),
    "comparison.reading": ("ReadingTimes", "reading_times"),
    "comparison.report": ("write_report",),
    "comparison.smoothings": ("SmoothingTable",),
    "comparison.supervised": ("LabelComparison", "PairComparison", "compare_labels", "compare_pairs"),
    "decoding.config": ("BeamConfig", "Limits", "SamplingConfig"),
    "decoding.text_generator": ("FormProbability", "form_probability"),
    "errors": ("ChainruleError", "EstimationError", "ModelFormatError", "OutputError", "SettingError", "TextError"),
    "evaluation.classification": ("Classification",),
    "evaluation.comparison": ("Comparison",),
    "evaluation.measurement": ("Measurement",),
    "evaluation.object_detection": ("BoxMeasurement",),
    "evaluation.texts.text_scores": ("TextScores", "measure_captions", "measure_summaries", "measure_translations"),
    "experiments.findings": ("Findings",),
    "experiments.run": ("experiment",),
    "explorer.offline.page": ("ExplorerPage", "explore"),
    "explorer.show": ("TextView", "show"),
    "mixture.config": ("CacheConfig", "MixtureConfig"),
    "neural.config": (
        "BagConfig",
        "BidirectionalConfig",
        "BilinearConfig",
        "ConvolutionConfig",
        "FeedforwardConfig",
        "GridConfig",
        "MaskedConfig",
        "MaskedRecurrentConfig",
        "RecurrentConfig",
        "TransformerConfig",
        "preset",
    ),
    "neural.config.language_models": ("TreeConfig",),
    "neural.config.seq2seq": ("CaptionConfig", "Seq2SeqConfig"),
    "neural.config.speech": ("SpeechConfig",),
    "ngram.config": ("NGramConfig",),
    "ngram.exports.config": ("WordListConfig",),
    "pictures.boxes": ("BoxLabels", "Detection", "read_boxes"),
    "pictures.captions": ("CaptionedPicture", "read_captions"),
    "pictures.labelled": ("read_pictures", "read_pixel_labels"),
    "pictures.picture": ("LabelledPicture", "Picture", "as_picture"),
    "protocol": ("LanguageModel", "Scorer"),
    "serving.config": ("ServerLimits",),
    "serving.processes": ("serve",),
    "serving.shards": ("ShardClient", "serve_shards"),
    "sounds.sound": ("Sound", "read_sound"),
    "sounds.transcripts": ("Transcript", "read_transcripts"),
    "structures.graph": ("Edge", "Graph", "LabelledGraph"),
    "structures.graph_files": ("read_graphs",),
    "structures.linearized": ("Treebank",),
    "structures.tree": ("LabelledTree", "Tree"),
    "structures.tree_files": ("read_trees",),
    "text.corpus.corpus": ("Corpus", "Lines"),
    "text.corpus.mix": ("Mix",),
    "text.corpus.reading": ("Reading",),
    "text.corpus.sample": ("sample_lines",),
    "text.corpus.splits": ("split", "write_split"),
    "text.labelled": ("Labelled", "UnitLabels", "read_labelled"),
    "text.parallel": ("Pairs", "parallel"),
    "text.tokenization.config": ("TokenizerConfig",),
    "training.config": ("ClassifierTrainingConfig", "FineTuningConfig", "TrainingConfig", "TrainingRun"),
    "uniform": ("UniformConfig",),
    "vectors.config": ("CooccurrenceConfig", "VectorsConfig"),
}

_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_MODULE_OF)


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
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'chainrule' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chainrule.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
