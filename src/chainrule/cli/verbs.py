"""The verbs of the registry, as the lists of help and the parser need them, and what stands beside these lists."""

from __future__ import annotations

from chainrule.registry import verbs

DESCRIPTION = "Language models from the n-gram to the Transformer: train, measure, compare and use them."
TRAIN = (
    "Train a model on text.\n\n    $ chainrule train ngram corpus.txt -o lm/\n\n"
    "The models of plug-ins are not in this list: see chainrule plugins."
)
EVERYWHERE = (
    "Every verb also takes these options. --threads N: the number of threads. --exact: compute in float32 with weights "
    "that a file has quantised. --alone: networks score each text in a pass of its own, so that its score does not "
    "depend on the other texts. --window-stride N: networks score texts longer than their context in windows that "
    "begin N tokens apart, by default half of the context. --bos TOKEN: networks read this token before each text, not "
    "the one that their files name. --cache-bits 8: Transformers keep keys and values in eight bits, in little more "
    "than a quarter of the memory. --float64-layers N: the first N layers of Transformers compute in float64 where "
    "whole texts are scored. --debug: an error shows its traceback."
)

# By name, the verbs, and the models of `chainrule train`; and the verbs of each group of the list of verbs.
VERBS = {verb.name: verb for verb in verbs.VERBS if verb.name != "train" and verb.group != "Models"}
FAMILIES = {verb.name.removeprefix("train "): verb for verb in verbs.VERBS if verb.group == "Models"}
GROUPS: dict[str, list[str]] = {}
for _verb in verbs.VERBS:
    if _verb.group != "Models":
        GROUPS.setdefault(_verb.group, []).append(_verb.name)
INSTALL = ("chainrule.cli.main:install", "Install completion for your shell.")

# Former names of models of `chainrule train`: they work, with a note, and no list shows them.
FORMER_FAMILIES = {"translation": "seq2seq", "two-sided": "bidirectional"}
