"""Nakka et al. (2023), Federated hyperparameter optimization through reward-based strategies: challenges and
insights.

The default scale has small models and many worlds: see `fedhpo_papers.fedex_critique.many`. The others,
"cnn" with a few seeds, "paper" and "smoke", are the paper's own experiments:

CIFAR-10 dealt iid to B = 4 and B = 30 clients, all of which train in every round; 27 arms from the paper's
space; FedEx alone under every step rule and discount. Ground truth is each arm trained alone; arms and
truth are the same for all seeds. Every cell is a run in a directory of its own, so that a long one can be
stopped in its middle.

What the paper leaves out is settled so: SGD with batches of 32 (16 where the data is cut) and one epoch a
round, momentum below 0.99 (the paper's range ends at 1, where SGD never stops), 80/10/10 inside a client.
Where the data is cut, the validation and test rows of what is left out score the models that come out,
which makes truth and accuracy less noisy; in a round clients score on their own rows only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.core.streams import stream
from fedhpo.methods.fedex.ground_truth import FILE, GroundTruth
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.ranking import kendall_tau, over_rounds
from fedhpo.space import Float, Space
from fedhpo_papers.fedex_critique.only import only
from fedhpo_papers.fedex_critique.settings import CANDIDATES, PLAIN, PRETRAIN, REMEDIES
from fedhpo_papers.shared.planned import Key, Planned, Row, journal_of, planned_pages, run_planned
from fedhpo_papers.shared.runs import OneAtATime, check_asked, facts_of, kept
from fedhpo_papers.shared.train_alone import train_alone

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.protocol.federation import Federation

#: The parts of the experiment; "develop" is where `FedEx.auto()` was chosen, on arms and seeds of its own.
PARTS = ("plain", "pretrain", "remedies", "develop")
#: What is run unless `only` says otherwise.
USUAL = ("plain", "pretrain", "remedies")
SETTINGS = {"plain": PLAIN, "pretrain": PRETRAIN, "remedies": REMEDIES, "develop": CANDIDATES}


@dataclass(frozen=True)
class Scale:
    """How large: `cut` is one over the share of the data that is trained on."""

    data: str
    model: str
    cut: int
    rounds: int
    seeds: int
    batch_size: int
    clients: tuple[int, ...] = (4, 30)
    arms: int = 27
    shape: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What was run, for the page."""
        shape = "".join(f", {name} {value}" for name, value in self.shape.items())
        return (
            f"{self.data}, 1/{self.cut} of it trained on, {self.model}{shape}, {self.rounds} rounds, "
            f"{self.arms} arms, B = {' and '.join(map(str, self.clients))}, {self.seeds} seeds, "
            f"batches of {self.batch_size}"
        )


SIZES: Mapping[str, Scale] = {
    # Sized so that it takes about an hour of two cores, "develop" another half.
    "cnn": Scale("cifar10", "cnn_small", 10, 40, 5, 16, shape={"width": 8, "hidden": 64}),
    "paper": Scale("cifar10", "cnn_cifar", 1, 200, 5, 32),
    "smoke": Scale("digits", "mlp", 4, 4, 2, 16, clients=(3, 6), arms=5),
}
SCALES = ("default", *SIZES)


@dataclass(frozen=True)
class Cell:
    """One run: FedEx alone with one setting, number of clients and seed."""

    part: str
    clients: int
    setting: str
    seed: int

    @property
    def key(self) -> Key:
        """The cell in a journal."""
        return self.seed, self.part, self.clients, self.setting

    @classmethod
    def of(cls, row: Row) -> Cell:
        """The cell of a row."""
        return cls(row["part"], row["clients"], row["setting"], row["seed"])

    @property
    def name(self) -> str:
        """The run's directory.

        >>> Cell("plain", 4, "adaptive gamma 0.5", 0).name
        'plain-B4-adaptive-gamma-0.5-seed0'
        """
        words = self.setting.replace(",", "").replace(" ", "-")
        return f"{self.part}-B{self.clients}-{words}-seed{self.seed}"


def cells(scale: Scale, parts: Sequence[str]) -> list[Cell]:
    """All runs of these parts; the seeds of "develop" are others, and fewer, as it has many settings."""
    seeds = {"develop": range(1000, 1000 + min(3, scale.seeds))}
    return [
        Cell(part, clients, setting, seed)
        for part in parts
        for clients in scale.clients
        for setting in SETTINGS[part]
        for seed in seeds.get(part, range(scale.seeds))
    ]


def space(scale: Scale) -> Space:
    """The paper's four hyperparameters."""
    return Space(
        client={
            "lr": Float(1e-4, 1e-1, log=True),
            "momentum": Float(0.0, 0.99),
            "weight_decay": Float(1e-5, 1e-1, log=True),
            "dropout": Float(0.0, 0.5),
            "batch_size": scale.batch_size,
            "epochs": 1,
        },
        server={"lr": 1.0},
        model=dict(scale.shape),
    )


def arms(scale: Scale, part: str) -> LearnedPolicy:
    """The arms that all seeds share, uniformly weighted; "develop" has its own."""
    rng = stream(1 if part == "develop" else 0, "arms")
    return LearnedPolicy.uniform([space(scale).sample(rng).client for _ in range(scale.arms)])


def cut(data: FederatedData, clients: int) -> FederatedData:
    """The first `clients` clients; what the others hold to validate and test on goes to one more client."""
    return data if clients == data.clients else only(data, range(clients))


def federation(scale: Scale, clients: int, workers: int | None) -> Federation:
    """The first so many clients of the data as it was cut."""
    from fedhpo.data import load
    from fedhpo.federations.simulate import simulate

    data = cut(load(scale.data, clients=clients * scale.cut), clients)
    return simulate(scale.model, data, workers=workers)


def page(scale: str, out: Path) -> dict[str, Any]:
    """Judge what is kept in `out` again, and write page and figures anew; nothing is run."""
    from fedhpo_papers.fedex_critique.many import CritiquePlan
    from fedhpo_papers.fedex_critique.page import write, write_many

    found = kept("fedex-critique", scale, SCALES, out)
    if scale == "default":
        return write_many(CritiquePlan.load(), found["rows"], out)
    return write(found, SIZES[scale], out)


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/fedex-critique",
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run, judge the claims, and write page and figures into `out`."""
    from fedhpo_papers.fedex_critique.page import write

    check_asked(scale, SCALES, only, PARTS)
    if scale == "default":
        return _many(Path(runs), None if out is None else Path(out), only, say)
    size, folder = SIZES[scale], Path(runs) / scale
    about = {"size": asdict(size)}
    parts = _parts(size, about, journal_of(Path(runs), scale), only)
    todo = {cell.key: cell for cell in sorted(cells(size, parts), key=lambda cell: cell.clients)}
    with OneAtATime[int](lambda clients: federation(size, clients, workers)) as federations:

        def truth_of(part: str, clients: int) -> GroundTruth:
            own = "develop" if part == "develop" else "plain"
            return _truth(size, own, clients, folder, federations, say)

        def run_cells(path: Path, earlier: Sequence[Row]) -> Sequence[Row]:
            def run(key: Key) -> Row:
                cell = todo[key]
                truth = truth_of(cell.part, cell.clients)
                facts = facts_of(folder / cell.name, lambda: _tune(size, cell, truth, folder, federations))
                return measured(cell, facts, truth)

            return run_planned(list(todo), about, path, run, say, earlier, lambda row: Cell.of(row).key)

        def write_rows(rows: Sequence[Row]) -> dict[str, Any]:
            known = dict.fromkeys(
                ("develop" if row["part"] == "develop" else "plain", row["clients"]) for row in rows
            )
            truths = [
                {"arms": own, "clients": clients, "values": list(truth_of(own, clients).values)}
                for own, clients in known
            ]
            found = {"scale": scale, **about, "setup": size.words, "rows": list(rows), "truth": truths}
            return write(found, size, None if out is None else Path(out))

        what = Planned("fedex-critique", about, run_cells, write_rows, scale, parts=True)
        return planned_pages(what, Path(runs), out, only, say)


def _parts(scale: Scale, about: Mapping[str, Any], journal: Path, only: Sequence[str]) -> list[str]:
    """The parts that are asked for, and those that are done: the page always shows all that is there."""
    done = {Cell.of(row).key for row in Journal(journal, about)} if journal.is_file() else set()
    return [
        part
        for part in PARTS
        if part in (only or USUAL) or all(cell.key in done for cell in cells(scale, [part]))
    ]


def _many(runs: Path, out: Path | None, only: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Small models and many worlds."""
    from fedhpo_papers.fedex_critique.many import CritiquePlan, about, run_worlds
    from fedhpo_papers.fedex_critique.page import write_many

    plan = CritiquePlan.load()
    return planned_pages(
        Planned(
            "fedex-critique",
            about(plan),
            lambda path, earlier: run_worlds(plan, path, say, earlier),
            lambda rows: write_many(plan, rows, out),
        ),
        runs,
        out,
        only,
        say,
    )


def _truth(
    scale: Scale,
    own: str,
    clients: int,
    folder: Path,
    federations: OneAtATime[int],
    say: Callable[[str], None],
) -> GroundTruth:
    """Each arm trained alone; kept beside the runs."""
    path = folder / f"truth-{own}-B{clients}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        say(f"ground truth: {scale.arms} arms alone at {clients} clients")
        truth = train_alone(
            federations[clients],
            space(scale),
            arms(scale, own).arms,
            rounds=scale.rounds,
            cohort=clients,
            run=folder / f"truth-{own}-B{clients}",
        )
        truth.save(path)
    return GroundTruth.load(path)


def _tune(
    scale: Scale, cell: Cell, truth: GroundTruth, folder: Path, federations: OneAtATime[int]
) -> Mapping[str, Any]:
    """FedEx alone, one trial of full length."""
    from fedhpo.methods import Tuner
    from fedhpo.schedules import FixedLength
    from fedhpo.tuning.tune import tune

    policy = FedExPolicy(start=arms(scale, cell.part), **_fitting(scale, cell))
    result = tune(
        federations[cell.clients],
        space(scale),
        Tuner(FixedLength(1), policy=policy),
        rounds=scale.rounds,
        total=scale.rounds + policy.rounds_before,
        cohort=cell.clients,
        seed=cell.seed,
        run=folder / cell.name,
    )
    truth.save(folder / cell.name / FILE)
    return result.facts


def _fitting(scale: Scale, cell: Cell) -> dict[str, Any]:
    """The cell's setting; landmarks are fewer than arms also where these are few."""
    setting = dict(SETTINGS[cell.part][cell.setting])
    if "landmarks" in setting:
        setting["landmarks"] = min(setting["landmarks"], scale.arms // 2)
    return setting


def measured(cell: Cell, facts: Mapping[str, Any] | None, truth: GroundTruth) -> dict[str, Any]:
    """A row for the tables: accuracy, the ranking over the rounds, weights and use of the arms.

    Where training failed the model is worth nothing, and the policy is not known.
    """
    row: dict[str, Any] = {"part": cell.part, "clients": cell.clients, "setting": cell.setting}
    row |= {"seed": cell.seed, "failed": facts is None}
    if facts is None:
        nothing = {"accuracy": 0.0, "collapse": math.inf, "rounds_before": 0, "curves": None, "used": None}
        metrics = ("kendall", "spearman", "average_precision", "regret", "used_kendall")
        return row | nothing | dict.fromkeys(metrics, math.nan)
    [policy] = facts["policies"]
    logs = np.array([one["log_weights"] for one in policy["rounds"]])
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    largest = (raised / raised.sum(axis=1, keepdims=True)).max(axis=1)
    sure = np.flatnonzero(largest >= 0.99)
    used = np.bincount([arm for one in policy["rounds"] for arm in one["drawn"]], minlength=logs.shape[1])
    curves = {name: list(values) for name, values in over_rounds(logs.tolist(), truth.values).items()}
    return row | {
        "accuracy": float(facts["best"]["test"]["accuracy"]),
        "rounds_before": int(facts["cost"]["rounds_before"]),
        #: The first round after which one arm had 99% of the weight.
        "collapse": float(sure[0]) if len(sure) else math.inf,
        "used": used.tolist(),
        "used_kendall": kendall_tau(used, truth.values),
        **{name: values[-1] for name, values in curves.items()},
        "curves": {
            name: [round(value, 4) for value in values]
            for name, values in {"largest": largest.tolist(), **curves}.items()
        },
    }
