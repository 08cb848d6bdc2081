"""All our rows, as a plug-in like those of others."""

from __future__ import annotations

from chainrule.kinds import Lazy, Plugin
from chainrule.registry.models import KINDS, OPENERS, WRITERS
from chainrule.registry.verbs import VERBS

_TREES = "chainrule.features.trees"
_VISION = "chainrule.features.vision"
_OPENED = "chainrule.features.open.network.config"

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
    ("train", "teacher", Lazy("chainrule.features.distillation.teachers:Teachers")),
    ("adapt", "preferred", Lazy("chainrule.features.preferences.train:train_on_preferences")),
    ("adapt shell", "preferred", Lazy("chainrule.features.preferences.shell:adapt_to_preferences")),
    ("attention", "conditional", Lazy("chainrule.features.seq2seq.attend:attend_pair")),
    ("attention", "caption", Lazy("chainrule.features.vision.attend:attend_caption")),
    ("attention", "speech", Lazy("chainrule.features.speech.draw_alignment:attend_sound")),
    ("attention", "tree", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention", "classifier", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention beside", "caption", Lazy("chainrule.features.vision.attend:attend_picture")),
    ("score", "table", Lazy("chainrule.features.reading.surprisal:surprisal")),
    ("next", "several", Lazy("chainrule.features.side_by_side.next_tokens:next_tokens")),
    ("context", "limit", Lazy("chainrule.features.context.limited:limit")),
    ("context", "dynamic", Lazy("chainrule.features.dynamic.family:dynamic")),
    ("mix", "learning", Lazy("chainrule.features.dynamic.shell:MIX")),
    ("mix", "neighbours", Lazy("chainrule.features.neighbours.shell:MIX")),
    ("next shell", "passages", Lazy("chainrule.features.neighbours.shell:NEXT")),
    ("beam tree", ".html", Lazy("chainrule.features.inspect.beam_tree:tree_page")),
    ("beam tree", ".json", Lazy("chainrule.features.inspect.beam_tree:tree_json")),
    ("beam tree", ".svg", Lazy("chainrule.features.inspect.beam_tree:tree_svg")),
    ("beam tree", "greedy", Lazy("chainrule.features.inspect.beam_tree:compare_with_greedy")),
    ("classify.inspect", "picture", Lazy("chainrule.features.vision.inspect:inspect_pictures")),
    ("classify.inputs", "tree", Lazy(f"{_TREES}.inputs:TREE")),
    ("classify.inputs", "graph", Lazy(f"{_TREES}.inputs:GRAPH")),
    ("classify.inputs", "picture", Lazy(f"{_VISION}.labels.inputs:PICTURE")),
    ("classify.sides", "tree", Lazy(f"{_TREES}.inputs:SIDE")),
    ("classify.units", "box", Lazy(f"{_VISION}.labels.units:BOX")),
    ("classify.units", "pixel", Lazy(f"{_VISION}.labels.units:PIXEL")),
    ("classify.boxes", "detect", Lazy(f"{_VISION}.labels.boxes:detect")),
    ("classify.boxes", "assess", Lazy(f"{_VISION}.labels.boxes:assess_boxes")),
    ("classify.networks", "tree", Lazy(f"{_TREES}.config:TreeLabelling")),
    ("classify.networks", "graph", Lazy(f"{_TREES}.config:GraphLabelling")),
    ("classify.networks", "lenet", Lazy(f"{_VISION}.network.config:LeNetLabelling")),
    ("classify.networks", "grid", Lazy(f"{_VISION}.network.config:GridLabelling")),
    ("classify.networks", "alexnet", Lazy(f"{_VISION}.network.config:AlexNetLabelling")),
    ("classify.networks", "vgg", Lazy(f"{_VISION}.network.config:VGGLabelling")),
    ("classify.networks", "googlenet", Lazy(f"{_VISION}.network.config:GoogLeNetLabelling")),
    ("classify.networks", "resnet", Lazy(f"{_VISION}.network.config:ResNetLabelling")),
    ("classify.networks", "vit", Lazy(f"{_VISION}.network.config:ViTLabelling")),
    ("classify.networks", "efficientnet", Lazy(f"{_VISION}.network.config:EfficientNetLabelling")),
    ("configs", "transformer", Lazy(f"{_OPENED}:OpenTransformerConfig")),
    ("configs", "masked", Lazy(f"{_OPENED}:OpenMaskedConfig")),
    ("configs", "text-encoder", Lazy(f"{_OPENED}:OpenTextEncoderConfig")),
    ("other names", "answer", Lazy("chainrule.features.other_names.answer:answer")),
    ("other names", "value", Lazy("chainrule.features.other_names.answer:called_here")),
    ("judging", "pairs", Lazy("chainrule.features.judging.minimal_pairs:judge_pairs")),
    ("judging", "suites", Lazy("chainrule.features.judging.suites:judge_suites")),
    ("judging shell", "pairs", Lazy("chainrule.features.judging.shell:show_pairs")),
    ("judging shell", "suites", Lazy("chainrule.features.judging.shell:show_suites")),
    ("servers", "client", Lazy("chainrule.features.chat.client:Client")),
    ("draw several", "learning", Lazy("chainrule.features.compare.learning:draw_learning")),
    ("draw several", "sizes", Lazy("chainrule.verbs.draw:draw_sizes")),
    ("sources", "hf", Lazy("chainrule.features.hub.source:fetch")),
    ("embed", "classifier", Lazy("chainrule.features.classify.shell:embed_inputs")),
    ("embed", "speech", Lazy("chainrule.features.speech.acoustic.shell_embed:embed_sounds")),
)

OURS = Plugin(KINDS, VERBS, OPENERS, WRITERS, ROWS)
