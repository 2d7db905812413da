"""Tables: recorded learning curves of many configs, client by client, to be replayed in seconds."""

from fedhpo.research.tables.build import build_table
from fedhpo.research.tables.curve_table import CurveTable
from fedhpo.research.tables.grid import score_rounds, table_configs
from fedhpo.research.tables.shipped import load_table, shipped_tables
from fedhpo.research.tables.surrogate import Surrogate, cross_validate
from fedhpo.research.tables.surrogate_federation import SurrogateFederation

__all__ = [
    "CurveTable",
    "Surrogate",
    "SurrogateFederation",
    "build_table",
    "cross_validate",
    "load_table",
    "score_rounds",
    "shipped_tables",
    "table_configs",
]
