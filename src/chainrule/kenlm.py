"""KenLM's Python module, with our models: `chainrule.features.kenlm.stand_in` under its public name."""

import sys
from typing import TYPE_CHECKING

from chainrule.features.kenlm import stand_in

if TYPE_CHECKING:
    from chainrule.features.kenlm.stand_in import *

sys.modules[__name__] = stand_in
