"""Some clients of a data set; what the others hold to validate and test on is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.data.container import Split


def only(data: FederatedData, own: Sequence[int]) -> FederatedData:
    """These clients; what the others hold to validate and test on goes to one more client."""
    from fedhpo.data.container import Split

    others = sorted(set(range(data.clients)) - set(own))

    def kept(split: Split, rest: bool) -> Split:
        rows = [split.rows(client) for client in others] if rest else []
        last = np.concatenate([np.empty(0, np.int64), *rows])
        return Split.from_lists([*(split.rows(client) for client in own), last])

    return replace(
        data,
        train=kept(data.train, rest=False),
        validation=kept(data.validation, rest=True),
        test=kept(data.test, rest=True),
        client_names=None,
    ).validate()
