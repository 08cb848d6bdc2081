"""The attention of a seq2seq model while it reads a source and writes a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.drawing.attention import AttentionMaps
from chainrule.errors import SettingError
from chainrule.models.attending import titled

if TYPE_CHECKING:
    from chainrule.features.seq2seq.model import Seq2SeqModel


def attend_pair(model: Seq2SeqModel, source: str, target: str | None) -> AttentionMaps:
    """Return the maps of both sides and between them. target: by default what the model writes. Raises SettingError."""
    from chainrule.features.seq2seq.network.inspection import maps_of_pair

    if target is None:
        written = model.write([source], progress=False)[0]
        if not written:
            raise SettingError("the source is empty; give a text with a token in it at least")
        target = written[0].text
    ids, target_ids = model.sources([source])[0], model.target.encode_texts([target]).ids[:-1]
    shown = model.target.shown(target_ids.tolist())
    read, reads, writes = [*model.source.shown(ids.tolist()), "</s>"], ["<s>", *shown], [*shown, "</s>"]
    sides = {"source": (read, read), "target": (writes, reads), "target on source": (writes, read)}
    return AttentionMaps(f"{source} → {target}", titled(maps_of_pair(model.model, ids, target_ids), sides))
