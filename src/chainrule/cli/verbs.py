"""The verbs: where the function of each is, and the first line of its help.

So the help of all is shown, and a verb found, without importing any other.
"""

from __future__ import annotations

# By name: a module of this folder with a name in it, and the first paragraph of its docstring, on one line.
VERBS = {
    "evaluate": ("evaluate:evaluate", "Perplexity and bits per byte of a text, or accuracy on minimal pairs."),
    "score": ("score:score", "Log-probabilities of texts, or of each token, word or character."),
    "next": ("next:next_tokens", "The likeliest next tokens after a prompt, best first."),
    "generate": ("generate:generate", "Sample texts from the model, or search for the likeliest ones with --beam."),
    "complete": (
        "complete:complete",
        "Complete text while you type it: the word at the cursor, or the next ones after a space.",
    ),
    "fill": ("fill:fill", "The likeliest tokens for the gaps of a text, by what stands on both sides."),
    "adapt": ("train_neural:adapt", "Go on with the training of a network, on other text."),
    "finetune": ("finetune:finetune", "Put a head on a network of any family, and train both on labels."),
    "classify": ("classify:classify", "Label texts, or their words."),
    "embed": ("embed:embed", "Vectors of texts, or of their words or tokens, in context."),
    "nearest": ("nearest:nearest_words", "The words of a text, each in its sentence, that are most like a given one."),
    "translate": ("translate:translate", "Texts from texts, by a model of one given the other."),
    "attend": ("attend:attend", "Show where a network looks: maps of all its layers and heads."),
    "compare": ("compare:compare", "Compare models in one table."),
    "experiment": ("experiment:experiment", "What networks remember, cost, learn through and extend to."),
    "filter": ("filter:filter_texts", "Keep the part of a corpus that a model finds likeliest."),
    "rescore": ("rescore:rescore", "Choose among hypotheses: the best sum of their own scores and a model's."),
    "noise": ("noise:noise", "Spoil a text with errors, and propose what may have been meant."),
    "split": ("split:split", "Divide a text into parts, the same on every machine."),
    "count": ("count:count", "Count the n-grams of a text."),
    "convert": (
        "convert:convert",
        "Between model folders, fast and compact, and ARPA files; and from KenLM's binaries.",
    ),
    "lmplz": ("lmplz:lmplz", "KenLM's lmplz: a text to an ARPA file, for scripts that call it so."),
    "prune": ("prune:prune", "Make an n-gram model smaller."),
    "mix": ("mix:mix", "Mix models of one tokenizer and vocabulary into one."),
    "info": ("info:info", "What is known of a model: size, settings, data, training, validation."),
    "harness": (
        "harness:harness",
        "Run lm-evaluation-harness, with its tasks and its command line, on any of our models.",
    ),
    "verify": ("verify:verify", "Check the checksums of a model folder."),
}
INSTALL = ("completion_script:install", "Install completion for your shell.")

# What one is about to do, and the verbs for it, the commonest first.
GROUPS = {
    "Train": ("train", "adapt", "finetune", "mix", "prune"),
    "Measure": ("evaluate", "compare", "score", "experiment", "harness"),
    "Use": ("next", "generate", "complete", "fill", "rescore", "noise", "translate", "classify", "embed", "nearest"),
    "Look inside": ("info", "attend"),
    "Files": ("split", "filter", "count", "convert", "verify", "lmplz"),
}

# The same, under `chainrule train`.
FAMILIES = {
    "ngram": ("train:ngram", "An n-gram model, by default with modified Kneser-Ney smoothing."),
    "bilinear": ("train_neural:bilinear", "A log-bilinear model: it foretells the next token's vector linearly."),
    "bag": ("train_neural:bag", "A deep averaging network: blind to the order of what it has read."),
    "feedforward": (
        "train_neural:feedforward",
        "A feed-forward network over the last few tokens: a neural n-gram model.",
    ),
    "convolution": ("train_neural:convolution", "A convolutional network: causal, dilated and gated."),
    "recurrent": ("train_neural:recurrent", "An LSTM, GRU or simple recurrent network."),
    "transformer": ("train_neural:transformer", "A Transformer: a network that looks back by attention."),
    "masked": ("train_neural:masked", "A masked Transformer: it sees both sides, and learns to fill in."),
    "masked-recurrent": (
        "train_neural:masked_recurrent",
        "A masked LSTM or GRU: each layer reads both ways, half of its width each.",
    ),
    "two-sided": ("train_neural:two_sided", "A two-sided LSTM or GRU (ELMo, Peters 2018), the directions apart."),
    "translation": (
        "train_translation:translation",
        "A model of one text given another: translations, summaries, corrections.",
    ),
    "uniform": ("train:uniform", "Every token alike: the floor for any comparison."),
}
