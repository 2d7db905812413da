"""What a federation is: one value, which a wrapper hands on whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.data.columns import Preparation
    from fedhpo.data.encoding import Encoding


@dataclass(frozen=True)
class About:
    """Facts of a federation that stay as they are while it is open.

    >>> from fedhpo.testing import ToyFederation
    >>> about = ToyFederation(clients=4).about
    >>> len(about.train_clients), about.pool is None
    (4, True)
    """

    #: What it can do, out of the names of `fedhpo.protocol.federation`.
    capabilities: frozenset[str]
    #: Clients that can train, that hold validation data, that hold test data.
    train_clients: NDArray[np.int64]
    validation_clients: NDArray[np.int64]
    test_clients: NDArray[np.int64]
    #: What clients are called, where they have names of their own.
    client_names: Sequence[str] | None
    #: "classification", "regression" or "language", where that is known.
    task: str | None
    #: The learners' scorer; the loss in their scores is 1 minus it. None: the model's own loss.
    scoring: str | None
    #: Whether clients score by metrics of their own, which fedhpo knows only by name.
    own_metrics: bool
    #: Whether it simulates time: who is there, and when rounds end.
    timed: bool
    #: The only configs there are, where trials are replayed from a table.
    pool: Sequence[Config] | None
    #: How columns became features, and what encoded rows go through, where data came as columns.
    encoding: Encoding | None
    preparation: Preparation | None
    #: The share of the commonest class among validation rows, where labels are known here.
    majority: float | None
    #: What builds the model, where it is one of fedhpo's.
    zoo: dict[str, Any] | None
    #: Where it runs: "simulation", "flower", "nvflare" or "table"; empty where a study does not know it.
    place: str
    #: Whether a trial's model can be fine-tuned at clients.
    fine_tunes: bool
    #: By what clients that search on their own rows may score; None where any of their scorers goes.
    local_scorings: Sequence[str] | None
    #: What is tuned where a space names nothing.
    usual_space: Space | None
