"""N-gram models on a Spark cluster: `chainrule.features.spark.api` under its public name."""

import sys
from typing import TYPE_CHECKING

from chainrule.features.spark import api

if TYPE_CHECKING:
    from chainrule.features.spark.api import *

sys.modules[__name__] = api
