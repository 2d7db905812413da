"""A local search as a client reads it is the one that was asked for."""

import json

import pytest

from fedhpo import samplers
from fedhpo.core.errors import FedhpoError
from fedhpo.parties.queries import local_search_of
from fedhpo.queries.local_search import LocalSearch
from fedhpo.space import Float, Space

SPACE = Space(client={"lr": Float(0, 1)})


@pytest.mark.parametrize(
    "sampler",
    [
        samplers.TPE(),
        samplers.TPE(gamma=0.2, multivariate=True),
        samplers.Random(),
        samplers.GP(acquisition="noisy-ei", startup=7),
    ],
)
def test_it_travels_as_json(sampler):
    asked = LocalSearch(SPACE, configs=5, sampler=sampler, deadline=3.0)
    assert local_search_of(json.loads(json.dumps(asked.to_dict()))) == asked


def test_settings_that_are_objects_are_told_but_not_read():
    """Recorded runs need JSON of any sampler; clients make only those that they know."""

    class Own(samplers.Random):
        pass

    for sampler, name in ((Own(), "Own"), (samplers.OptunaSampler("TPESampler"), "OptunaSampler")):
        sent = json.loads(json.dumps(LocalSearch(SPACE, sampler=sampler).to_dict()))
        assert sent["sampler"]["name"] == name
        with pytest.raises(FedhpoError, match=rf"{name}.*TPE"):
            local_search_of(sent)
