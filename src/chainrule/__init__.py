"""chainrule: every language model from the n-gram to the Transformer, with one small interface.

    import chainrule
    model = chainrule.train("corpus.txt")
    print(model.perplexity("heldout.txt"), model.generate("I visited San"))

Every public name is imported on first use, so that `import chainrule` is quick.
"""

from typing import Any

__version__ = "0.1.0"

# The public names of each module below chainrule; type checkers and editors read them in `__init__.pyi`.
_PUBLIC = {
    "verbs.verify": ("verify", "verify_distribution"),
    "verbs.convert": ("convert",),
    "verbs.plugins": ("plugins",),
    "verbs.mix": ("exchange", "merge", "mix"),
    "verbs.prune": ("prune_by_entropy", "prune_to_text", "prune_to_vocabulary"),
    "features.classify.model": ("ClassifierModel",),
    "models.drafting": ("Drafting",),
    "models.embedding_model": ("EmbeddingModel",),
    "models.language_models": ("BeamTree", "CausalModel", "CausalNetwork", "MaskedModel"),
    "models.model": ("Model",),
    "models.model_info": ("ModelInfo",),
    "models.scoring_model": ("ScoringModel",),
    "models.any_model": ("AnyModel",),
    "models.files.opening": ("info", "load"),
    "features.vision.model": ("Caption", "CaptionModel"),
    "features.seq2seq.model": ("Seq2SeqModel",),
    "features.side_by_side.next_tokens": ("NextTokens", "next_tokens"),
    "features.speech.draw_alignment": ("SoundAlignment",),
    "verbs.attend": ("attend",),
    "drawing.attention": ("AttentionMaps",),
    "features.vision.attend": ("PictureAttention", "attend_picture"),
    "verbs.draw": ("Drawing", "draw", "draw_sizes"),
    "features.trees.draw_trees": ("TreeDrawings", "draw_trees"),
    "features.inspect.effects": ("CausalEffects",),
    "features.inspect.inspect": ("TextInspection", "inspect"),
    "features.vision.inspect": ("Inspection",),
    "features.speech.ctc": ("DecodedUtterance", "Heard", "HeardWord", "decode_ctc"),
    "features.speech.measurement": ("SpeechMeasurement",),
    "features.speech.model": ("AlignedText", "NewWords", "SpeechModel"),
    "features.correct.correct": ("correct", "corrector", "measure_correction", "tune_correction"),
    "features.correct.measures": ("TunedCorrection",),
    "features.lectures.data": ("data", "draw_pixels", "write_pixels"),
    "features.corpus.detect": (
        "DetectedText",
        "DetectionMeasurement",
        "detect",
        "draw_quiz",
        "draw_ranks",
        "measure_detection",
    ),
    "features.corpus.filter": ("Filtered", "filter"),
    "verbs.frequencies": ("Frequencies",),
    "features.prompt.harness": ("harness",),
    "features.vectors.nearest": ("Neighbour", "nearest"),
    "features.correct.noise": ("NoisyText", "noise"),
    "features.prompt.prompt": ("prompt",),
    "features.corpus.rank": ("Ranked", "rank"),
    "features.rescore.rescore": ("Rescored", "rescore"),
    "features.neighbours.family": ("with_neighbours",),
    "features.neighbours.passages": ("Passages", "passages"),
    "features.reading.surprisal": ("Surprisals", "surprisal"),
    "features.vision.training": ("train_captions",),
    "features.correct.train_channel": ("train_channel", "train_grammar"),
    "features.classify.training": ("finetune", "train_classifier"),
    "verbs.training.counts": ("count_text", "train_counts"),
    "features.kenlm.lmplz": ("lmplz",),
    "features.seq2seq.training": ("train_pairs",),
    "features.speech.training": ("train_speech",),
    "verbs.training.train": ("adapt", "train"),
    "features.vectors.cooccurrences": ("CooccurrenceMatrix", "count_cooccurrences", "read_cooccurrences"),
    "features.vectors.evaluate": ("VectorsMeasurement", "evaluate_vectors"),
    "features.vectors.map": ("map_vectors",),
    "features.vectors.train": ("train_vectors",),
    "features.vectors.model": ("WordVectors", "load_vectors"),
    "decoding.options": ("EmbeddingConfig",),
    "features.correct.corrector.config": ("CorrectionConfig", "CorrectionSettings"),
    "features.classify.labelled.pairs": ("LabelledPair", "Pair", "read_labelled_pairs"),
    "base.threads": ("set_threads",),
    "features.compare.compare": ("compare", "compare_families", "compare_smoothings"),
    "features.reading.reading_times": ("ReadingTimes", "reading_times"),
    "features.compare.learning": ("draw_learning",),
    "features.compare.report": ("write_report",),
    "features.compare.smoothings": ("SmoothingTable",),
    "features.compare.supervised": ("LabelComparison", "PairComparison", "compare_labels", "compare_pairs"),
    "decoding.config": ("BeamConfig", "Limits", "SamplingConfig"),
    "decoding.text_generator": ("FormProbability", "form_probability"),
    "errors": ("ChainruleError", "EstimationError", "ModelFormatError", "OutputError", "SettingError", "TextError"),
    "features.metrics.classification": ("Classification",),
    "features.compare.comparison": ("Comparison",),
    "evaluation.measurement": ("Measurement",),
    "features.vision.object_detection": ("BoxMeasurement",),
    "features.metrics.text_scores": ("TextScores", "measure_captions", "measure_summaries", "measure_translations"),
    "features.lectures.experiments.findings": ("Findings",),
    "features.lectures.experiments.run": ("experiment",),
    "features.serve.explorer.offline.page": ("ExplorerPage", "explore"),
    "features.serve.explorer.show": ("TextView", "show"),
    "mixture.config": ("CacheConfig", "MixtureConfig"),
    "neural.config": (
        "BagConfig",
        "BidirectionalConfig",
        "BilinearConfig",
        "ConvolutionConfig",
        "FeedforwardConfig",
        "MaskedConfig",
        "MaskedRecurrentConfig",
        "RecurrentConfig",
        "TransformerConfig",
        "preset",
    ),
    "features.trees.config": ("TreeConfig",),
    "features.vision.network.grid_config": ("GridConfig",),
    "features.seq2seq.network.config": ("CaptionConfig", "Seq2SeqConfig"),
    "features.speech.network_config": ("SpeechConfig",),
    "ngram.config": ("NGramConfig",),
    "features.exports.config": ("WordListConfig",),
    "features.vision.pictures.boxes": ("BoxLabels", "Detection", "read_boxes"),
    "features.vision.pictures.captions": ("CaptionedPicture", "read_captions"),
    "features.vision.pictures.labelled": ("read_pictures", "read_pixel_labels"),
    "features.vision.pictures.picture": ("LabelledPicture", "Picture", "as_picture"),
    "protocol": ("LanguageModel", "Scorer"),
    "features.serve.config": ("ServerLimits",),
    "features.serve.processes": ("serve",),
    "features.serve.shards": ("ShardClient", "serve_shards"),
    "features.speech.sounds.sound": ("Recording", "Sound", "raw_recording", "read_sound"),
    "features.speech.sounds.transcripts": ("Transcript", "read_transcripts"),
    "features.trees.structures.graph": ("Edge", "Graph", "LabelledGraph"),
    "features.trees.structures.graph_files": ("read_graphs",),
    "features.trees.structures.linearized": ("Treebank",),
    "features.trees.structures.tree": ("LabelledTree", "Tree"),
    "features.trees.structures.tree_files": ("read_trees",),
    "text.corpus.bad_records": ("BadRecords",),
    "text.corpus.corpus": ("Corpus", "Lines"),
    "text.corpus.mix": ("Mix",),
    "text.corpus.reading": ("Reading",),
    "text.corpus.sample": ("sample_lines",),
    "text.corpus.splits": ("split", "write_split"),
    "features.classify.labelled.texts": ("Labelled", "UnitLabels", "read_labelled"),
    "text.parallel": ("Pairs", "parallel"),
    "text.tokenization.config": ("TokenizerConfig",),
    "training.config": ("ClassifierTrainingConfig", "FineTuningConfig", "TrainingConfig", "TrainingRun"),
    "mixture.uniform": ("UniformConfig",),
    "features.vectors.learning.config": ("CooccurrenceConfig", "VectorsConfig"),
}

_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_MODULE_OF)


# Public names of 0.1 that were renamed; the old ones work, with a warning.
def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'chainrule' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chainrule.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
