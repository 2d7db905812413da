"""How long clients train alone, in methods that let each of them search by itself."""

from __future__ import annotations

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Federation


def check_local_rounds(local_rounds: int | None, federation: Federation) -> None:
    """Refuse a number of local rounds where clients train learners, which have none."""
    if local_rounds is not None and federation.scoring is not None:
        raise InputError(
            f"local_rounds = {local_rounds} has no effect with learners, which are trained whole: leave it "
            "out; a model that trains in rounds, such as 'mlp', would go by it"
        )
