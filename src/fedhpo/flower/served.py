"""Trials whose models the server holds: started, forked, stopped, stepped, saved and brought back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.engine import Vector, flat
from fedhpo.engine.gather import Gathering
from fedhpo.engine.reply import discreet
from fedhpo.engine.server import Aggregation, FedAvg
from fedhpo.errors import InputError
from fedhpo.federation.protocol import (
    ClientSide,
    Cost,
    RoundReport,
    Status,
    TrialError,
    TrialState,
    Work,
)
from fedhpo.flower.arrays import Layout
from fedhpo.flower.models import Arrays, TorchModel
from fedhpo.run.canonical import canonical


@dataclass(frozen=True)
class Trial:
    """A model in training. Immutable: a round makes a new one, so saving never has to copy."""

    shape: str
    seed: int
    weights: Vector
    memory: Mapping[str, Vector] = field(default_factory=dict)
    round: int = 0
    calls: int = 0

    @property
    def model(self) -> dict[str, Any]:
        """The hyperparameters of its shape."""
        found: dict[str, Any] = json.loads(self.shape)
        return found


@dataclass(eq=False)
class Round:
    """A round under way; `missing` are the members that never replied."""

    work: Work
    trial: Trial
    optimiser: FedAvg
    gathering: Gathering
    missing: set[int] = field(default_factory=set)


class Trials:
    """The trials of a federation, by number."""

    def __init__(self, model: TorchModel | Arrays, aggregation: Aggregation) -> None:
        self._model, self._aggregation = model, aggregation
        self._trials: dict[int, Trial] = {}
        self.layouts: dict[str, Layout] = {}
        self.rounds: dict[int, Round] = {}

    @property
    def numbers(self) -> Sequence[int]:
        """Those started and not stopped, in ascending order."""
        return sorted(self._trials)

    def __getitem__(self, trial: int) -> Trial:
        if trial not in self._trials:
            raise TrialError(f"trial {trial} is not there: it was not started, or was stopped")
        return self._trials[trial]

    def idle(self, *trials: int) -> None:
        """Refuse trials that are in the middle of a round."""
        for trial in trials:
            if trial in self.rounds:
                raise TrialError(f"trial {trial} is in the middle of a round")

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        if trial in self._trials:
            raise TrialError(f"trial {trial} has been started already")
        shape = flat.shape_key(model)
        self.layouts[shape], weights = self._model.first(model, seed)
        self._trials[trial] = Trial(shape, seed, weights)

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        origin, copy = self[source], self[target]
        if origin.shape != copy.shape:
            raise InputError(
                f"trial {target} cannot become a copy of trial {source}: "
                f"its model has another shape ({copy.shape}, not {origin.shape})"
            )
        self.idle(target)
        self._trials[target] = replace(copy, weights=origin.weights, memory=origin.memory, round=origin.round)

    def stop(self, trial: int) -> None:
        """Forget a trial."""
        _ = self[trial]
        self.idle(trial)
        del self._trials[trial]

    def state(self, trial: int) -> TrialState:
        """What is needed to go on with it."""
        one = self[trial]
        arrays = {"weights": one.weights} | {f"server.{name}": v for name, v in one.memory.items()}
        facts = {"shape": one.shape, "seed": one.seed, "round": one.round, "calls": one.calls}
        return TrialState(arrays, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring it back."""
        self.idle(trial)
        facts = dict(state.facts)
        shape, weights = facts["shape"], state.arrays["weights"]
        if shape not in self.layouts:
            self.layouts[shape], _ = self._model.first(json.loads(shape), 0)
        if weights.shape != (self.layouts[shape].size,):
            raise InputError(f"the saved trial {trial} does not fit the model: {weights.shape[0]} numbers")
        memory = {n.removeprefix("server."): v for n, v in state.arrays.items() if n.startswith("server.")}
        self._trials[trial] = Trial(shape, facts["seed"], weights, memory, facts["round"], facts["calls"])

    def model(self, trial: int) -> Any:
        """The trial's model, for use outside the federation."""
        one = self[trial]
        return self._model.trained(self.layouts[one.shape], one.weights, one.model)

    def clear(self) -> None:
        """Forget all."""
        self._trials.clear()
        self.rounds.clear()

    # The server's step

    def end(self, one: Round, minimum: int) -> RoundReport:
        """Close a round: the server's step, if enough replied, and the report."""
        work, trial, gathered = one.work, one.trial, one.gathering
        for member in one.missing:
            gathered.status[member] = Status.MISSING
        applied = int((gathered.status == Status.OK).sum()) >= minimum
        if applied:
            trained = self._step(one)
            if flat.finite(trained.weights, *trained.memory.values()):
                trial = trained
            else:
                applied = False
                gathered.reject("updates are so large that the model after them is not finite")
        replies = int((gathered.status == Status.OK).sum())
        size = len(trial.weights)
        self._trials[work.trial] = replace(trial, calls=trial.calls + 1)

        results, rule_bytes = gathered.results, 0
        if isinstance(work.client, ClientSide):  # the rule goes out with the model, what it looked at stays
            results = [discreet(result, self._aggregation) for result in results]
            rule_bytes = len(canonical(work.client.to_dict()))

        def column(name: str, kind: type) -> NDArray[Any]:
            return np.array([getattr(result, name) for result in results], kind)

        return RoundReport(
            work.trial,
            trial.round,
            applied,
            np.array(work.cohort, np.int64),
            gathered.status,
            column("train_size", np.int64),
            column("validation_size", np.int64),
            column("loss_before", np.float64),
            column("loss_after", np.float64),
            column("accuracy_before", np.float64),
            column("accuracy_after", np.float64),
            dict(sorted(gathered.reasons.items())),
            Cost(
                rounds=1,
                client_rounds=len(work.cohort),
                bytes_down=(4 * size + rule_bytes) * len(work.cohort),
                bytes_up=4 * size * replies,
                samples=sum(result.samples for result in results),
            ),
        )

    def _step(self, one: Round) -> Trial:
        trial = one.trial
        with np.errstate(over="ignore", invalid="ignore"):
            change = one.gathering.aggregate.mean()
            trainable = self.layouts[trial.shape].trainable
            step, memory = one.optimiser.step(change[:trainable], trial.memory, trial.round)
            weights = trial.weights + np.concatenate([step, change[trainable:]])
        return replace(trial, weights=weights, memory=memory, round=trial.round + 1)
