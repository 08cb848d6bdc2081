"""All our rows, as a plug-in like those of others."""

from __future__ import annotations

from chainrule.kinds import Lazy, Plugin
from chainrule.registry.models import KINDS, OPENERS, WRITERS
from chainrule.registry.verbs import VERBS

# Rows of tables that features have: the table, the name of the row, and what it stands for.
ROWS = (
    ("documents", "tree", Lazy("chainrule.features.trees.structures.linearized:Treebank")),
    ("evaluate", "vectors", Lazy("chainrule.features.vectors.shell_evaluate:EVALUATE")),
    ("evaluate", "conditional", Lazy("chainrule.features.seq2seq.shell_evaluate:EVALUATE")),
    ("evaluate", "caption", Lazy("chainrule.features.vision.shell_evaluate:EVALUATE")),
    ("evaluate", "speech", Lazy("chainrule.features.speech.shell:EVALUATE")),
    ("evaluate", "classifier", Lazy("chainrule.features.classify.shell:EVALUATE")),
    ("count", "together", Lazy("chainrule.features.vectors.shell_count:COUNT")),
    ("train ngram", "spark", Lazy("chainrule.features.spark.shell:TRAIN")),
    ("complete", "typing", Lazy("chainrule.features.correct.shell_typing:TypingOptions")),
    ("attention", "conditional", Lazy("chainrule.features.seq2seq.attend:attend_pair")),
    ("attention", "caption", Lazy("chainrule.features.vision.attend:attend_caption")),
    ("attention", "speech", Lazy("chainrule.features.speech.draw_alignment:attend_sound")),
    ("attention", "tree", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention", "classifier", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention beside", "caption", Lazy("chainrule.features.vision.attend:attend_picture")),
    ("classify.inspect", "picture", Lazy("chainrule.features.vision.inspect:inspect_pictures")),
)

OURS = Plugin(KINDS, VERBS, OPENERS, WRITERS, ROWS)
