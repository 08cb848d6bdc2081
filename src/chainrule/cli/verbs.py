"""The verbs: the function of each, and the first line of its help.

With this table, the list of verbs can be shown, and one verb run, without importing the others.
"""

from __future__ import annotations

DESCRIPTION = "Language models from the n-gram to the Transformer: train, measure, compare and use them."
TRAIN = "Train a model on text.\n\n    $ chainrule train ngram corpus.txt -o lm/"
EVERYWHERE = (
    "With --threads N, any verb runs on N threads; with --exact, weights that a file has quantised are "
    "computed with in float32; with --alone, networks score each text in a pass of its own: the same to the last bit, "
    "whatever else is scored; with --window-stride N, they score texts longer than their context in windows that begin "
    "N tokens apart, by default half of the context; with --bos TOKEN, networks read this token before each text, "
    "not the one that their files name; with --cache-bits 8, Transformers keep keys and values in eight bits, in "
    "little more than a quarter of the memory; with --float64-layers N, the first N layers of Transformers compute in "
    "float64 where whole texts are scored; with --debug, an error shows its traceback."
)

# By name: a module of the package and a function in it, and the first paragraph of its docstring, on one line.
VERBS = {
    "evaluate": (
        "cli.measure.evaluate:evaluate",
        "Measure perplexity, accuracy on labels or minimal pairs, or word vectors.",
    ),
    "score": (
        "cli.measure.score:score",
        "Print log-probabilities of texts, or of each token, word, character or byte.",
    ),
    "next": ("cli.use.generate:next_tokens", "List the likeliest next tokens after a prompt."),
    "generate": ("cli.use.generate:generate", "Sample texts from a model, or search for the likeliest with --beam."),
    "complete": (
        "cli.use.complete:complete",
        "Complete text as you type: the word at the cursor, or the next words after a space.",
    ),
    "lsp": ("features.serve.editors.shell:lsp", "Complete and correct in editors, as a language server."),
    "chat": ("cli.use.chat:chat", "Talk with a model that was trained on conversations, by its chat template."),
    "fill": ("cli.use.generate:fill", "Fill gaps in a text with the likeliest tokens, given the text on both sides."),
    "adapt": ("cli.train.networks:adapt", "Continue training a network, on other text."),
    "finetune": (
        "features.classify.shell_train:finetune",
        "Fine-tune a network, with a classification head, on labelled texts, words or pairs.",
    ),
    "prompt": ("features.prompt.shell:prompt", "Measure a model's answers to prompts, zero-shot or few-shot."),
    "detect": (
        "features.corpus.shell_detect:detect",
        "Show how likely each token of a text was, or measure how well that tells who wrote it.",
    ),
    "rank": ("features.corpus.shell_rank:rank", "Rank documents by the probability of a query."),
    "classify": ("features.classify.shell:classify", "Label texts, or each of their words."),
    "embed": ("features.vectors.shell_embed:embed", "Embed texts, or their words or tokens in context, as vectors."),
    "nearest": (
        "features.vectors.shell:nearest_words",
        "Find the words that are most like a given one, in the sentences of a text or among word vectors.",
    ),
    "analogy": ("features.vectors.shell:analogy", "Solve a word analogy with word vectors: A is to B as C is to what?"),
    "odd": ("features.vectors.shell:odd", "Find the word that does not belong with the others, by word vectors."),
    "map": ("features.vectors.shell:draw_map", "Draw a searchable two-dimensional map of word vectors, as a page."),
    "translate": (
        "features.seq2seq.shell:translate",
        "Generate texts from source texts: translations, summaries, corrections.",
    ),
    "caption": ("features.vision.shell:caption", "Write captions of pictures."),
    "attend": ("cli.look.draw:attend", "Draw where a network attends, or what it makes of each node of a tree."),
    "draw": ("cli.look.draw:draw", "Draw the layers of a network, with their shapes and numbers of parameters."),
    "inspect": ("cli.look.draw:inspect", "Draw the inside of a recurrent network, a Transformer, or one for pictures."),
    "compare": ("features.compare.shell:compare", "Compare models in one table."),
    "reading": ("features.reading.shell:reading", "Measure how well surprisal predicts reading times."),
    "experiment": (
        "features.lectures.shell:experiment",
        "Measure what textbooks claim of language models, with a table and a plot.",
    ),
    "filter": (
        "features.lectures.shell_data:filter_texts",
        "Keep the documents of a corpus that a model finds likeliest.",
    ),
    "rescore": (
        "features.rescore.shell:rescore",
        "Choose the best hypotheses, by their own scores plus a language model's.",
    ),
    "transcribe": (
        "features.speech.shell:transcribe",
        "Transcribe speech: from sounds to texts, with a language model.",
    ),
    "ctc": (
        "features.speech.shell:ctc",
        "Decode speech: from a network's CTC outputs to texts, with a language model.",
    ),
    "correct": ("features.correct.shell:correct", "Correct texts: spelling, spaces, words that do not fit, grammar."),
    "noise": ("features.correct.shell_noise:noise", "Corrupt a text with errors, and propose corrections."),
    "data": (
        "features.lectures.shell_data:data",
        "Write a small data set made by rule, to try commands without a download.",
    ),
    "split": ("features.lectures.shell_data:split", "Divide a text into parts, the same on every machine."),
    "pixels": ("features.lectures.shell_data:pixels", "Write pictures as text for language models, or draw such text."),
    "shard-serve": (
        "features.serve.shell:shard_serve",
        "Serve shards of an n-gram model to programs that look up batches of n-grams.",
    ),
    "count": ("cli.files.count:count", "Count the n-grams of a text, or with --window its co-occurring words."),
    "convert": (
        "cli.files.convert:convert",
        "Convert between model folders, ARPA files, and the formats of other programs.",
    ),
    "lmplz": (
        "features.kenlm.shell:lmplz",
        "Estimate an ARPA file with the options of KenLM's lmplz, for scripts that call it.",
    ),
    "prune": ("cli.files.edit:prune", "Make an n-gram model smaller."),
    "mix": ("cli.files.edit:mix", "Mix models that share a tokenizer and vocabulary into one."),
    "info": ("cli.files.convert:info", "Show what is known about a model: size, settings, data, training, validation."),
    "serve": ("features.serve.shell:serve", "Serve models over HTTP, with OpenAI's interface."),
    "explore": (
        "features.serve.explorer.shell:explore",
        "Look into models on a page: next words, surprisal, samples, beams, attention.",
    ),
    "harness": (
        "features.prompt.shell_harness:harness",
        "Run lm-evaluation-harness, with its tasks and options, on any of our models.",
    ),
    "verify": ("cli.files.convert:verify", "Verify the checksums of a model folder, or that probabilities sum to one."),
}
INSTALL = ("cli.main:install", "Install completion for your shell.")

# What a person is about to do, and the verbs for it, the commonest first.
GROUPS = {
    "Train": ("train", "adapt", "finetune", "mix", "prune"),
    "Measure": ("evaluate", "compare", "score", "reading", "experiment", "harness"),
    "Use": (
        *(
            "next",
            "generate",
            "complete",
            "chat",
            "fill",
            "rescore",
            "transcribe",
            "ctc",
            "correct",
            "noise",
            "translate",
            "caption",
        ),
        *("prompt", "rank", "detect", "classify", "serve", "shard-serve", "lsp"),
    ),
    "Vectors": ("embed", "nearest", "analogy", "odd", "map"),
    "Look inside": ("explore", "info", "draw", "attend", "inspect"),
    "Files": ("data", "split", "filter", "pixels", "count", "convert", "verify", "lmplz"),
}

# The same for the models of `chainrule train`.
FAMILIES = {
    "ngram": ("cli.train.ngram:ngram", "An n-gram model, by default with modified Kneser-Ney smoothing."),
    "bilinear": ("cli.train.networks:bilinear", "A log-bilinear model: it predicts the next token's vector linearly."),
    "bag": ("cli.train.networks:bag", "A deep averaging network: blind to the order of what it has read."),
    "feedforward": (
        "cli.train.networks:feedforward",
        "A feed-forward network over the last few tokens: a neural n-gram model.",
    ),
    "convolution": ("cli.train.networks:convolution", "A convolutional network: causal, dilated and gated."),
    "recurrent": ("cli.train.networks:recurrent", "An LSTM, GRU or simple recurrent network."),
    "grid": ("cli.train.networks:grid", "A two-dimensional LSTM over pictures, row by row."),
    "transformer": ("cli.train.networks:transformer", "A Transformer: a network that looks back by attention."),
    "tree": ("cli.train.networks:tree", "A language model of trees: an LSTM from the root down."),
    "masked": (
        "cli.train.networks:masked",
        "A masked Transformer: bidirectional, and trained to fill in masked tokens.",
    ),
    "masked-recurrent": (
        "cli.train.networks:masked_recurrent",
        "A masked LSTM or GRU: each layer reads both ways, half of its width each.",
    ),
    "bidirectional": (
        "cli.train.networks:bidirectional",
        "A bidirectional LSTM or GRU (ELMo, Peters 2018), the directions apart.",
    ),
    "seq2seq": (
        "features.seq2seq.shell_train:seq2seq",
        "An encoder-decoder for pairs of texts: translations, summaries, corrections.",
    ),
    "caption": (
        "features.vision.shell_train:caption",
        "A captioner: describes pictures, with attention to their parts.",
    ),
    "paragraph": (
        "features.vision.shell_train:paragraph",
        "A model that writes paragraphs about pictures, from regions and a phrase for each.",
    ),
    "speech": ("features.speech.shell_train:speech", "A network that hears: it writes what is said in sounds."),
    "classifier": (
        "features.classify.shell_train:classifier",
        "A network that labels texts, words, trees, graphs or pairs, from scratch.",
    ),
    "channel": (
        "features.correct.shell_train:channel",
        "A model of spelling errors, learned from pairs, for chainrule correct.",
    ),
    "vectors": (
        "features.vectors.shell_train:vectors",
        "Word vectors: skip-gram, CBOW or GloVe, with subwords or without.",
    ),
    "uniform": ("cli.train.ngram:uniform", "Every token equally likely: the floor for any comparison."),
}

# Former names of models of `chainrule train`: they work, with a note, and no list shows them.
FORMER_FAMILIES = {"translation": "seq2seq", "two-sided": "bidirectional"}
