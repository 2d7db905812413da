"""`tune`: one call from a federation and a space to the best config, recorded and resumable."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fedhpo
from fedhpo.config import Config
from fedhpo.errors import InputError
from fedhpo.evaluation import Evaluator, Objective, paired_gain
from fedhpo.federation.protocol import Federation, Scores
from fedhpo.federation.recorded import RecordedFederation
from fedhpo.methods import Method, Tuner, method_of
from fedhpo.result import Result, Table
from fedhpo.run import Budget, Run
from fedhpo.search import TRAINING, Event, Search, StopTuning, Trial, check_cohort
from fedhpo.space import Space

#: Seconds of rounds and evaluations that one transaction of the record may hold, and a crash may cost.
COMMIT_EVERY = 0.25

Callback = Callable[[Event], Any]


def tune(
    federation: Federation,
    space: Space,
    method: str | Method | Tuner | None = None,
    *,
    rounds: int,
    total: int | None = None,
    cohort: int = 10,
    seed: int = 0,
    run: str | Path | None = None,
    objective: Objective | str | None = None,
    evaluation: Evaluator | None = None,
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    enqueue: Sequence[Config | Mapping[str, Any]] = (),
    baseline: bool = False,
    study: Mapping[str, Any] | None = None,
    study_text: str | None = None,
) -> Result:
    """Find good hyperparameters for a federation within a budget of communication rounds.

    Parameters
    ----------
    federation
        Where training happens; see `fedhpo.simulate`.
    space
        What may be tuned. Trial 0 is the user's own config: the space's defaults and fixed values.
    method
        A name from `fedhpo.methods.METHODS` ("sha", "random", "tpe", ...), or a method with its settings;
        successive halving by default.
    rounds
        The length of one full training.
    total
        The rounds to spend over all trials; 10 times `rounds` by default.
    cohort
        How many clients train in a round.
    run
        A directory that keeps the run. If the run is there already, it is resumed, or, if it had
        finished, its result comes back at once. Without it nothing is kept.
    objective, evaluation
        What is optimised ("accuracy", "error", "loss" or an `Objective`), and at which clients it is
        observed.
    callbacks
        Called with an `Event` after whatever happens in the search; one that returns True, or raises
        `StopTuning`, stops the run.
    timeout
        Seconds after which the run stops. Like a run that was stopped by Ctrl-C or by a callback it can be
        resumed; the result then names the best trial so far.
    enqueue
        Configs to try right after trial 0; what they leave out is filled in with defaults.
    baseline
        Train trial 0 as long as the winner, on top of the total, so that the gain compares equals at
        the end rather than at the last round where both were scored.

    Examples
    --------
    >>> import fedhpo as fh
    >>> federation = fh.simulate("mlp", fh.load("digits", clients=20), workers=0)
    >>> space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
    >>> result = fh.tune(federation, space, fh.RandomSearch(trials=3), rounds=5, total=15, cohort=5)
    >>> len(result.trials), result.cost["rounds"]
    (3, 15)
    """
    chosen = method_of(method)
    objective = Objective(objective) if isinstance(objective, str) else objective or Objective()
    evaluator = evaluation or Evaluator()
    _check_whole("rounds", rounds)
    total = 10 * rounds if total is None else total
    _check_whole("total", total)
    check_cohort(cohort, len(federation.train_clients))
    if not len(federation.validation_clients):
        raise InputError("no client holds validation data: there is nothing to select by")
    federation.require(chosen.needs, chosen.name)
    enqueued = [space.default(), *(space.complete(config) for config in enqueue)]
    facts = {
        "space": space.to_dict(),
        "method": chosen.to_dict(),
        "budget": {"rounds": rounds, "total": total, "cohort": cohort, "baseline": baseline},
        "seed": seed,
        "objective": objective.to_dict(),
        "evaluation": {"clients": evaluator.clients},
        "enqueue": [config.to_dict() for config in enqueued],
        "clients": [len(federation.train_clients), len(federation.validation_clients)],
        "study": None if study is None else dict(study),
    }
    watch = _Watch(callbacks, timeout)
    search = Search(
        space,
        rounds=rounds,
        total=total,
        cohort=cohort,
        seed=seed,
        objective=objective,
        evaluator=evaluator,
        enqueued=_distinct(enqueued),
        pool=getattr(federation, "pool", None),
        keep_baseline=baseline,
        on_event=watch,
    )
    chosen.rounds(search)  # refuses, before anything is written, a budget that cannot do
    with contextlib.ExitStack() as stack:
        kept = run is not None
        path = Path(run) if run is not None else Path(stack.enter_context(_scratch())) / "run"
        limit = Budget(rounds=total + (rounds if baseline else 0))
        held = stack.enter_context(
            Run.create_or_open(path, facts, chosen.name, chosen.number, study_text, budget=limit)
        )
        search.federation = recorded = RecordedFederation(
            federation,
            held.record,
            held.ledger,
            checkpoint_share=0.05 if kept else 0.0,
            commit_every=COMMIT_EVERY,
        )
        best: Trial | None
        reason = ""
        with watch.interrupts():
            try:
                best = chosen.run(search)
                best, compared, tests = _conclude(search, best, baseline)
            except StopTuning as stop:
                reason = str(stop) or "a callback asked to stop"
                best, compared, tests = search.leader(), None, {}
                if kept:
                    recorded.checkpoint()
        outcome = _outcome(search, chosen, best, compared, tests)
        outcome["status"] = "stopped" if reason else "finished"
        outcome["reason"] = reason
        outcome["times"] = {"wall_seconds": round(held.record.active_seconds, 3)}
        model = None
        if best is not None and hasattr(federation, "model") and best.number in recorded.trials:
            recorded.state(best.number)  # a run that was finished before is brought back here
            model = federation.model(best.number)
        held.record.set(federation=federation.describe())
        if reason:
            held.stop(reason)
        else:
            if kept:
                recorded.checkpoint()
            held.finish(outcome)
        result = Result(
            outcome, Table(held.history()), path if kept else None, model, getattr(best, "policy", None)
        )
        watch.tell("stop" if reason else "finish", search)
        return result


def _check_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


def _distinct(configs: Sequence[Config]) -> list[Config]:
    return list(dict.fromkeys(configs))


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fedhpo-")


def _conclude(
    search: Search, best: Trial, baseline: bool
) -> tuple[Trial, tuple[float, float, int, int] | None, dict[int, Scores]]:
    """Compare the best trial with trial 0 at equal rounds, and score both on test data."""
    own = search.trials[0]
    alive = set(search.federation.trials)
    if baseline and {own.number, best.number} <= alive and own is not best and own.round < best.round:
        status, own.status = own.status, TRAINING
        before = search.ledger.cost.rounds
        search.train([own], best.round)
        search.baseline_rounds = search.ledger.cost.rounds - before
        if own.status == TRAINING:
            own.status = status
            search.evaluate([best, own])
    gain = _gain(search, best, own)
    tests = {}
    shown = [best] if own is best or own.round != best.round else [best, own]
    numbers = [trial.number for trial in shown if trial.number in search.federation.trials]
    if numbers and len(search.federation.test_clients):
        scores = search.federation.evaluate(numbers, search.federation.test_clients, "test")
        tests = {score.trial: score for score in scores}
    return best, gain, tests


def _gain(search: Search, best: Trial, own: Trial) -> tuple[float, float, int, int] | None:
    """Gain, standard error, clients and round, from the last evaluation that both took part in."""
    if own is best:
        return 0.0, 0.0, best.scores[-1].clients, best.round
    theirs = {evaluation.number: evaluation for evaluation in own.evaluations}
    for ours in reversed(best.evaluations):
        other = theirs.get(ours.number)
        if other is not None and other.round == ours.round:
            return (*paired_gain(search.objective, ours.scores, other.scores), ours.round)
    return None


def _outcome(
    search: Search,
    method: Method | Tuner,
    best: Trial | None,
    gain: tuple[float, float, int, int] | None,
    tests: Mapping[int, Scores],
) -> dict[str, Any]:
    """What result.json holds, but for how the run ended."""
    own = search.trials[0] if search.trials else None
    spent = search.ledger.spent
    counted = ("rounds", "client_rounds", "bytes_down", "bytes_up", "samples", "evaluations")
    trained = sum(trial.round for trial in search.trials)
    return {
        "fedhpo": fedhpo.__version__,
        "method": method.to_dict(),
        "seed": search.seed,
        "objective": search.objective.to_dict(),
        "best": None if best is None else _shown(best, tests),
        "baseline": None if own is None else _shown(own, tests),
        "gain": None
        if gain is None
        else dict(zip(("value", "standard_error", "clients", "round"), gain, strict=True)),
        "trials": [
            {
                "trial": trial.number,
                "config": trial.config.to_dict(),
                "status": trial.status,
                "rounds": trial.round,
                "score": trial.score.value if trial.score else None,
                "standard_error": trial.score.standard_error if trial.score else None,
                "reason": trial.reason,
            }
            for trial in search.trials
        ],
        "cost": {name: int(spent[name]) for name in counted}
        | {
            "budget": {"rounds": search.total},
            "unspent_rounds": search.total + search.baseline_rounds - int(spent["rounds"]),
            "baseline_rounds": search.baseline_rounds,
            "repeated_rounds": int(spent["rounds"]) - trained,
        },
    }


def _shown(trial: Trial, tests: Mapping[int, Scores]) -> dict[str, Any]:
    test = tests.get(trial.number)
    return {
        "trial": trial.number,
        "config": trial.config.to_dict(),
        "rounds": trial.round,
        "validation": trial.score.to_dict() if trial.score else None,
        "test": None
        if test is None
        else {
            "accuracy": test.mean("accuracy"),
            "loss": test.mean("loss"),
            "clients": int((test.size > 0).sum()),
        },
    }


class _Watch:
    """Tells callbacks what happens, and stops the search when one of them, the clock or Ctrl-C says so."""

    def __init__(self, callbacks: Sequence[Callback], timeout: float | None) -> None:
        if timeout is not None and not timeout > 0:
            raise InputError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._callbacks = callbacks
        self._end = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._interrupted = False

    def __call__(self, event: Event) -> None:
        asked = [callback(event) for callback in self._callbacks]
        if event.replayed:
            return
        if self._interrupted:
            raise StopTuning("interrupted")
        if any(answer is True for answer in asked):
            raise StopTuning("a callback asked to stop")
        if self._end is not None and time.monotonic() > self._end:
            raise StopTuning(f"the time limit of {self._timeout:g} s is over")

    def tell(self, kind: str, search: Search) -> None:
        """A last word to the callbacks; nothing is left to stop."""
        for callback in self._callbacks:
            with contextlib.suppress(StopTuning):
                callback(Event(kind, search, replayed=False))

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """The first Ctrl-C stops after the round under way; the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def note(*_: object) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
