"""The sampling of conversations."""

from __future__ import annotations

from chainrule.decoding.config import SamplingConfig

CHAT_SAMPLING = SamplingConfig(temperature=0.7, top_p=0.9)
