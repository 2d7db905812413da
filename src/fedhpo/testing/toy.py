"""A federation for tests of methods and runs: deterministic, instant, numpy only."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol.federation import (
    AFTER,
    BEFORE,
    CLIENT_CONFIGS,
    FORK,
    MIX,
    PRODUCTS,
    QUERY,
    REPEATABLE,
    SCORES_IN_ROUND,
    Answer,
    Cost,
    Federation,
    Floats,
    Ints,
    Products,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.reasons import Reason, Why

_SPLITS = ("train", "validation", "test")


@dataclass
class _Trial:
    weights: Floats
    model: dict[str, Any]
    seed: int
    round: int = 0
    calls: int = 0
    previous: Floats | None = None


class ToyFederation(HoldsTable, Federation):
    """Clients that pull a few weights towards 1, the faster the nearer `lr` is to `best_lr`.

    A client's training moves the weights by the share `exp(-log10(lr / best_lr)^2) / 2` of the way
    (`server["lr"]` times that at the server); its loss is their mean square distance to go, plus
    noise; its accuracy is exp(-loss). Use it to test a method of your own: lower loss means that the
    method found a better `lr`, or trained for longer.

    A client is missing with probability `missing`, or fails with probability `failing`. With
    `repeatable=False` it trains a little differently each time, as real clients do. `seconds` is
    slept in each round. With `rates` clients need different rates, larger ones smaller ones: from
    `best_lr * 10^rates` (10 rows) down to `best_lr / 10^rates` (16 rows). `arrivals` seeds the order in
    which rounds that were submitted end; without it they end as submitted.

    >>> with ToyFederation(clients=4, noise=0.0) as toy:
    ...     toy.start(0, {}, seed=1)
    ...     report = toy.round([Work(0, [0, 1, 2, 3], {"lr": 0.1})])[0]
    >>> report.mean("loss_before"), report.mean("loss_after")
    (1.0, 0.25)
    """

    def __init__(
        self,
        clients: int = 20,
        *,
        seed: int = 0,
        best_lr: float = 0.1,
        noise: float = 0.05,
        parameters: int = 4,
        missing: float = 0.0,
        failing: float = 0.0,
        repeatable: bool = True,
        seconds: float = 0.0,
        rates: float = 0.0,
        arrivals: int | None = None,
    ) -> None:
        if clients < 1:
            raise InputError(f"clients must be at least 1, not {clients}")
        self.train_clients: Ints = np.arange(clients)
        self.validation_clients: Ints = np.arange(clients)
        self.test_clients: Ints = np.arange(clients)
        able = {CLIENT_CONFIGS, FORK, MIX, PRODUCTS, QUERY, SCORES_IN_ROUND}
        self.capabilities = frozenset(able | {REPEATABLE} if repeatable else able)
        self.seed, self.best_lr, self.noise, self.parameters = seed, best_lr, noise, parameters
        self.missing, self.failing, self.seconds = missing, failing, seconds
        self.sizes: Ints = 10 + self.train_clients % 7
        self.rates = rates
        self._trials: TrialTable[_Trial, Work] = TrialTable()
        self._arrivals = None if arrivals is None else np.random.default_rng(arrivals)
        self._chance = None if repeatable else np.random.default_rng()

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """Weights of 0, that is, a loss of 1 without noise."""
        self._trials.add(trial, _Trial(np.zeros(self.parameters), dict(model), seed))

    def fork(self, source: int, target: int) -> None:
        """The weights and the round clock of `source`."""
        origin, copy = self._trials[source], self._trials[target]
        self._trials.idle(target)
        if origin.model != copy.model:
            raise InputError(
                f"trials {source} and {target} have different models: {origin.model}, {copy.model}"
            )
        copy.weights, copy.round, copy.previous = origin.weights.copy(), origin.round, origin.previous

    def mix(self, source: int, target: int, share: float) -> None:
        """Weights a share of the way towards those of `source`."""
        old = self._trials[target].weights
        self.fork(source, target)
        mixed = self._trials[target]
        mixed.weights = old + share * (mixed.weights - old)

    def submit(self, work: Work) -> None:
        """Remember the work; `next_done` does it."""
        _ = self._trials[work.trial]
        self._trials.idle(work.trial)
        self._known(work.cohort)
        self._trials.rounds[work.trial] = work

    def next_done(self, trial: int | None = None) -> RoundReport:
        """Do a submitted round."""
        self._trials.submitted(trial)
        waiting = list(self._trials.rounds)
        if trial is None:
            trial = waiting[0 if self._arrivals is None else int(self._arrivals.integers(len(waiting)))]
        if self.seconds:
            time.sleep(self.seconds)
        return self._train(self._trials.rounds.pop(trial))

    def ready(self) -> list[int]:
        """All that were submitted, unless they end in an order of their own."""
        return list(self._trials.rounds) if self._arrivals is None else []

    def _train(self, work: Work) -> RoundReport:
        trial = self._trials[work.trial]
        cohort = np.array(work.cohort, dtype=np.int64)
        # Drawn for all clients, so that a client's luck does not depend on who else is asked.
        stream = np.random.default_rng([self.seed, trial.seed, trial.calls])
        luck = stream.random(len(self.train_clients))[cohort]
        noise = self.noise * stream.normal(size=(2, len(self.train_clients)))[:, cohort]
        status = np.where(luck < self.missing, Status.MISSING, Status.OK).astype(np.int8)
        status[(luck >= self.missing) & (luck < self.missing + self.failing)] = Status.FAILED

        updates = np.stack([self._step(work, member, trial.weights) for member in range(len(cohort))])
        after = np.array([_loss(trial.weights + update) for update in updates]) + noise[1]
        before = np.full(len(cohort), _loss(trial.weights)) + noise[0]
        ok = status == Status.OK
        applied = int(ok.sum()) >= work.minimum
        products = None
        if applied:
            step = np.average(updates[ok], axis=0, weights=self.sizes[cohort][ok])
            trial.weights = trial.weights + work.server.get("lr", 1.0) * step
            trial.round += 1
            products = _products(updates, ok, step, trial.previous) if work.products else None
            trial.previous = step if work.products else None
        trial.calls += 1

        before[~ok | (BEFORE not in work.scores)] = np.nan
        after[~ok | (AFTER not in work.scores)] = np.nan
        sizes = np.where(ok, self.sizes[cohort], 0)
        count, size = len(cohort), 8 * self.parameters
        cost = Cost(1, count, count * size, int(ok.sum()) * size, int(sizes.sum()))
        failed = Reason(Why.RAISED, "failed as it was told to")
        reasons = dict.fromkeys(np.flatnonzero(status == Status.FAILED).tolist(), failed)
        scores = before, after, np.exp(-before), np.exp(-after)
        return RoundReport(
            work.trial, trial.round, applied, cohort, status, sizes, sizes, *scores, reasons, cost, products
        )

    def _step(self, work: Work, member: int, weights: Floats) -> Floats:
        if isinstance(work.client, Mapping | Sequence):
            config = work.config_of(member)
        else:
            client = int(work.cohort[member])
            config = work.client.resolve(np.arange(self.sizes[client]) % (2 + client % 4), 10)
        size = int(self.sizes[int(work.cohort[member])])
        best = self.best_lr * 10 ** (self.rates * (13 - size) / 3)
        lr = float(config.get("lr", best))
        share = 0.5 * math.exp(-(math.log10(lr / best) ** 2)) if lr > 0 else 0.0
        if self._chance is not None:
            share *= self._chance.uniform(0.9, 1.1)
        return share * (1.0 - weights)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """The loss, with noise that depends on trial, round, client and split."""
        self._known(clients)
        chosen = np.array(clients, dtype=np.int64)
        found = []
        for number in trials:
            trial = self._trials[number]
            stream = np.random.default_rng([self.seed, trial.seed, trial.round, 1 + _SPLITS.index(split)])
            noise = self.noise * stream.normal(size=len(self.sizes))[chosen]
            loss = _loss(trial.weights) + noise
            size = self.sizes[chosen]
            status = np.full(len(chosen), Status.OK, dtype=np.int8)
            cost = Cost(bytes_down=8 * self.parameters * len(chosen), evaluations=len(chosen))
            found.append(Scores(number, split, chosen, status, size, loss, np.exp(-loss), {}, cost))
        return found

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Every client answers with its number, whatever was asked."""
        self._known(clients)
        return [Answer(int(c), Status.OK, {"client": int(c)}, cost=Cost(bytes_up=8)) for c in clients]

    def state(self, trial: int) -> TrialState:
        """The weights; model, seed and round as facts."""
        found = self._trials[trial]
        last = {} if found.previous is None else {"previous": found.previous}
        return TrialState(
            {"weights": found.weights, **last},
            {"model": found.model, "seed": found.seed, "round": found.round, "calls": found.calls},
        )

    def restore(self, trial: int, state: TrialState) -> None:
        """The trial as it was, under this number."""
        facts = state.facts
        self._trials[trial] = _Trial(
            np.array(state.arrays["weights"]),
            facts["model"],
            facts["seed"],
            facts["round"],
            facts["calls"],
            state.arrays.get("previous"),
        )

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """All that its results depend on."""
        names = ("seed", "best_lr", "noise", "parameters", "missing", "failing")
        settings = {name: getattr(self, name) for name in names}
        return super().fingerprint(model) | {
            "settings": settings | ({"rates": self.rates} if self.rates else {})
        }

    def describe(self) -> dict[str, Any]:
        """What it was made with."""
        return {
            "runtime": "toy",
            "clients": len(self.sizes),
            "seed": self.seed,
            "parameters": self.parameters,
        }

    def _known(self, clients: Sequence[int] | Ints) -> None:
        for client in clients:
            if not 0 <= client < len(self.sizes):
                raise InputError(f"unknown client {client}; there are 0..{len(self.sizes) - 1}")


def _products(updates: Floats, ok: NDArray[np.bool_], step: Floats, previous: Floats | None) -> Products:
    before = np.full_like(step, np.nan) if previous is None else previous
    squared, with_previous = (updates**2).sum(axis=1), updates @ before
    squared[~ok] = with_previous[~ok] = np.nan
    return Products(squared, with_previous, float(step @ step), float(step @ before))


def _loss(weights: Floats) -> float:
    return float(np.mean((1.0 - weights) ** 2))
