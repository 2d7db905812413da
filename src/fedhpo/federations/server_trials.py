"""Trials whose models the server holds: started, forked, stopped, stepped, saved and brought back.

What the simulated and the Flower federation share: they differ in where clients train, not in what the server
does with the updates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.aggregation import Aggregate, Aggregation
from fedhpo.aggregation.server import (
    HALF_STEP,
    Lengths,
    ServerOptimiser,
    optimiser_class,
    refuse_lengths,
    server_optimiser,
)
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.core.vectors import Vector
from fedhpo.engine import flat
from fedhpo.engine.gather import Gathering
from fedhpo.engine.products import UpdateProducts
from fedhpo.engine.reply import discreet
from fedhpo.engine.rows import RowLayout
from fedhpo.federations.timing import Timed
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol.federation import (
    ClientSide,
    Cost,
    Federation,
    Ints,
    Products,
    RoundReport,
    Status,
    TrialState,
    UpdateShapes,
    Work,
)
from fedhpo.protocol.reasons import Reason, Why

if TYPE_CHECKING:
    from fedhpo.federations.strategies.server import StrategyServer


#: Parts of names that identify the two factors of an adapter: those of `fedhpo.LoRA`, and of peft.
FACTORS = ((".down", ".up"), ("lora_A", "lora_B"))


@dataclass(frozen=True)
class Trial:
    """A model in training. Immutable: a round makes a new one, so saving never has to copy."""

    shape: str
    seed: int
    weights: Vector
    memory: Mapping[str, Vector] = field(default_factory=dict)
    round: int = 0
    calls: int = 0
    #: Of simulated time: when its last round ended.
    clock: float = 0.0
    #: The aggregate of the last round, where products with it were asked for.
    previous: Vector | None = None
    #: What a strategy of Flower's remembers: JSON-able facts, and arrays.
    strategy: tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]] | None = None

    @property
    def model(self) -> dict[str, Any]:
        """The hyperparameters of its shape."""
        found: dict[str, Any] = json.loads(self.shape)
        return found

    @property
    def evaluated(self) -> Vector:
        """The weights to score and to keep: those of the last model, unless the optimiser says otherwise."""
        half = self.memory.get(HALF_STEP)
        if half is None:
            return self.weights
        found = self.weights.copy()
        found[: len(half)] -= half
        return found


@dataclass(eq=False)
class Round:
    """A round under way; `missing` are the members that never replied.

    In a simulation `ends` is when it ends by the trial's own clock, and `timed` has its members' times where
    there is a fleet.
    """

    work: Work
    trial: Trial
    optimiser: ServerOptimiser | None  # None where a strategy takes its place
    gathering: Gathering
    ends: float = 0.0
    missing: set[int] = field(default_factory=set)
    timed: Timed | None = None
    #: Numbers that go to each member and come back from it, where that is not all of the model.
    traffic: tuple[Ints, Ints] | None = None
    #: How its updates are summed by rows, where they are.
    rows: RowLayout | None = None


class Shape(Protocol):
    """What the server knows of all models of one shape: their numbers, the first of which are trained."""

    @property
    def size(self) -> int:
        """Numbers in all."""

    @property
    def trainable(self) -> int:
        """Numbers that are trained."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of its arrays by name, in the order of the vector."""


S = TypeVar("S", bound=Shape)
#: From a model's hyperparameters and a trial's seed, what is known of its shape, and its first weights.
First = Callable[[Mapping[str, Any], int], tuple[S, Vector]]


class Trials(TrialTable[Trial, Round], Generic[S]):
    """The trials of a federation whose server holds the models."""

    def __init__(
        self,
        first: First[S],
        aggregation: Aggregation,
        optimiser: str = "fedavg",
        strategy: StrategyServer | None = None,
    ) -> None:
        super().__init__()
        self._first, self._aggregation = first, aggregation
        self._optimiser, self._strategy = optimiser, strategy
        #: What is known of every shape that was started, by `Trial.shape`.
        self.shapes: dict[str, S] = {}

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        self.new(trial)
        try:
            shape = flat.shape_key(model)
        except TypeError as error:
            raise InputError(f"the model cannot be built with {dict(model)}: {error}") from error
        self.shapes[shape], weights = self._first(model, seed)
        self[trial] = Trial(shape, seed, weights)

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        self.mix(source, target, 1.0)

    def mix(self, source: int, target: int, share: float) -> None:
        """The same, but with weights that are only this share of the way towards those of `source`."""
        origin, copy = self[source], self[target]
        if origin.shape != copy.shape:
            raise InputError(
                f"trial {target} cannot become a copy of trial {source}: "
                f"its model has another shape ({copy.shape}, not {origin.shape})"
            )
        self.idle(target)
        old, new = copy.weights, origin.weights
        self[target] = replace(
            copy,
            weights=new if share == 1 else old + np.asarray(share, old.dtype) * (new - old),
            # A mean of models is evaluated as it is.
            memory=origin.memory
            if share == 1
            else {k: v for k, v in origin.memory.items() if k != HALF_STEP},
            round=origin.round,
            previous=origin.previous,
            strategy=origin.strategy,
        )

    def why_no_mean(self, model: Mapping[str, Any]) -> str:
        """Why a mean of weights is not a mean of models: both factors of a product are trained."""
        names = set(self._first(model, 0)[0].shapes)
        for first, second in FACTORS:
            for one in sorted(name for name in names if first in name):
                other = one.replace(first, second)
                if other in names:
                    return (
                        f"{one!r} and {other!r} are factors of one matrix, and the mean of products is "
                        "not the product of means (freeze_down = true trains one of them, and is exact)"
                    )
        return ""

    def state(self, trial: int) -> TrialState:
        """What is needed to go on with it."""
        one = self[trial]
        arrays = {"weights": one.weights} | {f"server.{name}": v for name, v in one.memory.items()}
        if one.previous is not None:
            arrays["previous"] = one.previous
        facts = {
            "shape": one.shape,
            "seed": one.seed,
            "round": one.round,
            "calls": one.calls,
            "clock": one.clock,
        }
        if one.strategy is not None:
            facts["strategy"], kept = one.strategy
            arrays |= {f"strategy.{name}": array for name, array in kept.items()}
        return TrialState(arrays, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring it back."""
        self.idle(trial)
        facts = dict(state.facts)
        shape, weights = facts["shape"], state.arrays["weights"]
        if shape not in self.shapes:
            self.shapes[shape], _ = self._first(json.loads(shape), 0)
        if weights.shape != (self.shapes[shape].size,):
            raise InputError(f"the saved trial {trial} does not fit the model: {weights.shape[0]} numbers")
        memory = {n.removeprefix("server."): v for n, v in state.arrays.items() if n.startswith("server.")}
        counts = {name: facts[name] for name in ("round", "calls", "clock")}
        previous = state.arrays.get("previous")
        strategy = None
        if "strategy" in facts:
            prefix = "strategy."
            kept = {n.removeprefix(prefix): v for n, v in state.arrays.items() if n.startswith(prefix)}
            strategy = (facts["strategy"], kept)
        self[trial] = Trial(
            shape, facts["seed"], weights, memory, **counts, previous=previous, strategy=strategy
        )

    # Rounds

    def server_side(self, work: Work) -> tuple[ServerOptimiser | None, Aggregate]:
        """What takes the step of a round, None where a strategy does, and what holds its updates."""
        if self._strategy is None:
            refuse_lengths(work.server.get("optimiser", self._optimiser), self._aggregation.rule)
            optimiser = server_optimiser(self._optimiser, work.server)
            return optimiser, self._aggregation.start(self[work.trial].memory, work.cohort)
        from fedhpo.federations.strategies.server import HeldUpdates

        self._strategy.check(work.server)
        return None, HeldUpdates()

    def apart_from_sums(self, work: Work) -> bool:
        """Whether the updates of a round must come to the server one by one, and not only their sum."""
        own = self._strategy is None
        return work.products or (
            own and optimiser_class(work.server.get("optimiser", self._optimiser)).needs_lengths
        )

    def products(self, work: Work) -> UpdateProducts | None:
        """What takes the products of a round's updates, where they are asked for."""
        if not self.apart_from_sums(work):
            return None
        trial = self[work.trial]
        return UpdateProducts(len(work.cohort), self.shapes[trial.shape].trainable, trial.previous)

    def ready(self) -> list[int]:
        """Trials whose round has all its replies."""
        return [number for number, one in self.rounds.items() if one.gathering.complete]

    def ended(self, trial: int | None) -> Round | None:
        """A round that has all its replies, of any trial or of the one named; None while there is none."""
        self.submitted(trial)
        for number in self.ready():
            if trial in (None, number):
                return self.rounds.pop(number)
        return None

    def end(self, one: Round, minimum: int) -> RoundReport:
        """Close a round: the server's step, if enough replied, and the report."""
        work, trial, gathered = one.work, one.trial, one.gathering
        for member in one.missing:
            gathered.status[member] = Status.MISSING
        applied = int((gathered.status == Status.OK).sum()) >= minimum
        products: Products | None = None
        updates: UpdateShapes | None = None
        if applied:
            trained, products, why = self._step(one)
            if trained is not None and flat.finite(trained.weights, *trained.memory.values()):
                trial, updates = trained, _shapes(one.gathering, work)
            else:
                applied, products = False, None
                gathered.reject(why or Reason(Why.OVERFLOW))
        down, up = one.traffic or (np.full(len(work.cohort), len(trial.weights)),) * 2
        self[work.trial] = replace(trial, calls=trial.calls + 1, clock=one.ends)

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
                bytes_down=4 * int(down.sum()) + rule_bytes * len(work.cohort),
                bytes_up=4 * int(up[gathered.status == Status.OK].sum()),
                samples=sum(result.samples for result in results),
            ),
            products,
            updates,
            None if one.timed is None else (one.timed.begun, one.ends),
        )

    def _step(self, one: Round) -> tuple[Trial | None, Products | None, Reason | None]:
        """The trial after the server's step, and the products of the updates if they were asked for.

        Without a trial, the reason says why there is none.
        """
        trial = one.trial
        if one.optimiser is None:
            return self._strategy_step(one)
        with np.errstate(over="ignore", invalid="ignore"):
            change = one.gathering.aggregate.mean()
            if one.rows is not None and one.gathering.shared is not None:
                shared = one.gathering.shared / one.gathering.weight
                one.rows.spread(change, trial.weights, shared.tolist())
            trainable = self.shapes[trial.shape].trainable
            measured = one.gathering.products
            known: tuple[Lengths, ...] = ()
            if one.optimiser.needs_lengths and measured is not None:
                known = (self._lengths(one.gathering, measured),)
            step, memory = one.optimiser.step(change[:trainable], trial.memory, trial.round, *known)
            memory = {**memory, **one.gathering.aggregate.memory}
            # Nothing is put together where all is trained: at tens of millions of numbers a copy counts.
            whole = step if trainable == len(change) else np.concatenate([step, change[trainable:]])
            measured = measured if one.work.products else None
            kept = [*memory.values(), *([] if measured is None else [change])]
            weights = _moved(trial.weights, whole, kept)
        products = None if measured is None else measured.of_round(change)
        previous = None if measured is None else change[:trainable]
        after = replace(trial, weights=weights, memory=memory, round=trial.round + 1, previous=previous)
        return after, products, None

    def _lengths(self, gathered: Gathering, measured: UpdateProducts) -> Lengths:
        """How long the updates were, as the mean of them weighs and shortens them."""
        used = np.flatnonzero(gathered.status == Status.OK)
        squared, most = measured.squared[used], self._aggregation.clip_norm
        if most is not None:
            squared = np.minimum(squared, most**2)
        weights = [self._aggregation.weight(gathered.results[member].train_size) for member in used]
        return Lengths(float(np.average(squared, weights=weights)), len(used))

    def _strategy_step(self, one: Round) -> tuple[Trial | None, Products | None, Reason | None]:
        """The same, by a strategy of Flower's."""
        from fedhpo.federations.strategies.server import HeldUpdates
        from fedhpo.federations.strategies.step import StrategyFailed

        trial, aggregate, shape = one.trial, one.gathering.aggregate, self.shapes[one.trial.shape]
        assert self._strategy is not None
        assert isinstance(aggregate, HeldUpdates)
        try:
            weights, kept = self._strategy.step(
                trial.weights,
                shape.shapes,
                aggregate.held,
                one.work.server,
                trial.strategy,
                trial.round,
                (trial.seed, trial.calls),
            )
        except StrategyFailed as failure:
            return None, None, Reason(Why.STRATEGY, str(failure))
        measured, previous = one.gathering.products, None
        products = None
        if measured is not None:
            change = weights - trial.weights
            products, previous = measured.of_round(change), change[: shape.trainable]
        after = replace(trial, weights=weights, round=trial.round + 1, previous=previous, strategy=kept)
        return after, products, None


def _moved(weights: Vector, step: Vector, kept: Sequence[Vector]) -> Vector:
    """The weights after a step, in the step's own memory if it is not that of something kept."""
    mine = step.dtype == weights.dtype and not any(np.may_share_memory(step, one) for one in [weights, *kept])
    return np.add(weights, step, out=step if mine and step.flags.writeable else None)


def strategy_server(name: str | None, weighting: str, *, repeatable: bool) -> StrategyServer | None:
    """What makes the next model by a strategy of Flower's; None without a name."""
    if name is None:
        return None
    from fedhpo.federations.strategies.server import StrategyServer

    return StrategyServer(name, weighting, repeatable)


def _shapes(gathered: Gathering, work: Work) -> UpdateShapes | None:
    """How long updates were and where they went; None where they were not held.

    A rule that clients resolve themselves depends on private facts, which shape their updates: none then.
    """
    known = gathered.aggregate.shapes
    if not known or isinstance(work.client, ClientSide):
        return None
    unknown = math.nan, math.nan
    length, cosine = np.array([known.get(member, unknown) for member in range(len(work.cohort))]).T
    return UpdateShapes(length, cosine)


class HoldsTrials(HoldsTable, Federation):
    """A federation whose trials are `Trials`."""

    _trials: Trials[Any]

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.start(trial, model, seed)

    def fork(self, source: int, target: int) -> None:
        self._trials.fork(source, target)

    def mix(self, source: int, target: int, share: float) -> None:
        self._trials.mix(source, target, share)

    def why_no_mean(self, model: Mapping[str, Any]) -> str:
        return self._trials.why_no_mean(model)

    def state(self, trial: int) -> TrialState:
        return self._trials.state(trial)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.restore(trial, state)
