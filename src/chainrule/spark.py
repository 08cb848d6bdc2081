"""N-gram models on a Spark cluster: `chainrule.features.spark` under its public name."""

import sys
from typing import TYPE_CHECKING

from chainrule.features import spark

if TYPE_CHECKING:
    from chainrule.features.spark import *

sys.modules[__name__] = spark
