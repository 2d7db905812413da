"""Small federations of NVFlare clients: in this process, or the sites of a job."""

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.federations.nvflare.federation import NVFlareFederation
from fedhpo.federations.nvflare.transport import CollabTransport
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.nvflare import Client
from fedhpo.testing.parties import BAYES

#: `collab.clients`, inside a job.
SITES: list = []


SMALL = {
    "data": {"name": "fedhpo.testing.parties:uneven_data"},
    "model": {"name": "mlp"},
    "server": {"aggregation": "mean"},  # as in a simulation; over NVFlare the default is another
    "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
    "budget": {"rounds": 3, "total": 9, "cohort": 3},
    "nvflare": {"clients": 8},
}


DIGITS = {
    "seed": 1,
    "data": {"name": "digits", "clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "mlp"},
    # As in a simulation: over NVFlare a robust rule and a cap on weights are the default.
    "server": {"aggregation": "mean", "weight_cap": 100.0},
    "space": {
        "client": {
            "lr": {"low": 1e-3, "high": 1.0, "log": True},
            "batch_size": {"choices": [8, 16, 32]},
            "epochs": {"choices": [1, 2]},
        },
        "server": {"lr": {"low": 0.5, "high": 2.0, "log": True}},
    },
    "objective": {"metric": "loss"},
    "budget": {"rounds": 6, "total": 18, "cohort": 3},
    "nvflare": {"clients": 8},
}


def _learners(model, **client):
    """FLoRA over three parties whose rows are points in the plane."""
    return {
        "data": {"name": "fedhpo.testing.parties:party_data"},
        "model": model,
        "space": {"client": client},
        "method": {"name": "flora", "configs": 2, "folds": 2, "surface": "sgm", "diagnose": False},
        "budget": {"rounds": 1, "cohort": 3},
    }


_TREES = {
    "max_iter": {"low": 3, "high": 12},
    "learning_rate": {"low": 0.05, "high": 1.0, "log": True},
    "min_samples_leaf": 2,
}
#: Studies whose clients train something else than the small network.
STUDIES = {
    "digits": DIGITS,
    "bayes": _learners(
        {"name": "estimator", "path": BAYES}, var_smoothing={"low": 1e-9, "high": 1.0, "log": True}
    ),
    "mlp": _learners(
        {"name": "mlp_sklearn"},
        hidden_layer_sizes={"low": 2, "high": 8},
        learning_rate_init=0.05,
        max_iter=10,
    ),
    "bagging": _learners({"name": "xgboost", "training": "bagging", "trips": 2}, **_TREES),
    "cyclic": _learners({"name": "hgb", "training": "cyclic", "trips": 4}, **_TREES),
}


class LocalSite:
    """A client in this process behind what looks like a proxy of the Collab API."""

    def __init__(self, name, client):
        self.name, self.client = name, client

    def __call__(self, *, timeout):
        self.timeout = timeout
        return self

    def answer(self, kind, text, models):
        return self.client.reply(self.name, kind, text, models)


def local_sites(count=8, make=None):
    """So many sites, each with a client of its own."""
    make = make or (lambda: Client(SMALL))
    return [LocalSite(f"site-{i + 1}", make()) for i in range(count)]


def small_federation(sites, model="mlp", **options):
    """Eight clients, which do the same again when they are asked the same."""
    options = {"clients": 8, "repeatable": True, "aggregation": Aggregation()} | options
    return NVFlareFederation(sites, model, **options)


class Silent(CollabTransport):
    """Clients say hello, and nothing after that."""

    def push(self, messages):
        heard = super().push([message for message in messages if message.kind != "train"])
        return [f"lost {place}" if m.kind == "train" else heard.pop(0) for place, m in enumerate(messages)]


class SilentFederation(RemoteFederation):
    """As `small_federation`, but no client ever replies to `train`; time passes only while somebody rests."""

    def __init__(self, sites):
        transport, self.now = Silent(sites), 0.0

        def sleep(seconds):
            transport.wait(0.01)
            self.now += seconds

        super().__init__(
            transport,
            "mlp",
            clients=8,
            repeatable=True,
            aggregation=Aggregation(),
            clock=lambda: self.now,
            sleep=sleep,
        )
