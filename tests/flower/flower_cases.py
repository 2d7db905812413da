"""Small federations over Flower, in process."""

from dataclasses import replace

from flwr.clientapp import ClientApp

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.data import Split
from fedhpo.flower import FlowerFederation, InProcessGrid, client
from fedhpo.study import Study
from fedhpo.testing.parties import party_data
from fedhpo.testing.parties import uneven_data as small_data


def four_parties():
    """Four parties with two classes of points in the plane."""
    return party_data(parties=4, count=60)


SMALL = Study.from_dict(
    {
        "data": {"name": "flower_cases:small_data"},
        "model": {"name": "mlp"},
        "server": {"aggregation": "mean"},  # as in a simulation; over Flower the default is another
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
        "budget": {"rounds": 3, "total": 9, "cohort": 3},
    }
)


def only(data, place):
    """One client's rows, as it would hold them itself."""

    def own(split):
        return Split.from_lists([split.rows(place)])

    return replace(data, train=own(data.train), validation=own(data.validation), test=own(data.test))


def own_rows(context):
    """What a client's own data function returns."""
    return only(small_data(), context.node_config["partition-id"])


def small_app(study=SMALL, **options):
    return client(ClientApp(), study=study, **options)


def small_federation(app=None, model="mlp", grid=InProcessGrid, **options):
    """Eight clients behind a grid in process."""
    options = {"clients": 8, "repeatable": True, "aggregation": Aggregation()} | options
    return FlowerFederation(grid(app or small_app(), 8), model, **options)


class Clock:
    """Time that passes only while somebody rests."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class SilentGrid(InProcessGrid):
    """Clients say hello, and nothing after that."""

    def pull_messages(self, message_ids):
        asked = set(message_ids)
        return super().pull_messages(
            key
            for key in asked
            if key in self._waiting and self._waiting[key].metadata.message_type != "train"
        )
