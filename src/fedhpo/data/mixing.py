"""Validation data made more alike: the heterogeneity knob p of the noisy-evaluation paper.

Paper: "On noisy evaluation in federated hyperparameter tuning" (Kuo et al., 2023), section 3.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data.container import FederatedData, Split
from fedhpo.data.split import half_up


def mix_validation(data: FederatedData, p: float, rng: np.random.Generator) -> FederatedData:
    """Replace a share `p` of each client's validation rows by draws from everybody's.

    Each client of n validation rows keeps its size; p x n of its rows (nearest whole number, halves up),
    chosen at random, are replaced by rows of the pool of all validation rows, drawn with replacement, each
    equally likely. p = 0 changes nothing; p = 1 makes all validation clients alike. Training and test
    rows stay.
    """
    if not 0 <= p <= 1:
        raise InputError(f"p={p!r}; allowed: a share from 0 (as it is) to 1 (all alike)")
    if p == 0:
        return data
    rows = data.validation.shuffled(rng)
    replaced = rows.places < half_up(p * rows.sizes)[rows.owners]
    drawn = rng.choice(rows.indices, size=len(rows.indices))
    return replace(data, validation=Split(np.where(replaced, drawn, rows.indices), rows.offsets))
