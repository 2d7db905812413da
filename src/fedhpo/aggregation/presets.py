"""Aggregations by name, chosen from what `benchmarks/hostile.py` measured: see docs/robust.md."""

from __future__ import annotations

from collections.abc import Mapping

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.sizes import WEIGHT_CAP

#: Withstands a quarter of hostile clients: the default over Flower.
SAFE = Aggregation(rule="agreement_filter", trim=0.25, weight_cap=WEIGHT_CAP)
#: Withstands two fifths of crude attackers.
STRICT = Aggregation(rule="agreement_filter", trim=0.4, weight_cap=WEIGHT_CAP)

PRESETS: Mapping[str, Aggregation] = {"safe": SAFE, "strict": STRICT}
