"""Methods side by side, over several seeds: on a table in seconds, or live."""

from fedhpo.research.compare.comparison import Comparison
from fedhpo.research.compare.live import compare_live
from fedhpo.research.compare.on_table import compare_on_table

__all__ = ["Comparison", "compare_live", "compare_on_table"]
