"""Tables: recorded learning curves of many configs, client by client, to be replayed in seconds."""

from fedhpo.research.tables.build import build_table
from fedhpo.research.tables.curve_table import CurveTable
from fedhpo.research.tables.grid import score_rounds, table_configs
from fedhpo.research.tables.shipped import load_table, shipped_tables

__all__ = ["CurveTable", "build_table", "load_table", "score_rounds", "shipped_tables", "table_configs"]
