"""A federation whose clients and server are a Flower app as it is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.sizes import size_limits
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.captured import Captured, evaluate_config
from fedhpo.federations.apps.captures import Captures, Names
from fedhpo.federations.apps.literals import is_literal
from fedhpo.federations.apps.round import AppRound, AppTrial, RecordParcel, asked_config, closed, read_trained
from fedhpo.federations.apps.scoring import (
    check_training_loss,
    choices,
    one_score,
    server_metrics,
)
from fedhpo.federations.apps.sites import clients_evaluate, reads_rounds
from fedhpo.federations.flower.transport import FlowerReply, FlowerTransport
from fedhpo.federations.remote.base import RemoteClients, joined_by
from fedhpo.federations.remote.clients import PLAIN
from fedhpo.federations.remote.mailbox import Item
from fedhpo.federations.remote.messages import TRAIN, Task
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol import federation as protocol
from fedhpo.protocol.federation import (
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.metrics import Metric
from fedhpo.protocol.objective import CLIENTS, SERVER, Objective
from fedhpo.protocol.reasons import Reason
from fedhpo.space import Space
from fedhpo.space.config import Config

#: What is lost where clients run the app without fedhpo.
LOST = (
    "the clients' app is not wrapped (no fedhpo there): keys that clients read from their run config cannot "
    "be tuned, scores before and after training are not known, clients are known by node ids only, so that a "
    "run that was killed does not go on with the same ones, and every task travels in a message of its own"
)


class AppFederation(HoldsTable, RemoteClients):
    """Clients behind a grid that run an app, wrapped by `fedhpo.flower.wrap`; the server's side is here.

    Parameters
    ----------
    grid
        What Flower gives to a `ServerApp`, or an `InProcessGrid`.
    app, server
        What the app's `pyproject.toml` says, and its `ServerApp`.
    objective
        Whose metric is one of the app's own, as its `evaluate` returns it.
    weight_cap
        If given, how much a client weighs at most, in median sizes of its cohort; else as the app does.
    rounds
        If given, what the app is told of its number of rounds (`num-server-rounds`), for its schedules.
    learning_curve
        Whether clients score the model before training in every round, though no method needs it.
    settings
        How clients are waited for: see `RemoteClients`.
    """

    own_metrics, fine_tunes, place = True, False, "flower"

    def __init__(
        self,
        grid: Grid,
        app: AppFile,
        server: ServerApp,
        objective: Objective,
        *,
        weight_cap: float | None = None,
        rounds: int | None = None,
        learning_curve: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(FlowerTransport(grid), **settings)
        self._app, self._server, self._objective, self._cap = app, server, objective, weight_cap
        self._metrics = (objective.metric, *objective.also)
        self._learning_curve = learning_curve
        self._trials: TrialTable[AppTrial, AppRound] = TrialTable()
        base = {} if rounds is None or app.rounds_key is None else {app.rounds_key: rounds}
        self._captures = Captures(app, server, len(self._clients.hellos), base)
        self._scorers: dict[
            int, Captured
        ] = {}  # what each trial's model was made by, where the server scores
        self._read: set[str] | None = set()  # run config keys that clients looked up; None for all
        self._warned: set[str] = set()
        self._came_by: set[str] = set()  # arguments in the app's code that calls had
        #: Whether clients run the app without fedhpo: see `fedhpo.federations.apps.plain`.
        self.plain = any(hello.training == PLAIN for hello in self._clients.hellos.values())
        able = {protocol.CLIENT_CONFIGS, protocol.FORK, protocol.SCORES_IN_ROUND}
        lost = {protocol.QUERY}
        if self.plain:
            lost |= {protocol.SCORES_IN_ROUND, protocol.REPEATABLE}
            self._warn("plain", LOST)
        if objective.from_ != CLIENTS:
            lost |= {protocol.SCORES_IN_ROUND}
        if not objective.by_client:  # one number for a model, which is no client's
            self.validation_clients = np.array([max(self._clients.hellos) + 1], np.int64)
        self.capabilities = (self.capabilities | able) - lost

    @property
    def trust(self) -> str:
        found = f"updates are joined by {joined_by(Aggregation(), 'of the app')}"
        if self._cap is not None:
            return found
        return f"{found}, and clients weigh what they say (server.weight_cap bounds it)"

    def measure(self, metrics: Sequence[Metric]) -> None:
        if metrics:
            names = ", ".join(metric.name for metric in metrics)
            raise InputError(f"metrics {names}: a Flower app scores by its own; name those in objective.also")

    def why_no_horizon(self, space: Space) -> str:
        key = self._app.rounds_key
        if key is None or not self._captures.base:
            return "the app has no number of rounds in its run config that follows the study"
        if self.plain:
            return "clients without fedhpo take their number of rounds from their own run config"
        return "" if reads_rounds(self._app, key) else f"nothing in the app reads {key!r} for a schedule"

    def preflight(self, config: Config, metric: str) -> None:
        captured = self._captured(config.client, config.server, config.model)
        self._names(config.client, captured)
        changed = check_training_loss(self._objective, [*config.client, *config.model])
        if changed is not None:
            self._warn("loss", changed)
        self._names(dict.fromkeys(self._objective.at_zero, 0.0), captured)
        if all(array.size for array in captured.arrays.values()):  # an empty model cannot be scored
            self._try_to_score(config, captured)

    def _try_to_score(self, config: Config, captured: Captured) -> None:
        """The first model is scored, so that a metric that is not there is told before any round."""
        if self._objective.from_ == SERVER:
            self._server_metrics(captured, 0, captured.arrays)
            return
        if not self._objective.by_client:
            return  # the first round tells
        trial = AppTrial(dict(config.model), 0, captured.arrays)
        self._trials[-1] = trial
        try:
            [scores] = self.evaluate([-1], self.validation_clients[:1])
        finally:
            self._trials.stop(-1)
        if scores.status[0] != Status.OK:
            why = str(scores.reasons[0])
            if self._objective.from_ == CLIENTS and not clients_evaluate(self._app):
                raise InputError(
                    f"objective.from = 'clients': the app's clients have no evaluate; {choices(captured)}"
                )
            raise InputError(f"the app's clients cannot be scored: {why}")
        lacking = [name for name in self._objective.also if np.isnan(scores.metrics.get(name, np.nan)).all()]
        if lacking:
            self._warn(
                "also", f"objective.also: a client of the app was asked, and has no {', '.join(lacking)}"
            )

    # Scores

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        if self._objective.by_client:
            return super().evaluate(trials, clients, split)
        self._check_split(split)
        place = int(self.validation_clients[0])
        return [
            one_score(self._objective, number, split, place, self._found_by(number), self._metrics)
            for number in trials
        ]

    def _found_by(self, number: int) -> Mapping[str, float]:
        """A trial's score from the server, or from its last round."""
        trial = self._trials[number]
        self._trials.idle(number)
        if self._objective.from_ != SERVER:
            return trial.training
        if number not in self._scorers:  # restored, not started
            self._scorers[number] = self._captures.fresh(trial.model, derive(trial.seed, "model"))
        return self._server_metrics(self._scorers[number], trial.round, trial.arrays)

    def _server_metrics(self, captured: Captured, round: int, arrays: Mapping[str, Any]) -> dict[str, float]:
        return server_metrics(captured, round, arrays, self._objective.metric)

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.new(trial)
        found = self._captures.fresh(model, derive(seed, "model"))
        if self._objective.from_ == SERVER:
            self._scorers[trial] = found
        self._trials[trial] = AppTrial(dict(model), seed, found.arrays)

    def fork(self, source: int, target: int) -> None:
        origin, copy = self._trials[source], self._trials[target]
        if origin.model != copy.model:
            raise InputError(
                f"trial {target} cannot become a copy of trial {source}: {copy.model} is its model"
            )
        self._trials.idle(target)
        self._trials[target] = replace(
            copy,
            arrays=origin.arrays,
            strategy=origin.strategy,
            round=origin.round,
            training=origin.training,
        )

    def stop(self, trial: int) -> None:
        super().stop(trial)
        self._scorers.pop(trial, None)

    def state(self, trial: int) -> TrialState:
        return self._trials[trial].state()

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        self._trials[trial] = AppTrial.from_state(state)

    def model(self, trial: int) -> dict[str, NDArray[Any]]:
        """The trial's arrays by name."""
        return {name: array.copy() for name, array in self._trials[trial].arrays.items()}

    # Rounds

    def submit(self, work: Work) -> None:
        self._submit([work])

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._submit(work)
        return [self.next_done(piece.trial) for piece in work]

    def _submit(self, works: Sequence[Work]) -> None:
        self._trials.apart(works)
        begun = [self._begin(work) for work in works]
        self._nodes.look()
        for one, configs in begun:
            self._trials.rounds[one.work.trial] = one
            parcel = RecordParcel(one.trial.arrays)
            for member, app in enumerate(configs):
                self._post.add(self._training(one, member, app, parcel))
        self._post.send()

    def _begin(self, work: Work) -> tuple[AppRound, list[dict[str, Any]]]:
        """What each member of the cohort is sent, as the app's strategy says."""
        if work.by_rule:
            raise InputError("a Flower app cannot look up its own hyperparameters: use another method")
        if work.products:
            raise InputError("products of updates are not known of a Flower app: use another method")
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        self._can_train(work.cohort)
        sent: dict[str, dict[int, dict[str, Any]]] = {}
        asked: dict[str, dict[str, Any]] = {}
        configs = []
        for member, client in enumerate(work.cohort):
            config = self._told(work, member)
            key = canonical(dict(config)).decode()
            captured = self._captured(config, work.server, trial.model)
            names = self._names(config, captured)
            if key not in sent:
                sent[key] = asked_config(captured, trial, names.record, [int(c) for c in work.cohort])
                asked[key] = self._asked(captured, trial, trial.round + 1)
            found = {"run": dict(names.run), "literals": dict(names.literals)}
            configs.append({**asked[key], **sent[key].get(int(client), {}), **found})
        captured = self._captured(self._told(work, 0), work.server, trial.model)
        return AppRound(work, trial, captured), configs

    def _told(self, work: Work, member: int) -> Mapping[str, Any]:
        """A member's hyperparameters, and the number of rounds where schedules end before a full training."""
        config = work.config_of(member)
        return config if work.horizon is None else {**config, str(self._app.rounds_key): work.horizon}

    def _names(self, config: Mapping[str, Any], captured: Captured) -> Names:
        """Which of the names the app takes from where; refuses those that it has nowhere."""
        return self._captures.names(config, captured, plain=self.plain)

    def _captured(
        self, client: Mapping[str, Any], server: Mapping[str, Any], model: Mapping[str, Any]
    ) -> Captured:
        """What the app's server would do under these hyperparameters."""
        return self._captures.get(client, server, model)

    def _asked(self, captured: Captured, trial: AppTrial, round: int) -> dict[str, Any]:
        """What every task of a round says beside its config."""
        strategy: Any = captured.strategy
        while not hasattr(strategy, "arrayrecord_key") and hasattr(strategy, "strategy"):
            strategy = strategy.strategy
        _, shape = self._captures.shape(trial.model)
        scored = self._objective.from_ == CLIENTS
        return {
            "run": {},
            "config": {},
            **({"legacy": True} if captured.legacy else {}),
            **({"plain": True} if captured.plain else {}),
            **({"base": self._captures.base} if self._captures.base else {}),
            **({"shape": shape} if shape else {}),
            "evaluate": evaluate_config(captured, round, trial.arrays) if scored else {},
            "keys": [
                getattr(strategy, "arrayrecord_key", "arrays"),
                getattr(strategy, "configrecord_key", "config"),
            ],
            "metric": self._objective.metric,
            "maximise": self._objective.maximise,
            "alive": [number for number in self._trials.numbers if number >= 0],
        }

    def _training(self, one: AppRound, member: int, app: Mapping[str, Any], parcel: RecordParcel) -> Item:
        work, trial, client = one.work, one.trial, int(one.work.cohort[member])
        seeds = (trial.seed, trial.calls)
        scores = work.scores if self._learning_curve and self._objective.from_ == CLIENTS else ()
        task = Task(work.trial, client, trial.round, trial.model, {}, None, scores, seeds, app=app)

        def read(reply: Any, message: Any) -> Any:
            assert isinstance(message, FlowerReply)
            most = self._post.message_bytes, self._most_rows
            return read_trained(reply, message.message, work.trial, trial.arrays, *most)

        def done(status: Status, why: Reason | None, value: Any) -> None:
            one.take(member, status, why, value)
            if status == Status.OK:
                self._note_reads(value.read, value.keeps_state, value.bound)

        return Item(client, TRAIN, task.to_dict(), parcel, read, done)

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        while True:
            for number in self.ready():
                if trial in (None, number):
                    return self._end(self._trials.rounds.pop(number))
            self._post.collect()

    def _end(self, one: AppRound) -> RoundReport:
        cohort = len(one.work.cohort)
        limits = None
        if self._cap is not None:
            limits = size_limits([reply.size if reply else 0 for reply in one.replies], self._cap)
        seed = None
        if protocol.REPEATABLE in self.capabilities:
            seed = derive(one.trial.seed, "strategy", one.trial.calls)
        keeps = not self._objective.by_client and self._objective.from_ != SERVER
        minimum = self._minimum(one.work.minimum, cohort)
        trial, report = closed(one, minimum, limits, seed, keeps_training=keeps)
        self._trials[one.work.trial] = trial
        self._check_returned(one)
        self._warn_of_unread(one)
        return report

    def ready(self) -> list[int]:
        return [number for number, one in self._trials.rounds.items() if one.complete]

    def _check_returned(self, one: AppRound) -> None:
        """Refuse an objective that training does not return; it cannot be known before the first reply."""
        wanted = self._objective.metric
        if self._objective.by_client or self._objective.from_ == SERVER:
            return
        came = [reply for reply in one.replies if reply is not None]
        # A client that did not train may return nothing.
        if came and not any(wanted in reply.metrics for reply in came):
            names = ", ".join(sorted({name for reply in came for name in reply.metrics})) or "nothing"
            raise InputError(
                f"objective.metric = {wanted!r}: the app's training returns {names}; name one of these, "
                "or choose from = 'clients' or 'server'"
            )

    # What the app looks at

    def _note_reads(self, read: Sequence[str] | None, keeps_state: bool, bound: Sequence[str]) -> None:
        self._came_by.update(bound)
        if self._read is not None:
            self._read = None if read is None else self._read | set(read)
        if keeps_state:
            self._warn(
                "state",
                "the app keeps state at its clients (context.state): a copy of a trial begins without it, "
                "and so does a run that is resumed",
            )

    def _warn_of_unread(self, one: AppRound) -> None:
        """Say which tuned keys neither clients nor server looked up in a round."""
        if not one.answered:
            return
        for name in one.work.config_of(0):
            if is_literal(name) and self._captures.full(name) not in self._came_by:
                self._warn(
                    name,
                    f"space.client.{name}: the app's training never comes by {name.rpartition('.')[0]}, so "
                    "that tuning it changes nothing: leave it out, or name the module that calls it",
                )
        server = one.captured.read
        if self._read is None or server is None or not one.answered:
            return
        for name in one.work.config_of(0):
            if name in self._app.config and name not in self._read and name not in server:
                self._warn(
                    name,
                    f"space.client.{name}: the app never reads {name!r} of its run config, so that tuning it "
                    "changes nothing: leave it out, or let the app read it",
                )

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=2)

    # What the tasks of `RemoteClients` are about

    def _limits(self, clients: Sequence[int], split: SplitName) -> Ints:
        return np.full(len(clients), self._most_rows, np.int64)

    def _asked_of(self, trial: int) -> tuple[RecordParcel, Task, tuple[int, ...]]:
        one = self._trials[trial]
        self._trials.idle(trial)
        captured = self._captured({}, {}, one.model)
        asked = self._asked(captured, one, max(1, one.round))
        if self._objective.at_zero:
            zeros = self._names(dict.fromkeys(self._objective.at_zero, 0.0), captured)
            [sent] = asked_config(captured, one, zeros.record, [0]).values()
            names = list(self._objective.at_zero)
            told = {"run": dict(zeros.run), "literals": dict(zeros.literals), "names": names}
            asked["at_zero"] = {**sent, **told}
        task = Task(trial, 0, one.round, one.model, app=asked)
        return RecordParcel(one.arrays), task, (one.seed, one.calls)

    def query(self, task: Query, clients: Sequence[int] | Ints) -> Any:
        raise InputError(
            f"a Flower app that is tuned as it is answers no queries ({task.name}): use another method"
        )

    # The federation itself

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        return super().fingerprint(model) | {
            "app": {"files": self._app.digest(), "config": dict(self._app.config)},
            "settings": {"metrics": list(self._metrics), "weight_cap": self._cap, **self._source()},
        }

    def _source(self) -> dict[str, Any]:
        """What a run belongs to besides, where it is not what it was before there was a choice."""
        found: dict[str, Any] = {}
        if self._objective.from_ != CLIENTS:
            found |= {"from": self._objective.from_, "at_zero": list(self._objective.at_zero)}
        told = {key: value for key, value in self._captures.base.items() if self._app.config[key] != value}
        return found | ({"rounds": told} if told else {})

    def describe(self) -> dict[str, Any]:
        captured = self._captured({}, {}, {})
        return {
            "runtime": "flower app",
            "app": self._app.path.name,
            "clients": len(self._clients.hellos),
            "ordered_by": self._clients.by,
            "server": type(captured.strategy).__name__,
            "parameters": sum(int(array.size) for array in captured.arrays.values()),
            "deadline": self._post.deadline,
            **({"note": LOST} if self.plain else {}),
            "dropped": ", ".join(f"{what}: {count}" for what, count in self.dropped.items()),
        }

    def close(self) -> None:
        self._trials.clear()
        self._captures.close()
        super().close()
