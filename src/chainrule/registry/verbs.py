"""The verbs of the shell, in the order of the lists of help.

What a person is about to do has a group, and the verbs for it stand there, the commonest first.
"""

from __future__ import annotations

from chainrule.kinds import Lazy, Verb


def _verb(name: str, group: str, function: str, help_line: str) -> Verb:
    """Return a verb of ours. function: its module, from the package on, and its name there."""
    return Verb(name, group, help_line, Lazy(f"chainrule.{function}"))


VERBS = (
    # Train
    _verb("train", "Train", "", "Train a model on text."),
    _verb("adapt", "Train", "cli.train.networks:adapt", "Continue training a network, on other text."),
    _verb(
        "finetune",
        "Train",
        "features.classify.shell_train:finetune",
        "Fine-tune a network, with a classification head, on labelled texts, words or pairs.",
    ),
    _verb("mix", "Train", "cli.files.edit:mix", "Mix models that share a tokenizer and vocabulary into one."),
    _verb("prune", "Train", "cli.files.edit:prune", "Make an n-gram model smaller."),
    # Measure
    _verb(
        "evaluate",
        "Measure",
        "cli.measure.evaluate:evaluate",
        "Measure perplexity, accuracy on labels or minimal pairs, or word vectors.",
    ),
    _verb("compare", "Measure", "features.compare.shell:compare", "Compare models in one table."),
    _verb(
        "score",
        "Measure",
        "cli.measure.score:score",
        "Print log-probabilities of texts, or of each token, word, character or byte.",
    ),
    _verb("reading", "Measure", "features.reading.shell:reading", "Measure how well surprisal predicts reading times."),
    _verb(
        "experiment",
        "Measure",
        "features.lectures.shell:experiment",
        "Measure what textbooks claim of language models, with a table and a plot.",
    ),
    _verb(
        "harness",
        "Measure",
        "features.prompt.shell_harness:harness",
        "Run lm-evaluation-harness, with its tasks and options, on any of our models.",
    ),
    # Use
    _verb("next", "Use", "cli.use.generate:next_tokens", "List the likeliest next tokens after a prompt."),
    _verb(
        "generate",
        "Use",
        "cli.use.generate:generate",
        "Sample texts from a model, or search for the likeliest with --beam.",
    ),
    _verb(
        "complete",
        "Use",
        "features.chat.shell_complete:complete",
        "Complete text as you type: the word at the cursor, or the next words after a space.",
    ),
    _verb(
        "chat",
        "Use",
        "features.chat.shell_chat:chat",
        "Talk with a model that was trained on conversations, by its chat template.",
    ),
    _verb(
        "fill",
        "Use",
        "cli.use.generate:fill",
        "Fill gaps in a text with the likeliest tokens, given the text on both sides.",
    ),
    _verb(
        "rescore",
        "Use",
        "features.rescore.shell:rescore",
        "Choose the best hypotheses, by their own scores plus a language model's.",
    ),
    _verb(
        "transcribe",
        "Use",
        "features.speech.shell:transcribe",
        "Transcribe speech: from sounds to texts, with a language model.",
    ),
    _verb(
        "ctc",
        "Use",
        "features.speech.shell:ctc",
        "Decode speech: from a network's CTC outputs to texts, with a language model.",
    ),
    _verb(
        "correct",
        "Use",
        "features.correct.shell:correct",
        "Correct texts: spelling, spaces, words that do not fit, grammar.",
    ),
    _verb("noise", "Use", "features.correct.shell_noise:noise", "Corrupt a text with errors, and propose corrections."),
    _verb(
        "translate",
        "Use",
        "features.seq2seq.shell:translate",
        "Generate texts from source texts: translations, summaries, corrections.",
    ),
    _verb("caption", "Use", "features.vision.shell:caption", "Write captions of pictures."),
    _verb(
        "prompt", "Use", "features.prompt.shell:prompt", "Measure a model's answers to prompts, zero-shot or few-shot."
    ),
    _verb("rank", "Use", "features.corpus.shell_rank:rank", "Rank documents by the probability of a query."),
    _verb(
        "detect",
        "Use",
        "features.corpus.shell_detect:detect",
        "Show how likely each token of a text was, or measure how well that tells who wrote it.",
    ),
    _verb("classify", "Use", "features.classify.shell:classify", "Label texts, or each of their words."),
    _verb("serve", "Use", "features.serve.shell:serve", "Serve models over HTTP, with OpenAI's interface."),
    _verb(
        "shard-serve",
        "Use",
        "features.serve.shell:shard_serve",
        "Serve shards of an n-gram model to programs that look up batches of n-grams.",
    ),
    _verb("lsp", "Use", "features.serve.editors.shell:lsp", "Complete and correct in editors, as a language server."),
    # Vectors
    _verb(
        "embed",
        "Vectors",
        "features.vectors.shell_embed:embed",
        "Embed texts, or their words or tokens in context, as vectors.",
    ),
    _verb(
        "nearest",
        "Vectors",
        "features.vectors.shell:nearest_words",
        "Find the words that are most like a given one, in the sentences of a text or among word vectors.",
    ),
    _verb(
        "analogy",
        "Vectors",
        "features.vectors.shell:analogy",
        "Solve a word analogy with word vectors: A is to B as C is to what?",
    ),
    _verb(
        "odd",
        "Vectors",
        "features.vectors.shell:odd",
        "Find the word that does not belong with the others, by word vectors.",
    ),
    _verb(
        "map",
        "Vectors",
        "features.vectors.shell:draw_map",
        "Draw a searchable two-dimensional map of word vectors, as a page.",
    ),
    # Look inside
    _verb(
        "explore",
        "Look inside",
        "features.serve.explorer.shell:explore",
        "Look into models on a page: next words, surprisal, samples, beams, attention.",
    ),
    _verb(
        "info",
        "Look inside",
        "cli.files.convert:info",
        "Show what is known about a model: size, settings, data, training, validation.",
    ),
    _verb(
        "draw",
        "Look inside",
        "cli.look.draw:draw",
        "Draw the layers of a network, with their shapes and numbers of parameters.",
    ),
    _verb(
        "attend",
        "Look inside",
        "cli.look.draw:attend",
        "Draw where a network attends, or what it makes of each node of a tree.",
    ),
    _verb(
        "inspect",
        "Look inside",
        "features.inspect.shell:inspect",
        "Draw the inside of a recurrent network, a Transformer, or one for pictures.",
    ),
    _verb(
        "plugins",
        "Look inside",
        "cli.plugins:plugins",
        "List the plug-ins of other packages: what they bring, or why they are left out.",
    ),
    # Files
    _verb(
        "data",
        "Files",
        "features.lectures.shell_data:data",
        "Write a small data set made by rule, to try commands without a download.",
    ),
    _verb(
        "split", "Files", "features.lectures.shell_data:split", "Divide a text into parts, the same on every machine."
    ),
    _verb(
        "filter",
        "Files",
        "features.lectures.shell_data:filter_texts",
        "Keep the documents of a corpus that a model finds likeliest.",
    ),
    _verb(
        "pixels",
        "Files",
        "features.lectures.shell_data:pixels",
        "Write pictures as text for language models, or draw such text.",
    ),
    _verb(
        "count",
        "Files",
        "cli.files.count:count",
        "Count the n-grams of a text, or with --window its co-occurring words.",
    ),
    _verb(
        "convert",
        "Files",
        "cli.files.convert:convert",
        "Convert between model folders, ARPA files, and the formats of other programs.",
    ),
    _verb(
        "verify",
        "Files",
        "cli.files.convert:verify",
        "Verify the checksums of a model folder, or that probabilities sum to one.",
    ),
    _verb(
        "lmplz",
        "Files",
        "features.kenlm.shell:lmplz",
        "Estimate an ARPA file with the options of KenLM's lmplz, for scripts that call it.",
    ),
    # Models, by `chainrule train`
    _verb(
        "train ngram",
        "Models",
        "cli.train.ngram:ngram",
        "An n-gram model, by default with modified Kneser-Ney smoothing.",
    ),
    _verb(
        "train bilinear",
        "Models",
        "cli.train.networks:bilinear",
        "A log-bilinear model: it predicts the next token's vector linearly.",
    ),
    _verb(
        "train bag",
        "Models",
        "cli.train.networks:bag",
        "A deep averaging network: blind to the order of what it has read.",
    ),
    _verb(
        "train feedforward",
        "Models",
        "cli.train.networks:feedforward",
        "A feed-forward network over the last few tokens: a neural n-gram model.",
    ),
    _verb(
        "train convolution",
        "Models",
        "cli.train.networks:convolution",
        "A convolutional network: causal, dilated and gated.",
    ),
    _verb("train recurrent", "Models", "cli.train.networks:recurrent", "An LSTM, GRU or simple recurrent network."),
    _verb("train grid", "Models", "cli.train.networks:grid", "A two-dimensional LSTM over pictures, row by row."),
    _verb(
        "train transformer",
        "Models",
        "cli.train.networks:transformer",
        "A Transformer: a network that looks back by attention.",
    ),
    _verb("train tree", "Models", "cli.train.networks:tree", "A language model of trees: an LSTM from the root down."),
    _verb(
        "train masked",
        "Models",
        "cli.train.networks:masked",
        "A masked Transformer: bidirectional, and trained to fill in masked tokens.",
    ),
    _verb(
        "train masked-recurrent",
        "Models",
        "cli.train.networks:masked_recurrent",
        "A masked LSTM or GRU: each layer reads both ways, half of its width each.",
    ),
    _verb(
        "train bidirectional",
        "Models",
        "cli.train.networks:bidirectional",
        "A bidirectional LSTM or GRU (ELMo, Peters 2018), the directions apart.",
    ),
    _verb(
        "train seq2seq",
        "Models",
        "features.seq2seq.shell_train:seq2seq",
        "An encoder-decoder for pairs of texts: translations, summaries, corrections.",
    ),
    _verb(
        "train caption",
        "Models",
        "features.vision.shell_train:caption",
        "A captioner: describes pictures, with attention to their parts.",
    ),
    _verb(
        "train paragraph",
        "Models",
        "features.vision.shell_train:paragraph",
        "A model that writes paragraphs about pictures, from regions and a phrase for each.",
    ),
    _verb(
        "train speech",
        "Models",
        "features.speech.shell_train:speech",
        "A network that hears: it writes what is said in sounds.",
    ),
    _verb(
        "train classifier",
        "Models",
        "features.classify.shell_train:classifier",
        "A network that labels texts, words, trees, graphs or pairs, from scratch.",
    ),
    _verb(
        "train channel",
        "Models",
        "features.correct.shell_train:channel",
        "A model of spelling errors, learned from pairs, for chainrule correct.",
    ),
    _verb(
        "train vectors",
        "Models",
        "features.vectors.shell_train:vectors",
        "Word vectors: skip-gram, CBOW or GloVe, with subwords or without.",
    ),
    _verb(
        "train uniform",
        "Models",
        "cli.train.ngram:uniform",
        "Every token equally likely: the floor for any comparison.",
    ),
)
