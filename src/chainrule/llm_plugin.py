"""The plugin for llm: `chainrule.features.serve.llm_plugin` under its public name."""

import sys
from typing import TYPE_CHECKING

from chainrule.features.serve import llm_plugin

if TYPE_CHECKING:
    from chainrule.features.serve.llm_plugin import *

sys.modules[__name__] = llm_plugin
