"""The tabular federation: recorded learning curves in place of training.

A round moves a clock; an evaluation looks up what each client said when the table was built. So any method
whose clients all train with the trial's own config runs in a second, under any noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint.arrays import array_digest
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol.federation import (
    REPEATABLE,
    Answer,
    Cost,
    Federation,
    Floats,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.reasons import Why, ours
from fedhpo.space.config import Config, Frozen

if TYPE_CHECKING:
    from fedhpo.research.tables import CurveTable

#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24
_DIVERGED = ours(Why.DIVERGED, "the update is not finite, as when the table was built")


@dataclass(frozen=True)
class _Trial:
    """A clock, and which of the table's configs it is for: known from the first round on."""

    model: Frozen
    config: int | None = None
    round: int = 0


class TabularFederation(HoldsTable, Federation):
    """Replays a table of learning curves, at one of its heterogeneities.

    Samplers choose from its `pool` of configs. A score between two recorded rounds is the last one not
    later; before the first there is none (NaN). Cohorts do not matter: the curves are those of the cohorts
    of the build. A config whose training failed then fails here in the same round.

    >>> from fedhpo.testing.table import toy_table
    >>> table = toy_table(configs=8, rounds=9, clients=5)
    >>> import fedhpo as fh
    >>> federation = TabularFederation(table)
    >>> result = fh.tune(federation, table.space, "random", rounds=9, total=27, cohort=5)
    >>> result.best_config in table.configs
    True
    """

    pool: Sequence[Config] | None = None
    place, fine_tunes = "table", False

    def __init__(self, table: CurveTable, heterogeneity: float = 0.0) -> None:
        self.table, self.heterogeneity = table, heterogeneity
        level = table.level(heterogeneity)
        self.capabilities = frozenset({REPEATABLE})
        self.train_clients = table.train_clients
        self.validation_clients = table.validation_clients
        self.test_clients: Ints = np.empty(0, np.int64)
        self.pool = list(table.configs)
        self._level = level
        self._accuracy = 1 - table.wrong[level] / table.counted[level]
        self._loss = table.loss[level].astype(np.float64)
        self._configs = list(table.configs)
        self._places = {
            (config.model, config.client, config.server): i for i, config in enumerate(table.configs)
        }
        self._column = np.full(len(table.train_sizes), -1)
        self._column[self.validation_clients] = np.arange(len(self.validation_clients))
        self._trials: TrialTable[_Trial, Work] = TrialTable()

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.add(trial, _Trial(Frozen(model)))

    def fork(self, source: int, target: int) -> None:
        raise InputError("a table cannot fork: it holds no model that could go on under another config")

    def seek(self, trial: int, config: Config, round: int) -> None:
        """Put a trial's clock where so many rounds under `config` would have brought it."""
        place = self.index(config)
        self._trials[trial] = replace(self._trials[trial], config=place, round=round)

    def clock(self, trial: int) -> int:
        """The rounds that a trial has behind it."""
        return self._trials[trial].round

    def index(self, config: Config) -> int:
        """The place of a config: in the pool, or behind it where a surrogate answers for it."""
        return self._places[(config.model, config.client, config.server)]

    def trained(self, config: Config) -> int:
        """For how many rounds a config can be trained."""
        return self._able(self.index(config))

    def truth(self, config: Config, round: int, objective: Objective) -> float:
        """The objective over all validation clients, with their data as it is."""
        return self.table.truth(self.index(config), round, objective)

    # What is known of the config at a place

    def _able(self, place: int) -> int:
        return int(self.table.trained[place])

    def _parameters(self, place: int) -> int:
        return int(self.table.parameters[place])

    def _said(self, place: int, recorded: int, columns: Ints) -> tuple[Floats, Floats]:
        """Loss and accuracy at one of the recorded rounds, of these validation clients."""
        return self._loss[place, recorded, columns], self._accuracy[place, recorded, columns]

    # Rounds

    def submit(self, work: Work) -> None:
        self._begin(work)
        self._trials.rounds[work.trial] = work

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        under_way = self._trials.rounds
        return self._end(under_way.pop(next(iter(under_way)) if trial is None else trial))

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._trials.apart(work)
        for piece in work:
            self._begin(piece)
        return [self._end(piece) for piece in work]

    def _begin(self, work: Work) -> None:
        """Check the work, and find out from the first one which config the trial is for."""
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        for client in work.cohort:
            if not 0 <= client < len(self.table.train_sizes) or not self.table.train_sizes[client]:
                raise InputError(f"client {client} cannot train: it is not there, or has no training data")
        self.check_products(work)
        if not isinstance(work.client, Mapping):
            raise InputError("a table replays one config for all clients of a trial, not one for each")
        if trial.round >= self.table.rounds[-1]:
            raise InputError(
                f"trial {work.trial} cannot train on: table {self.table.name} ends at round {trial.round}"
            )
        config = self._resolve(trial, work)
        if trial.config not in (None, config):
            raise InputError(
                f"trial {work.trial} cannot go on under another config: a table replays each from its start"
            )
        self._trials[work.trial] = replace(trial, config=config)

    def _resolve(self, trial: _Trial, work: Work) -> int:
        client: Any = work.client
        key = (trial.model, _frozen(client), _frozen(work.server))
        found = self._places.get(key)
        if found is not None:
            return found
        for scope, given in (("client", client), ("server", work.server)):
            known = {name for config in self._configs for name in getattr(config, scope)}
            for name in given:
                if name not in known:
                    raise unknown_name(f"{scope} hyperparameter of table {self.table.name}", name, known)
        return self._unknown(Config(client, work.server, trial.model))

    def _unknown(self, config: Config) -> int:
        """The place of a config that the table does not hold."""
        raise InputError(
            f"table {self.table.name} has no config {config}: only its {len(self._configs)} configs can be "
            "replayed (`pool`); a `SurrogateFederation` answers any config of its space"
        )

    def _end(self, work: Work) -> RoundReport:
        trial = self._trials[work.trial]
        assert trial.config is not None
        table, members = self.table, len(work.cohort)
        cohort = np.array(work.cohort, np.int64)
        config = trial.config
        applied = trial.round < self._able(config)
        if applied:
            trial = replace(trial, round=trial.round + 1)
            self._trials[work.trial] = trial
        sizes = table.train_sizes[cohort]
        moved = 4 * self._parameters(config) * members
        epochs = self._configs[config].client.get("epochs", 1)
        return RoundReport.unscored(
            work,
            trial.round,
            applied,
            np.full(members, Status.OK if applied else Status.FAILED, np.int8),
            sizes,
            table.validation_sizes[cohort],
            {} if applied else dict.fromkeys(range(members), _DIVERGED),
            Cost(1, members, moved, moved if applied else 0, int(sizes.sum() * epochs), 0),
        )

    # Scores

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        if split != "validation":
            raise InputError(f"split = {split!r}: table {self.table.name} holds validation scores only")
        chosen = np.asarray(clients, np.int64)
        bad = chosen[(chosen < 0) | (chosen >= len(self._column))]
        if len(bad):
            raise InputError(f"client {bad[0]} is not there: clients are 0..{len(self._column) - 1}")
        for trial in trials:
            _ = self._trials[trial]
            self._trials.idle(trial)
        return [self._scores(trial, chosen) for trial in trials]

    def _scores(self, number: int, clients: Ints) -> Scores:
        trial, table = self._trials[number], self.table
        columns, place = self._column[clients], table.place(trial.round)
        loss, accuracy = np.full((2, len(clients)), np.nan)
        parameters = int(table.parameters.max()) if trial.config is None else self._parameters(trial.config)
        if trial.config is not None and place >= 0:
            held = columns >= 0
            loss[held], accuracy[held] = self._said(trial.config, place, columns[held])
        cost = Cost(
            evaluations=len(clients),
            bytes_down=4 * parameters * len(clients),
            bytes_up=_SCORE_BYTES * len(clients),
        )
        status = np.zeros(len(clients), np.int8)
        sizes = table.validation_sizes[clients]
        return Scores(number, "validation", clients, status, sizes, loss, accuracy, cost=cost)

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        raise InputError(f"a table cannot answer the query {task.name!r}: it holds validation scores only")

    # State

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        config = -1 if one.config is None else one.config
        return TrialState({"clock": np.array([config, one.round])}, {"model": dict(one.model)})

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        config, round = (int(number) for number in state.arrays["clock"])
        model = Frozen({name: _tuple(value) for name, value in state.facts["model"].items()})
        self._trials[trial] = _Trial(model, None if config < 0 else config, round)

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        table = self.table
        configs = canonical([config.to_dict() for config in table.configs])
        arrays = (
            "rounds",
            "train_sizes",
            "validation_sizes",
            "trained",
            "parameters",
            "wrong",
            "counted",
            "loss",
        )
        return {
            "table": {
                "name": table.name,
                "heterogeneity": self.heterogeneity,
                "levels": list(table.heterogeneity),
                "configs": array_digest(np.frombuffer(configs, np.uint8)),
                **{name: array_digest(np.asarray(getattr(table, name))) for name in arrays},
            }
        }

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "tabular",
            "data": f"table {self.table.name}",
            "clients": int(((self.table.train_sizes + self.table.validation_sizes) > 0).sum()),
            "heterogeneity": self.heterogeneity,
            "configs": len(self.table.configs),
            "rounds": int(self.table.rounds[-1]),
            "weighting": self.table.study.file.server.weighting,
            "parameters": int(self.table.parameters.max()),
        }


def _frozen(values: Mapping[str, Any]) -> Frozen:
    return values if isinstance(values, Frozen) else Frozen(values)


def _tuple(value: Any) -> Any:
    """JSON makes lists of tuples."""
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
