"""What a round may be asked for."""

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Work


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cohort": 3}, "cohort must list the numbers of clients, not 3"),
        ({"cohort": []}, "cohort is empty"),
        ({"cohort": [1, 1]}, "cohort names a client twice"),
        ({"client": [{}]}, "1 client configs for a cohort of 2"),
        ({"starts": 3}, "starts must list the moments at which members start, not 3"),
        ({"starts": np.True_}, "starts must list the moments"),
        ({"starts": ("now", "then")}, "starts must list the moments"),
        ({"starts": (1.0,)}, "1 starts for a cohort of 2"),
        ({"minimum": 3}, r"minimum must lie in 1\.\.2"),
        ({"scores": ("during",)}, "unknown score 'during'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        Work(**{"trial": 0, "cohort": [1, 2], "client": {}, **wrong})
