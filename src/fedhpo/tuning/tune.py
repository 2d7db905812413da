"""`tune`: one call from a federation and a space to the best config, recorded and resumable."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fedhpo.core.version import NUMBERS
from fedhpo.methods import Tuner
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.failures import Failures
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.outcome import Outcome
from fedhpo.protocol.policy import learned_by
from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.run.run import begun_study, has_begun
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.events import Event, StopTuning
from fedhpo.search.keeping import Keep
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.tuning.arguments import (
    check_flag,
    check_world,
    checked_callbacks,
    checked_enqueue,
    checked_interrupt,
    checked_run,
    checked_timeout,
    searched_space,
)
from fedhpo.tuning.card import write_card
from fedhpo.tuning.conclusion import Conclusion, conclude
from fedhpo.tuning.model_file import keep_model
from fedhpo.tuning.origin import Origin, taken_origin
from fedhpo.tuning.outcome import outcome_of
from fedhpo.tuning.predict import majority_note, named_clients, predictor_of, scores_of
from fedhpo.tuning.progress import shown_progress
from fedhpo.tuning.result import Result, Table
from fedhpo.tuning.setup import Prepared, prepare
from fedhpo.tuning.shared_budget import SharedBudget, shared_budget
from fedhpo.tuning.trust import TRUST, say_better, say_trust, settle_choice
from fedhpo.tuning.watch import Watch

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
    cohort: int | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    objective: Objective | str | None = None,
    objectives: Sequence[Objective | str | Mapping[str, Any]] | None = None,
    constraints: Sequence[str] = (),
    evaluation: Evaluator | None = None,
    metrics: Sequence[Any] = (),
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    on_interrupt: Literal["raise", "return"] = "raise",
    enqueue: Sequence[Config | Mapping[str, Any]] = (),
    baseline: bool = False,
    horizon: Literal["full", "rung"] = "full",
    keep: Keep = "last",
    stop: Literal["decided"] | None = None,
    margin: float | None = None,
    progress: bool = False,
) -> Result:
    """Find good hyperparameters for a federation within a budget of communication rounds.

    Parameters
    ----------
    federation
        Where training happens; see `fedhpo.simulate`.
    space
        What may be tuned. Trial 0 is the user's own config: the space's defaults and fixed values.
    method
        A name ("sha", "tpe", ..., or your own "package.module:Name"), or a method with its settings;
        `auto` by default, which chooses by rule and says why.
    rounds
        The length of one full training.
    total
        The rounds to spend over all trials; 10 times `rounds` by default.
    cohort
        How many clients train in a round; 10 by default, or all where there are fewer.
    run
        A directory that keeps the run. If the run is there already, it is resumed, or, if it had
        finished, its result comes back at once. Without it nothing is kept.
    objective, evaluation
        What is optimised ("accuracy", "error", "loss", of learners also "balanced_accuracy", or an
        `Objective`), and how it is observed: at which clients, with which noise and privacy. By default
        accuracy; of learners, what they score by; of other regression, the loss.
    objectives
        Several, in place of `objective`: names such as "accuracy", "accuracy_tail" (the worst tenth of
        clients), "loss_worst", "bytes_up" or "samples", or `Objective` objects. `result.pareto` are the
        trials that none beats in all of them. The best trial is that of the first, which must be a score.
    constraints
        Limits such as "bytes_up <= 1e6" or "accuracy_worst >= 0.5"; a trial that breaks one loses to all that
        keep them.
    metrics
        Further metrics to report: names, scorers of scikit-learn, or `fedhpo.Metric` objects, one of which an
        objective may name too. Each client computes them from outputs and targets when it evaluates.
    callbacks
        Called with an `Event` after whatever happens in the search; one that returns True, or raises
        `StopTuning`, stops the run.
    timeout
        Seconds after which the run stops and its result so far comes back, as after a callback that stops.
    on_interrupt
        Ctrl-C stops the run after the round under way and raises `KeyboardInterrupt`; with "return" the
        result so far comes back instead. SIGTERM stops it too, and ends the process with exit code 143.
    enqueue
        Configs to try right after trial 0; what they leave out is filled in with defaults.
    baseline
        Train trial 0 as long as the winner, on top of the total, so that the gain compares equals at
        the end rather than at the last round where both were scored.
    horizon
        Where schedules over rounds end (`lr_schedule`, an app's own) in a trial that is cut short: with
        "full" at the end of a full training, with "rung" at the end of its rung. It is then trained anew, in
        rounds that count, to go on to the next.
    keep
        Which model of the winner's training is kept: the "last", the "mean" or an "exponential" average over
        the last fifth of its rounds, or the "best" of that fifth by its scores. An average costs one more
        evaluation; see `fedhpo.search.keeping`.
    stop, margin
        With "decided" the race of `robust` (and of `auto`) ends when the chance that its leader is worse than
        another finalist by more than `margin` (0.01) is below 5%, a bound that holds at every look; see
        `fedhpo.search.decided`.
    progress
        Show how it goes: a bar in a terminal, in a notebook a line that is drawn anew, else plain lines.

    Examples
    --------
    >>> import fedhpo as fh
    >>> federation = fh.simulate("mlp", fh.load("digits", clients=20), workers=0)
    >>> space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
    >>> result = fh.tune(federation, space, fh.RandomSearch(trials=3), rounds=5, total=15, cohort=5)
    >>> len(result.trials), result.cost["rounds"]
    (3, 15)
    """
    origin = taken_origin()
    check_world(federation, space)
    space = searched_space(space, federation)
    kept = checked_run(run)
    check_flag("baseline", baseline)
    check_flag("progress", progress)
    heard = [*checked_callbacks(callbacks), *shown_progress(progress, kept)]
    watch = Watch(heard, checked_timeout(timeout), checked_interrupt(on_interrupt))
    prepared = prepare(
        federation,
        space,
        method,
        rounds=rounds,
        total=total,
        cohort=cohort,
        seed=seed,
        objective=objective,
        objectives=objectives,
        constraints=constraints,
        evaluation=evaluation,
        metrics=metrics,
        enqueued=[space.default(), *checked_enqueue(enqueue, space, federation.about.pool)],
        baseline=baseline,
        horizon=horizon,
        keep=keep,
        stop=stop,
        margin=margin,
        on_event=watch,
        failures=Failures(watch.warn_of, federation.client_names),
        begun=begun_study(kept),
    )
    facts = {**prepared.facts(federation), "study": None if origin.study is None else dict(origin.study)}
    with watch.signals():
        return _run(prepared, federation, kept, facts, origin, watch)


def _run(
    prepared: Prepared,
    federation: Federation,
    kept: Path | None,
    facts: Mapping[str, Any],
    origin: Origin,
    watch: Watch,
) -> Result:
    """Begin or resume the run, search, and write what came of it."""
    shared = shared_budget(prepared, federation)
    with contextlib.ExitStack() as stack:
        path = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedhpo-"))) / "run"
        if shared is not None and not has_begun(path):
            shared.require()
        opened = _opened(path, prepared, facts, federation, origin, kept=kept is not None)
        held = stack.enter_context(opened)
        if origin.beside is not None:
            held.record.set(beside=origin.beside)
        if shared is not None:
            shared.take(held)
        settle_choice(prepared.search, federation, held)
        say_trust(prepared.search, federation, held)
        say_better(prepared.method, held)
        session = _session(federation, held, prepared, shared, kept=kept is not None)
        prepared.begin(session, held.totals)
        watch.begin()
        found, reason = _searched(prepared, session)
        return _finished(prepared, session, held, federation, found, reason, watch, shared)


def _opened(
    path: Path,
    prepared: Prepared,
    facts: Mapping[str, Any],
    federation: Federation,
    origin: Origin,
    *,
    kept: bool,
) -> Run:
    """The run at this path, begun or resumed."""
    method, search = prepared.method, prepared.search
    if not has_begun(path):
        federation.preflight(prepared.enqueued[0], search.objective.metric)
    run = Run.create_or_open(
        path,
        facts,
        method.name,
        method.number,
        origin.text,
        budget=prepared.budget,
        fingerprint=_belongs_to(federation, method, search.space) if kept else None,
        refusal=lambda old, new: refuses_more(method, old, new, search.rounds, private=prepared.private),
        numbers=_numbers(federation, prepared),
    )
    run.ledger.earlier = run.record.earlier
    return run


def _session(
    federation: Federation, held: Run, prepared: Prepared, shared: SharedBudget | None, *, kept: bool
) -> RecordedSession:
    """The session of the run; a private one keeps scores of rounds back."""
    failures = prepared.search.failures
    return RecordedSession(
        SealedFederation(federation) if prepared.private else federation,
        held.record,
        held.ledger,
        checkpoint_share=0.05 if kept else 0.0,
        commit_every=COMMIT_EVERY,
        on_event=lambda event: failures.take(event.items, replayed=event.replayed),
        kept=kept,
        pay=None if shared is None else shared.pay,
    )


def _searched(prepared: Prepared, session: RecordedSession) -> tuple[Conclusion, str]:
    """Run the method and compare what it found; with the reason, if it was stopped on the way."""
    search = prepared.search
    try:
        best = prepared.method.run(search)
        search.settle(best)
        if session.kept:
            session.note_searched()
        search.conclude()
        session.record.set(search_rounds=search.ledger.cost.rounds)
        return conclude(search, best, prepared.baseline), ""
    except StopTuning as stop:
        if session.kept:
            session.checkpoint()
        return Conclusion(search.leader()), str(stop) or "a callback asked to stop"


def _finished(
    prepared: Prepared,
    session: RecordedSession,
    held: Run,
    federation: Federation,
    found: Conclusion,
    reason: str,
    watch: Watch,
    shared: SharedBudget | None,
) -> Result:
    """Write the result, and give it back."""
    search, used = prepared.search, found.used(prepared.search)
    outcome = outcome_of(search, prepared.method, found, federation.scoring, reason)
    outcome["client_names"] = named_clients(federation)
    if trust := held.record.get(TRUST):
        outcome[TRUST] = trust
    outcome["note"] = majority_note(federation, search.objective, outcome["best"])
    if used is not None and (bounds := search.space.at_bounds(used.config)):
        outcome["bounds"] = bounds
    if said := (held.record.get("beside") or {}).get("said"):
        outcome["said"] = said
    if shared is not None:  # a run that was stopped may go on, and keeps what it took
        stays = bool(reason) and session.kept
        outcome["privacy"]["over_runs"] = shared.to_dict() if stays else shared.settle()
    outcome["times"] = {"wall_seconds": held.wall_seconds}
    model, kept = None, False
    if used is not None and used.number in session.trials:
        session.wake(used.number)  # a run that was finished before is brought back here
        model = federation.model(used.number)
        place = held.path if session.kept and not reason else None
        kept = keep_model(place, federation, model, used.config.model)
    held.record.set(federation=federation.describe())
    if reason:
        held.record.set(so_far={"event": held.record.last, "result": outcome})
        held.stop(reason)
        rows = held.history()
    else:
        if session.kept:
            session.checkpoint()
        rows = held.finish(outcome)
    policy = None if used is None else learned_by(used.policy)
    path = held.path if session.kept else None
    result = Result(Outcome(outcome), Table(rows), path, model, policy, predictor_of(federation, model))
    if kept and used is not None:
        write_card(result, federation.describe(), scores_of(search, used))
    watch.tell("stop" if reason else "finish", search)
    return result


def _numbers(federation: Federation, prepared: Prepared) -> dict[str, int]:
    """The numbers on which the results of such a run depend, besides the method's own."""
    search = prepared.search
    apply = {
        "engine": True,
        "privacy": prepared.private,
        "remote": federation.remote,
        "fold": federation.remote and federation.folds(search.cohort, search.space.default().model),
        "rows": federation.by_rows(search.space.default().model),
        "cuts": federation.cut_by_cost,
    }
    return {what: NUMBERS[what] for what, applies in apply.items() if applies}


def _belongs_to(federation: Federation, method: Method | Tuner, space: Space) -> dict[str, Any]:
    """The fingerprint of a run: of its federation, and of what the method uses besides."""
    return {**federation.fingerprint(space.default().model), "method": method.fingerprint(space)}


def refuses_more(method: Method | Tuner, old: int, new: int, rounds: int, *, private: bool) -> str:
    """Why a run cannot go on from a total `old` to a larger one, `new`; empty if it can."""
    if private:
        return "epsilon was divided beforehand among the scores that the total allowed"
    return method.refuses_more(old, new, rounds)
