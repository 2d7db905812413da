"""The data sets, models, spaces and budgets of FedPop's experiments, at every scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.space import Choice, Float, Int, Ordinal, Space

if TYPE_CHECKING:
    from fedhpo.data import FederatedData

#: gamma = 1 - 10^U(-4, -2).
DECAY = Float(0.99, 0.9999, log=True, complement=True)
OPTIMISERS = ("fedavgm", "fedadam", "fedyogi")
#: A set once more with few training rows at each client, at the scales that are not the paper's.
FULL, THIN, THIN_ROWS = "cifar-dir1", "cifar-dir1-thin", 24
#: Where FedPop is also judged by fresh evaluations.
JUDGED = (FULL, THIN, "femnist-niid", "shakespeare-niid")


@dataclass(frozen=True)
class Setting:
    """A data set as it is run.

    `rows` caps a client's training rows, and half of it its validation rows; test data is used whole.
    `trials` are those under halving. With `components` rows are that many principal components of the
    training rows, each with a variance of at most 1.
    """

    data: str
    options: Mapping[str, Any]
    model: str
    rounds: int
    total: int
    rows: int | None = None
    cohort: int = 10
    trials: int = 27
    epochs: int = 5
    dropout: bool = True
    shape: Mapping[str, Any] = field(default_factory=dict)
    components: int | None = None

    @property
    def population(self) -> int:
        """Trials of full length."""
        return self.total // self.rounds

    @property
    def passes(self) -> int:
        """Centralised rounds, each over all data, that see as many rows as the clients' rounds do."""
        return max(1, self.rounds * self.cohort // int(self.options["clients"]))

    @property
    def words(self) -> str:
        """What is run, for the page."""
        shape = "".join(f", {name} {value}" for name, value in self.shape.items())
        rows = "all training rows" if self.rows is None else f"at most {self.rows} training rows a client"
        rounds = f"{self.rounds} rounds, {self.total} in all"
        inputs = "" if self.components is None else f", {self.components} components"
        return f"{self.model}{shape}{inputs}, {rounds}, {self.cohort} clients a round, {rows}"

    def load(self) -> FederatedData:
        """The data, with clients thinned out."""
        from fedhpo.data import load

        data = load(self.data, **self.options)
        if self.components is not None:
            data = _reduced(data, self.components)
        if self.rows is None:
            return data
        rng = stream(0, "rows")
        splits = {
            name: (split := getattr(data, name).shuffled(rng)).where(split.places < most)
            for name, most in (("train", self.rows), ("validation", max(2, self.rows // 2)))
        }
        return replace(data, **splits).validate()

    def space(self, optimiser: str = "fedavgm") -> Space:
        """Three server and seven client hyperparameters (six where the model has no dropout)."""
        client: dict[str, Any] = {
            "lr": Float(1e-4, 1.0, log=True),
            "lr_decay": DECAY,
            "momentum": Float(0.0, 0.99),
            "weight_decay": Float(1e-5, 1e-1, log=True),
            "epochs": Int(1, self.epochs) if self.epochs > 1 else 1,
            "batch_size": Ordinal([8, 16, 32, 64, 128]),
        }
        if self.dropout:
            client["dropout"] = Float(0.0, 0.5)
        server: dict[str, Any] = {
            "lr": Float(0.1, 10.0, log=True),
            "momentum": Choice([0.0, 0.9]),
            "lr_decay": DECAY,
        }
        if optimiser != "fedavgm":  # their steps do not shrink with the gradient, hence smaller rates
            server = {"lr": Float(1e-3, 1.0, log=True), "beta1": Float(0.0, 0.9), "lr_decay": DECAY}
        return Space(client=client, server=server, model=dict(self.shape))


def _reduced(data: FederatedData, components: int) -> FederatedData:
    """The data's rows as principal components, found on the training rows; the first has variance 1."""
    rows = np.asarray(data.x, dtype=np.float64).reshape(len(data.x), -1)
    known = rows[data.train.indices]
    middle = known.mean(axis=0)
    sizes, axes = np.linalg.eigh(np.cov((known - middle).T))
    axes = axes[:, ::-1][:, :components]
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)  # signs are arbitrary: fix them
    reduced = ((rows - middle) @ axes / math.sqrt(sizes[-1])).astype(np.float32)
    return replace(data, x=reduced, mean=None, std=None).validate()


def _dirichlet(alpha: float) -> dict[str, Any]:
    return {"kind": "dirichlet", "alpha": alpha}


def _all(
    cifar: Setting, femnist: Setting, shakespeare: Setting, pacs: Setting, curve_rows: int | None = None
) -> dict[str, Setting]:
    """The sets by name, from one of each kind that is dealt iid; Figure 5's clients hold so many rows."""

    def dealt(setting: Setting, **options: Any) -> Setting:
        return replace(setting, options={**setting.options, **options})

    return {
        "cifar-iid": cifar,
        "cifar-dir1": dealt(cifar, partition=_dirichlet(1.0)),
        "cifar-dir0.5": dealt(cifar, partition=_dirichlet(0.5)),
        "femnist-iid": dealt(femnist, partition={"kind": "iid"}),
        "femnist-niid": femnist,
        "shakespeare-iid": dealt(shakespeare, partition={"kind": "iid"}),
        "shakespeare-niid": shakespeare,
        "pacs": pacs,
        "figure5": replace(
            dealt(cifar, clients=min(100, cifar.options["clients"]), partition=_dirichlet(1.0)),
            rows=curve_rows,
        ),
    }


def _and_thin(sets: dict[str, Setting], rows: int) -> dict[str, Setting]:
    return {**sets, THIN: replace(sets[FULL], rows=rows)}


_PAPER = _all(
    Setting("cifar10", {"clients": 500}, "cnn_cifar", 800, 4000),
    Setting("femnist", {}, "cnn_femnist", 200, 2000),
    Setting("shakespeare", {"stride": 20}, "lstm", 800, 4000, epochs=1, dropout=False),
    Setting("pacs", {}, "resnet18_gn", 200, 1000, cohort=4, dropout=False),
)
#: Sized so that all of it takes about three and a half hours of two cores.
_SMALL = {"width": 8, "hidden": 64}
_CNN = _all(
    Setting("cifar10", {"clients": 500}, "cnn_small", 30, 150, shape=_SMALL),
    Setting("femnist", {}, "cnn_small", 25, 250, rows=80, shape=_SMALL),
    Setting(
        "shakespeare",
        {"clients": 300},
        "lstm",
        200,
        1000,
        rows=40,
        epochs=1,
        dropout=False,
        shape={"hidden": 64, "layers": 1},
    ),
    Setting(
        "pacs",
        {},
        "resnet18_gn",
        30,
        150,
        rows=50,
        cohort=4,
        dropout=False,
        shape={"width": 8, "groups": 4},
    ),
    curve_rows=160,
)
_TINY = Setting("digits", {"clients": 8}, "mlp", 4, 16, rows=20, cohort=3, trials=3, epochs=2)
_SMOKE = _all(_TINY, _TINY, replace(_TINY, epochs=1), replace(_TINY, cohort=4, dropout=False), 40)

SETS: Mapping[str, Mapping[str, Setting]] = {
    "paper": _PAPER,
    "cnn": _and_thin(_CNN, THIN_ROWS),
    "smoke": _and_thin(_SMOKE, 6),
}
#: Of FedPop's own settings all are the paper's; seeds are paired over methods.
SEEDS: Mapping[str, int] = {"paper": 5, "cnn": 3, "smoke": 2}
