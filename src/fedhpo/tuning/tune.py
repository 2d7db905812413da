"""`tune`: one call from a federation and a space to the best config, recorded and resumable."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.core.version import VERSION
from fedhpo.methods import Tuner, method_of
from fedhpo.methods.method import Method
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.federation import QUERY, Cost, Federation, Scores
from fedhpo.protocol.objective import Objective, metrics_of, natural_objective, paired_gain
from fedhpo.protocol.policy import LearningState
from fedhpo.run import Budget, Run
from fedhpo.run.recorded import Charged, RecordedFederation
from fedhpo.run.run import has_begun
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.personal import personalised
from fedhpo.search.private_setup import COVERS, check_scored, plan_private, private_objective
from fedhpo.search.search import TRAINING, Evaluation, Event, Search, StopTuning, Trial, check_cohort
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.tuning.arguments import (
    check_flag,
    check_mapping,
    check_text,
    check_world,
    checked_callbacks,
    checked_enqueue,
    checked_evaluator,
    checked_objective,
    checked_run,
    checked_seed,
    checked_timeout,
)
from fedhpo.tuning.model_file import keep_model
from fedhpo.tuning.predict import majority_note, named_clients, predictor_of, scores_of
from fedhpo.tuning.progress import shown_progress
from fedhpo.tuning.result import Result, Table
from fedhpo.tuning.verdict import Verdict, verdict_of
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
    cohort: int = 10,
    seed: int = 0,
    run: str | Path | None = None,
    objective: Objective | str | None = None,
    evaluation: Evaluator | None = None,
    metrics: Sequence[Any] = (),
    callbacks: Sequence[Callback] = (),
    timeout: float | None = None,
    enqueue: Sequence[Config | Mapping[str, Any]] = (),
    baseline: bool = False,
    progress: bool = False,
    study: Mapping[str, Any] | None = None,
    study_text: str | None = None,
    study_beside: Mapping[str, Any] | None = None,
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
        What is optimised ("accuracy", "error", "loss", of learners also "balanced_accuracy", or an
        `Objective`), and how it is observed: at which clients, with which noise and privacy. By default
        accuracy; of learners, what they score by; of other regression, the loss.
    metrics
        Further metrics to report: names, scorers of scikit-learn, or `fedhpo.Metric` objects, one of which an
        objective may name too. Each client computes them from outputs and targets when it evaluates.
    callbacks
        Called with an `Event` after whatever happens in the search; one that returns True, or raises
        `StopTuning`, stops the run.
    timeout
        Seconds after which the run stops. Like a run that was stopped by Ctrl-C, SIGTERM or a callback it can
        be resumed; the result then names the best trial so far.
    enqueue
        Configs to try right after trial 0; what they leave out is filled in with defaults.
    baseline
        Train trial 0 as long as the winner, on top of the total, so that the gain compares equals at
        the end rather than at the last round where both were scored.
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
    check_world(federation, space)
    chosen = method_of(method)
    if objective is None:
        objective = natural_objective(federation)
    objective, evaluator = checked_objective(objective), checked_evaluator(evaluation)
    federation.measure(wanted := metrics_of(objective, metrics, federation))
    check_scored(objective, federation, wanted)
    rounds = whole_number("rounds", rounds)
    total = 10 * rounds if total is None else whole_number("total", total)
    cohort, seed = whole_number("cohort", cohort), checked_seed(seed)
    callbacks, timeout, run = checked_callbacks(callbacks), checked_timeout(timeout), checked_run(run)
    check_flag("baseline", baseline)
    check_flag("progress", progress)
    check_mapping("study", study)
    check_text("study_text", study_text)
    check_cohort(cohort, len(federation.train_clients))
    if not len(federation.validation_clients):
        raise InputError("no client holds validation data: there is nothing to select by")
    federation.require(chosen.needs, chosen.name)
    if evaluator.personalised:
        federation.require({QUERY}, "a personalised score")
    privacy = evaluator.privacy
    if privacy is not None:
        objective = private_objective(objective, federation)
    enqueued = [space.default(), *checked_enqueue(enqueue, space)]
    facts = {
        "space": space.to_dict(),
        "method": chosen.to_dict(),
        "budget": {"rounds": rounds, "total": total, "cohort": cohort, "baseline": baseline},
        "seed": seed,
        "objective": objective.to_dict(),
        "evaluation": evaluator.to_dict(),
        "enqueue": [config.to_dict() for config in enqueued],
        "clients": [len(federation.train_clients), len(federation.validation_clients)],
        "study": None if study is None else dict(study),
        **({"metrics": [metric.name for metric in wanted]} if wanted else {}),
    }
    watch = Watch([*callbacks, *shown_progress(progress, run)], timeout)
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
    search.failures.tell, search.failures.names = watch.warn_of, federation.client_names
    chosen.rounds(search)  # refuses, before anything is written, a budget that cannot do
    if privacy is not None:
        plan_private(search, chosen, federation.validation_clients, baseline, federation.train_clients)
    with contextlib.ExitStack() as stack:
        kept = run is not None
        path = run if run is not None else Path(stack.enter_context(_scratch())) / "run"
        if not has_begun(path):
            federation.preflight(enqueued[0], objective.metric)
        limit = Budget(
            rounds=total + (rounds if baseline else 0), epsilon=None if privacy is None else privacy.epsilon
        )
        belongs = None if not kept else _belongs_to(federation, chosen, space)
        held = stack.enter_context(
            Run.create_or_open(
                path,
                facts,
                chosen.name,
                chosen.number,
                study_text,
                budget=limit,
                fingerprint=belongs,
                refusal=lambda old, new: refuses_more(chosen, old, new, rounds, private=privacy is not None),
            )
        )
        search.totals, held.ledger.earlier = held.totals, held.record.earlier
        if study_beside is not None:
            held.record.set(beside=study_beside)
        search.federation = recorded = RecordedFederation(
            federation if privacy is None else SealedFederation(federation),
            held.record,
            held.ledger,
            checkpoint_share=0.05 if kept else 0.0,
            commit_every=COMMIT_EVERY,
            on_event=lambda event: search.failures.take(event.items, replayed=event.replayed),
        )
        best: Trial | None
        reason, personal = "", None
        with watch.signals():
            try:
                best = chosen.run(search)
                if kept:
                    recorded.note_searched()
                compared, tests = _conclude(search, best, baseline)
                personal = _personal(search, _used(search, best, compared))
            except StopTuning as stop:
                reason = str(stop) or "a callback asked to stop"
                best, compared, tests = search.leader(), None, {}
                if kept:
                    recorded.checkpoint()
        outcome = _outcome(search, chosen, best, compared, tests) | {"personal": personal}
        used = None if best is None else _used(search, best, compared)
        if objective.metric == "loss" and federation.scoring is not None:
            outcome["objective"]["loss_is"] = f"1 - {federation.scoring}"
        outcome |= {"client_names": named_clients(federation), "space": space.to_dict()}
        outcome["note"] = majority_note(federation, objective, outcome["best"])
        outcome["status"] = "stopped" if reason else "finished"
        outcome["reason"] = reason
        outcome["times"] = {"wall_seconds": round(held.record.active_seconds, 3)}
        model = None
        if used is not None and hasattr(federation, "model") and used.number in recorded.trials:
            recorded.state(used.number)  # a run that was finished before is brought back here
            model = federation.model(used.number)
            keep_model(path if kept and not reason else None, federation, model, used.config.model)
        held.record.set(federation=federation.describe())
        if reason:
            held.record.set(so_far={"event": held.record.last, "result": outcome})
            held.stop(reason)
            rows = held.history()
        else:
            if kept:
                recorded.checkpoint()
            rows = held.finish(outcome)
        result = Result(
            outcome,
            Table(rows),
            path if kept else None,
            model,
            _policy(used),
            predictor_of(federation, model),
        )
        watch.tell("stop" if reason else "finish", search)
        return result


def _belongs_to(federation: Federation, method: Method | Tuner, space: Space) -> dict[str, Any]:
    """The fingerprint of a run: of its federation, and of what the method uses besides."""
    return {**federation.fingerprint(space.default().model), "method": method.fingerprint(space)}


def refuses_more(method: Method | Tuner, old: int, new: int, rounds: int, *, private: bool) -> str:
    """Why a run cannot go on from a total `old` to a larger one, `new`; empty if it can."""
    if private:
        return "epsilon was divided beforehand among the scores that the total allowed"
    return method.refuses_more(old, new, rounds)


def _policy(best: Trial | None) -> Any:
    """What the best trial's policy has learned, where it learns."""
    state = getattr(best, "policy", None)
    return state.learned if isinstance(state, LearningState) else None


def _distinct(configs: Sequence[Config]) -> list[Config]:
    return list(dict.fromkeys(configs))


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fedhpo-")


#: Gain, standard error, clients and round.
Gain = tuple[float, float, int, int]


def _conclude(search: Search, best: Trial, baseline: bool) -> tuple[Gain | None, dict[int, dict[str, Any]]]:
    """Compare the best trial with trial 0 at equal rounds, and score both on test data."""
    search.tell("chosen")
    search.concluding = True
    search.federation.record.set(search_rounds=search.ledger.cost.rounds)
    own = search.begin_own_again() if baseline else search.own
    if own is None:
        return None, _tested(search, [best.number])
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
    shown = [best] if own is best or own.round != best.round else [best, own]
    numbers = [trial.number for trial in shown if trial.number in search.federation.trials]
    return gain, _tested(search, numbers)


def _tested(search: Search, trials: list[int]) -> dict[int, dict[str, Any]]:
    """Test scores of each trial; of a private run only if the user wants them, and then recorded as means."""
    federation, privacy = search.federation, search.evaluator.privacy
    wanted = privacy is None or privacy.report_test
    if not trials or not len(federation.test_clients) or not wanted:
        return {}
    if privacy is None:
        scores = federation.evaluate(trials, federation.test_clients, "test")
        return {score.trial: _means(score, search.objective) for score in scores}

    def test() -> Charged:
        federation.state(trials[0])  # a run that is resumed right here brings its trials back
        scores = federation.inner.evaluate(trials, federation.test_clients, "test")
        means = [_means(score, search.objective) | {"outside_privacy": True} for score in scores]
        return Charged(means, sum((score.cost for score in scores), Cost()))

    return dict(zip(trials, federation.decide("test", {"trials": trials}, test), strict=True))


def _means(scores: Scores, objective: Objective) -> dict[str, Any]:
    """The objective on test data (`value`), and the means of accuracy and loss with its weights."""
    weighting: Literal["size", "uniform"] = "size" if objective.weighting == "size" else "uniform"
    return {
        "value": objective.observe(scores, 0, len(scores.clients)).value,
        "accuracy": scores.mean("accuracy", weighting),
        "loss": scores.mean("loss", weighting),
        **{name: scores.mean(name, weighting) for name in scores.metrics},
        "clients": int((scores.size > 0).sum()),
    }


def _gain(search: Search, best: Trial, own: Trial) -> Gain | None:
    """How much better the best trial is than the user's own, at the last round where both were scored.

    Client by client where the same ones scored both, else from the two scores, whose errors add up.
    """
    if own is best:
        return 0.0, 0.0, best.scores[-1].clients, best.round
    if search.evaluator.privacy is not None:
        return _private_gain(best, own)
    for ours in reversed(best.evaluations):
        rivals = [other for other in reversed(own.evaluations) if other.round == ours.round]
        # Those of the same evaluation first: they saw the same.
        for other in sorted(rivals, key=lambda other: other.number != ours.number):
            if set(other.scores.clients.tolist()) == set(ours.scores.clients.tolist()):
                return (*paired_gain(search.objective, ours.scores, other.scores), ours.round)
        if rivals:
            return _apart(search, ours, rivals[0])
    return None


def _apart(search: Search, ours: Evaluation, other: Evaluation) -> Gain:
    """The gain where other clients scored the one than the other."""
    population = len(search.federation.validation_clients)
    mine, theirs = (search.objective.observe(e.scores, e.round, population) for e in (ours, other))
    error = math.hypot(mine.standard_error, theirs.standard_error)
    gain = mine.value - theirs.value if search.objective.maximise else theirs.value - mine.value
    return gain, error, min(mine.clients, theirs.clients), ours.round


def _private_gain(best: Trial, own: Trial) -> Gain | None:
    """The same from released scores alone, their errors taken as independent."""
    theirs = {score.round: score for score in own.scores if math.isfinite(score.value)}
    for ours in reversed(best.scores):
        other = theirs.get(ours.round)
        if other is not None and math.isfinite(ours.value):
            error = math.hypot(ours.standard_error, other.standard_error)
            return other.rank_value - ours.rank_value, error, min(ours.clients, other.clients), ours.round
    return None


def _outcome(
    search: Search,
    method: Method | Tuner,
    best: Trial | None,
    gain: Gain | None,
    tests: Mapping[int, dict[str, Any]],
) -> dict[str, Any]:
    """What result.json holds, but for how the run ended."""
    own = search.own
    spent, earlier = search.ledger.spent, search.ledger.earlier
    counted = ("rounds", "client_rounds", "bytes_down", "bytes_up", "samples", "evaluations")
    trained = sum(trial.trained for trial in {*search.trials, *([own] if own else [])})
    total = search.totals[-1] if search.totals else search.total + search.rounds_before
    # The budget pays for the search; the user's own config, trained to the end to compare, comes on top.
    searched = int(spent["rounds"]) - search.baseline_rounds
    return {
        "fedhpo": VERSION,
        "method": method.to_dict(),
        **search.facts,
        "seed": search.seed,
        "objective": search.objective.to_dict(),
        "evaluation": search.evaluator.to_dict(),
        "privacy": _privacy(search),
        "best": None if best is None else _shown(best, tests) | scores_of(search, best),
        "baseline": None if own is None else _shown(own, tests),
        "gain": _named(gain),
        "verdict": _verdict(search, best, gain).to_dict(),
        "trials": [
            {
                "trial": trial.number,
                "config": trial.config.to_dict(),
                "status": trial.status,
                "rounds": trial.round,
                "score": shown.get("value"),
                "standard_error": shown.get("standard_error"),
                "reason": trial.reason,
                "path": _path(trial),
            }
            for trial in search.trials
            for shown in [trial.score.to_dict() if trial.score else {}]
        ],
        "tried": {scope: len(vectors) for scope, vectors in search.tried.items()},
        "policies": [
            {"trial": trial.number, **trial.policy.history()}
            for trial in search.trials
            if isinstance(trial.policy, LearningState)
        ],
        "cost": {name: int(spent[name] + earlier.get(name, 0)) for name in counted}
        | {
            "rounds": searched,
            "baseline_rounds": search.baseline_rounds,
            "all_rounds": int(spent["rounds"] + earlier.get("rounds", 0)),
            "budget": {"rounds": total},
            "unspent_rounds": total - searched,
            "rounds_before": search.rounds_before,
            "repeated_rounds": int(spent["rounds"]) - search.rounds_before - trained,
            # Comparison and test scores of smaller totals, which were done anew; part of the sums above.
            "earlier_conclusions": {name: int(earlier.get(name, 0)) for name in counted} if earlier else None,
        },
        "failures": search.failures.to_list(),
        "totals": search.totals,
    }


def _named(gain: Gain | None) -> dict[str, Any] | None:
    names = ("value", "standard_error", "clients", "round")
    return None if gain is None else dict(zip(names, gain, strict=True))


def _verdict(search: Search, best: Trial | None, gain: Gain | None) -> Verdict:
    named = None if best is None else {"trial": best.number, "rounds": best.round}
    first = [{"path": _path(trial)} for trial in search.trials[:1]]
    return verdict_of({"best": named, "gain": _named(gain), "trials": first})


def _used(search: Search, best: Trial, gain: Gain | None) -> Trial:
    """The trial whose config and model are to be used: the user's own where tuning did not improve on it."""
    return search.own or best if _verdict(search, best, gain).use == "own" else best


def _path(trial: Trial) -> list[dict[str, Any]]:
    """The configs that a trial trained under, from its first; empty where there was only one."""
    if not trial.replacements:
        return []
    begun = {"round": 0, "source": None, "score": None, "source_score": None, "reason": ""}
    changes = [vars(change) | {"config": change.config.to_dict()} for change in trial.replacements]
    return [begun | {"config": trial.first.to_dict()}, *changes]


def _privacy(search: Search) -> dict[str, Any] | None:
    """How scores were kept private, and what was spent; None where they were not."""
    settings = search.channel.to_dict()
    if settings is None:
        return None
    return settings | {"epsilon_spent": search.ledger.epsilon, "covers": COVERS}


def _personal(search: Search, best: Trial) -> dict[str, Any] | None:
    """Personalised scores of the best trial, where they are wanted."""
    if not search.evaluator.personalised or best.number not in search.federation.trials:
        return None
    return personalised(search.federation, best.number, _deployed(best).client)


def _deployed(trial: Trial) -> Config:
    """The trial's config with the client hyperparameters to deploy."""
    state = trial.policy
    return state.deployed(trial.config) if isinstance(state, LearningState) else trial.config


def _shown(trial: Trial, tests: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "config": _deployed(trial).to_dict(),
        "rounds": trial.round,
        "validation": trial.score.to_dict() if trial.score else None,
        "test": tests.get(trial.number),
    }
