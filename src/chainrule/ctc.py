"""pyctcdecode, with any language model: `chainrule.features.speech.stand_in` under its public name."""

import sys
from typing import TYPE_CHECKING

from chainrule.features.speech import stand_in

if TYPE_CHECKING:
    from chainrule.features.speech.stand_in import *

sys.modules[__name__] = stand_in
