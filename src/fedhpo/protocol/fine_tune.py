"""The query behind personalised scores: fine-tune the trial's model at each client and score it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedhpo.core.settings import check_settings
from fedhpo.protocol.federation import SplitName


@dataclass(frozen=True)
class FineTune:
    """Train a copy of the trial's model on the client's training data, with these hyperparameters.

    An answer's content holds `loss_before`, `loss_after`, `accuracy_before`, `accuracy_after` on the
    client's rows of `split`, and their number `size`. Nothing else comes back: no weights.
    """

    trial: int
    client: Mapping[str, Any]
    split: SplitName = "test"

    name: ClassVar[str] = "fine_tune"

    def __post_init__(self) -> None:
        check_settings(self)

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the clients."""
        return {"trial": self.trial, "client": dict(self.client), "split": self.split}
