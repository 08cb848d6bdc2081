"""The families of models that need a source: no language models by themselves."""

from __future__ import annotations

from chainrule.errors import ModelFormatError, SettingError
from chainrule.families.family import Family, refuse
from chainrule.neural.config.caption import CaptionConfig
from chainrule.neural.config.conditional import ConditionalConfig

# A language model only once it is given a source: chainrule.api.conditional.pair_model trains, saves and opens it.
CONDITIONAL = Family(
    ConditionalConfig,
    token_bytes=0,
    train=refuse(
        SettingError,
        "a conditional model learns from pairs: chainrule train translation, or chainrule.train_pairs",
    ),
    take_apart=refuse(
        SettingError, "a conditional model is not saved together with its source; save the model of pairs itself"
    ),
    put_together=refuse(
        ModelFormatError,
        "is a model of pairs and needs a source: chainrule translate, or chainrule.load(path).write",
    ),
    trains_in_steps=True,
)
# The same, once it is given a picture: chainrule.api.conditional.caption_model.
CAPTION = Family(
    CaptionConfig,
    token_bytes=0,
    train=refuse(
        SettingError, "a captioner learns from pictures: chainrule train caption, or chainrule.train_captions"
    ),
    take_apart=refuse(
        SettingError, "a captioner is not saved together with its picture; save the caption model itself"
    ),
    put_together=refuse(
        ModelFormatError,
        "is a model of captions, not of texts: it needs pictures (chainrule caption, or chainrule.load(path).caption)",
    ),
    trains_in_steps=True,
)
