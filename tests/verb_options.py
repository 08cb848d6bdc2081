"""The options of every verb, as its help must have them."""

from __future__ import annotations

from dataclasses import fields

from chainrule.base.options import is_rare
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.seq2seq.network.config import CaptionConfig, Seq2SeqConfig
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.features.trees.config import TreeConfig
from chainrule.features.vectors.learning.config import VectorsConfig
from chainrule.features.vision.network.config import ResNetLabelling, ViTLabelling
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, TrainingConfig
from chainrule.verbs.training.options import TeacherOptions

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)


def flag(name: str) -> str:
    """Of a field of a configuration."""
    return "--output-layer" if name == "output" else "--" + name.replace("_", "-")


MIXING = {"--mix", "--mix-bytes", "--mix-seed"}
RESULT = {"--output", "--overwrite", "--json"}
LEARNING = {"--dynamic", *(f"--dynamic-{name}" for name in ("segment", "rate", "decay", "forgets", "rank"))}
NEIGHBOURS = {"--neighbours", *(f"--neighbours-{name}" for name in ("count", "temperature", "weight"))}
NEIGHBOURS |= {"--neural-cache", *(f"--neural-cache-{name}" for name in ("theta", "weight", "forgets"))}
CONTEXT = {"--context-words", "--context-tokens", *LEARNING}
RECORDS = {"--bad-records", "--bad-records-out"}  # of all verbs that read records
# Of all verbs that take texts.
READING = {"--document", "--field", "--encoding", "--encoding-errors", "--suffixes", *RECORDS}
TOKENIZER = {"--tokenizer", "--normalise", "--vocabulary", "--vocabulary-size", "--vocabulary-min-count", "--markers"}
# The verb of a family has the family's name, but for one.
NETWORK_VERBS = {
    "bidirectional" if family == "two-sided" else family: config
    for family, config in {**NETWORKS, **BIDIRECTIONAL, "tree": TreeConfig}.items()
}
NETWORK = (
    {"--output", "--valid", "--resume", "--vectors", "--fixed-vectors", *TOKENIZER, "--overwrite", "--json"}
    | READING
    | MIXING
)
TEACHER = {flag(each.name) for each in fields(TeacherOptions)}
TRAINING = {flag(each.name) for each in fields(TrainingConfig)}
VERBS = {
    **{
        f"train {name}": {
            "TEXTS",
            *NETWORK,
            *TRAINING,
            *(flag(each.name) for each in fields(config) if not is_rare(each)),
        }
        | ({"--preset"} if name in ("transformer", "masked") else set())
        | ({"--residual-of", *TEACHER} if config in NETWORKS.values() else set())
        for name, config in NETWORK_VERBS.items()
    },
    "train ngram": {"TEXTS", "--output", "--order", *TOKENIZER, "--prune", "--interpolate-unigrams", "--smoothing"}
    | {
        "--counts",
        "--tune",
        "--discount",
        "--pseudocount",
        "--weights",
        "--weights-by",
        "--backoff-weight",
        "--open-vocabulary",
        "--begins",
        "--compact",
        "--memory",
        "--spark",
        "--shards",
    }
    | {"--strict-discounts", "--kenlm-compatible", "--overwrite", "--json"}
    | READING
    | MIXING,
    "train channel": {"PAIRS", "--output", "--rounds", "--channel", "--grammar", "--inflections", "--overwrite"},
    "train seq2seq": RECORDS
    | {"--source", "--target", "--pairs", "--source-field", "--target-field", "--valid", "--output"}
    | {"--resume", "--source-tokenizer", "--vectors", "--source-vectors", "--fixed-vectors", "--overwrite", "--json"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(Seq2SeqConfig) if not is_rare(each)},
    "train paragraph": RECORDS
    | {"--pictures", "--encoder", "--regions", "--phrases", "--valid", "--output", "--resume"}
    | {"--reader", "--discriminator", "--overwrite", "--json"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(CaptionConfig) if not is_rare(each) and each.name != "decoder"},
    "train caption": RECORDS
    | {"--pictures", "--encoder", "--tuned", "--features", "--valid", "--output", "--resume"}
    | {"--overwrite", "--json", "--regions", "--phrases", "--reader"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(CaptionConfig) if not is_rare(each)}
    | {
        f"--encoder-{each.name.replace('_', '-')}"
        for config in (ResNetLabelling, ViTLabelling)
        for each in fields(config)
        if not is_rare(each) and each.name not in ("flip", "shift")
    },
    "train speech": RECORDS
    | {"TRANSCRIPTS", "--valid", "--output", "--resume", "--overwrite", "--json"}
    | TRAINING
    | {flag(each.name) for each in fields(SpeechConfig) if not is_rare(each)},
    "train classifier": RECORDS
    | {"DATA", "--output", "--network", "--unit", "--test", "--resume"}
    | {"--field", "--label-field", "--encoding"}
    | {"--vectors", "--fixed-vectors", "--overwrite", "--json"}
    | TOKENIZER
    | {flag(each.name) for kind in LABELLING.values() for each in fields(kind) if not is_rare(each)}
    | {flag(each.name) for each in fields(ClassifierTrainingConfig)},
    "train uniform": {"TEXTS", "--output", *TOKENIZER, "--overwrite", "--json"} | READING | MIXING,
    "harness": {"ARGUMENTS"},
    "train vectors": {"TEXTS", "--counts", "--output", "--resume", *TOKENIZER, "--overwrite", "--json"}
    | {flag(each.name) for each in fields(VectorsConfig)}
    | READING
    | MIXING,
    "evaluate": {"MODEL", "TEXTS", "--minimal-pairs", "--pseudo", "--tokenizer", "--markers", "--ends"}
    | {"--source", "--target", "--pairs", "--pictures", "--vectors", "--beam", "--max-tokens"}
    | {"--similarity", "--analogies", "--restrict", "--rule", "--unknown", *RESULT, "--label-field"}
    | {"--suite", "--word-ends", "--lm", "--alpha", "--beta", "--task", "--language", "--lower-case", "--plain-words"}
    | CONTEXT
    | READING,
    "score": {"MODEL", "TEXT", "--tokens", "--words", "--characters", "--bytes", "--tokenizer", "--markers", "--json"}
    | {"--running", "--output", "--nats", "--ends", "--word-ends", "--overwrite", "--log10", "--header", "--long"}
    | CONTEXT
    | {"--also", "--entropy", "--frequencies", "--previous", "--word-entropy", "--convention"}
    | READING,
    "adapt": {"MODEL", "TEXTS", "--output", "--valid", "--resume", "--markers", "--overwrite", "--json"}
    | {"--lora", "--lora-alpha", "--lora-layers", "--preferred", "--beta", *TEACHER}
    | READING
    | MIXING
    | TRAINING,
    "finetune": RECORDS
    | {"MODEL", "--data", "--output", "--test", "--pairs", "--words", "--resume", "--markers"}
    | {"--field", "--label-field", "--encoding", "--overwrite", "--json"}
    | {flag(each.name) for each in fields(FineTuningConfig)},
    "prompt": RECORDS
    | {"MODEL", "--template", "--data", "--choices", "--answer", "--shots", "--examples", "--seeds", "--orders"}
    | {"--between", "--calibrate", "--normalise", "--match", "--max-tokens", "--show", "--output", "--overwrite"}
    | {"--markers", "--json"},
    "ctc": {"--blank", "--space"}
    | {"LOGITS", "MODEL", "--labels", "--words", "--hotwords", "--nbest-out", "--nbest", "--times", "--frame"}
    | {"--alpha", "--beta", "--beam", "--beam-prune-logp", "--token-min-logp", "--unk-score-offset", "--hotword-weight"}
    | {"--tokenizer", *RESULT},
    "transcribe": {"MODEL", "SOUNDS", "--lm", "--greedy", "--words", "--hotwords", "--nbest-out", "--nbest", "--times"}
    | {"--alpha", "--beta", "--beam", "--beam-prune-logp", "--token-min-logp", "--unk-score-offset", "--hotword-weight"}
    | {"--window", "--overlap", "--lower-case", "--rate", "--language", "--task", "--timestamps", "--word-timestamps"}
    | {"--temperatures", "--compression-ratio-threshold", "--logprob-threshold", "--no-speech-threshold", "--seed"}
    | {"--condition-on-previous-text", "--initial-prompt", *RESULT},
    "rank": RECORDS
    | {
        "MODEL",
        "--queries",
        "--documents",
        "--by",
        "--mu",
        "--lambda",
        "--top",
        "--judgements",
        "--markers",
        *RESULT,
    },
    "classify": {"MODEL", "TEXT", "--data", "--markers", "--page", *RESULT} | {"--label-field"} | READING,
    "fill": {"MODEL", "TEXT", "--top", "--mask", "--markers", *RESULT},
    "embed": {"MODEL", "TEXT", "--output", "--layer", "--pooling", "--precision", "--words", "--tokens", "--vocabulary"}
    | {"--prompt", "--prompt-name", "--dimensions", "--markers", "--overwrite"}
    | READING,
    "nearest": {"MODEL", "SENTENCE", "TEXT", "--top", "--layer", "--pooling", "--markers", *RESULT}
    | {"--restrict", "--contexts"}
    | READING,
    "analogy": {"VECTORS", "A", "B", "C", "--rule", "--top", "--restrict", *RESULT},
    "odd": {"VECTORS", "WORDS", *RESULT},
    "map": {"VECTORS", "--output", "--words", "--method", "--seed", "--overwrite"},
    "next": {"MODEL", "PROMPT", "--top", "--also", "--passages", "--tokenizer", "--markers", *RESULT},
    "generate": {
        "MODEL",
        "PROMPT",
        "--number",
        "--seed",
        "--stream",
        "--draft",
        "--tree",
        "--tokenizer",
        "--markers",
        *RESULT,
    }
    | {"--max-tokens", "--min-tokens", "--begin", "--stop", "--allow", "--ban", "--no-repeat", "--unknown"}
    | {"--json-schema", "--regex", "--grammar", "--choices"}
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"}
    | {"--beam", "--rank-by", "--alpha", "--groups", "--diversity", "--must-end"},
    "caption": {"MODEL", "PICTURES", "--beam", "--rank-by", "--alpha", "--nbest", "--max-tokens", "--tree"}
    | {*RESULT, "--paragraph"},
    "translate": {
        "MODEL",
        "TEXTS",
        "--source-language",
        "--target-language",
        "--beam",
        "--rank-by",
        "--alpha",
        "--nbest",
        "--alignments",
        "--references",
        "--begin",
        "--max-tokens",
        "--sample",
        "--seed",
        "--tree",
        *RESULT,
    }
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"}
    | READING,
    "draw": {"MODELS", "--output", "--show", "--by", "--overwrite"},
    "attend": {"MODEL", "TEXT", "TARGET", "--output", "--beside", "--overwrite"},
    "inspect": {
        *("MODEL", "INPUT", "--output", "--units", "--unit", "--picture", "--patches", "--overwrite"),
        *("--remove", "--patch", "--answer", "--head"),
    },
    "lsp": {"MODEL", "--number", "--delay", "--correct", "--channel", "--lexicon", "--keep", "--tokenizer"},
    "serve": {
        "MODELS",
        "--host",
        "--port",
        "--api-key-file",
        "--allow-origin",
        "--no-key",
        "--workers",
        "--memory",
        "--max-tokens",
        "--exit-on-failure",
        "--draft",
        "--log-requests",
    },
    "shard-serve": {"MODEL", "--shards", "--host", "--port"},
    "explore": {
        "MODELS",
        "--also",
        "--port",
        "--no-browser",
        "--static",
        "--output",
        "--text",
        "--int8",
        "--overwrite",
    },
    "chat": {
        "MODEL",
        "--url",
        "--api-key-file",
        "--log",
        "--system",
        "--template",
        "--max-tokens",
        "--stop",
        "--seed",
        "--draft",
        "--json",
    }
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"},
    "detect": {"MODEL", "TEXT", "--machine", "--masked", "--perturbations", "--output", "--quiz", "--plot", "--number"}
    | {"--seed", "--markers", "--overwrite", "--json"}
    | READING,
    "complete": {
        "MODEL",
        "--url",
        "--api-key-file",
        "--number",
        "--tokenizer",
        "--markers",
        "--json",
        "--correct",
        "--channel",
        "--lexicon",
        "--regex",
    },
    "reading": RECORDS
    | {"TIMES", "MODELS", "--text", "--output", "--plot", "--overwrite", "--json"}
    | {"--frequencies", "--word", "--time", "--key", "--story", "--by", "--shift", "--previous", "--folds", "--log"}
    | {"--surprisals", "--word-ends", "--convention"}
    | CONTEXT,
    "compare": {
        "TEXTS",
        "--text",
        "--ends",
        "--output",
        "--plot",
        "--heldout",
        "--order",
        "--minutes",
        "--smoothing",
        "--labels",
        "--families",
        "--networks",
        "--source",
        "--target",
        "--pairs",
        "--beam",
        "--max-tokens",
        "--vectors",
        *TOKENIZER,
        "--overwrite",
        "--json",
    }
    | READING,
    "data": {"NAME", "--output", "--examples", "--seed", "--hard", "--overwrite", "--json"},
    "experiment": {"NAME", "--output", "--seed", "--minutes", "--overwrite", "--json"},
    "filter": {"TEXTS", "--model", "--keep", "--below", "--difference", "--output", "--tokenizer", "--markers"}
    | {"--overwrite", "--json"}
    | READING,
    "rescore": RECORDS
    | {"MODELS... LISTS", "--model", "--weight", "--weights", "--tune", "--objective", "--restarts", "--seed"}
    | {
        "--weights-out",
        "--sources",
        "--references",
        "--output",
        "--nbest-out",
        "--format",
        "--scores",
        "--costs",
        "--nbest",
        "--symbols",
        "--spelling",
        "--share",
    }
    | {"--bleu", "--tokenizer", "--markers", "--overwrite", "--json"},
    "correct": {"MODEL", "TEXT", "--channel", "--rate", "--at-least", "--keep", "--lexicon", "--beam", "--candidates"}
    | {"--references", "--diff", "--interactive", "--output", "--tokenizer", "--json", "--overwrite", "--errant"}
    | {
        "--format",
        "--grammar",
        "--grammar-rate",
        "--inflections",
        "--corrector",
        "--corrector-weight",
        "--rescore-by",
        "--rescore-weight",
        "--settings",
        "--tune",
        "--maximise",
    }
    | READING,
    "noise": {"TEXTS", "--channel", "--rate", "--seed", "--model", "--best", "--output", "--tokenizer", "--overwrite"}
    | {"--inflections", "--pairs"}
    | READING,
    "convert": {"SOURCE", "TARGET", "--tokenizer", "--normalise", "--compact", "--to", "--allow-pickle", "--overwrite"}
    | {"--shards", "--bits", "--adapter", "--locale", "--words", "--bigrams", "--shortcuts"},
    "mix": {"MODELS", "--output", "--tune", "--weights", "--kind", "--buckets", "--cache", "--cache-order", "--static"}
    | LEARNING
    | NEIGHBOURS
    | {"--adaptive", "--gate", "--exchange", "--tokenizer", "--markers", "--overwrite", "--json"}
    | READING,
    "lmplz": {"--order", "--text", "--arpa", "--prune", "--discount_fallback", "--limit_vocab_file"}
    | {"--interpolate_unigrams", "--skip_symbols", "--vocab_pad", "--verbose_header", "--memory", "--temp_prefix"}
    | {"--minimum_block", "--sort_block", "--block_count", "--vocab_estimate", "--renumber", "--intermediate"}
    | {"--collapse_values"},
    "prune": {"MODEL", "--output", "--entropy", "--to-ngrams", "--vocabulary", "--for-text", "--histories"}
    | {"--tokenizer", "--markers", "--overwrite", "--json"}
    | READING,
    "count": {"TEXTS", "--output", "--order", *TOKENIZER, "--overwrite", "--json"}
    | {"--window", "--weighting", "--sides", "--memory"}
    | READING,
    "split": {"TEXTS", "--into", *RESULT} | READING,
    "pixels": {"SOURCE", "--output", "--size", "--columns", "--levels", "--overwrite"},
    "plugins": {*RESULT},
    "info": {"MODEL", "--json"},
    "verify": {"MODEL", "--distribution", "--text", "--contexts", "--seed", "--url", "--api-key-file", *RESULT},
}
