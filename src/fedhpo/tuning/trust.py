"""What a run over real clients trusts them with: how its choice is made, and the line that says so.

The rule that a run chooses by is settled when it begins, and kept in its record: a run that was begun by a
version without trimmed choices goes on by means.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Federation
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.paired import LEAST

if TYPE_CHECKING:
    from fedhpo.run import Run
    from fedhpo.search.search import Search

#: The fact of a run's record that names how it chooses; without it, by means.
CHOICE = "choice"
#: The fact that holds the line; a run of an older version has none, and its result keeps its bytes.
TRUST = "trust"
_TRIMMED = (
    f"trials are compared without the eighth of the clients at either end, from {LEAST} replies on "
    "(evaluation.choice = 'mean' switches it off); reported scores are means"
)
_UNGUARDED = (
    "Not guarded: scores inside rounds (FedEx, FedPop), FedTune, local searches (FTS, and FLoRA below "
    f"{LEAST} parties), private runs, tail and worst"
)


def check_choice(search: Search, federation: Federation, method: str, trained: int) -> None:
    """Refuse a choice that would change nothing; `trained` are the rounds that the method plans."""
    evaluator, objective = search.evaluator, search.objective
    one = trained <= search.rounds and not search.keeps_baseline
    if evaluator.bias_per != Evaluator.bias_per and (one or method == "fedpop-authors-code"):
        why = "trains one trial" if one else "scores one trial at a time"
        said = f"evaluation.bias_per = {evaluator.bias_per!r}: has no effect with {method}, which {why}"
        refuse([f"{said}: leave it out"])
    if evaluator.bias and federation.own_metrics and not objective.maximise:
        refuse(
            [
                f"evaluation.bias = {evaluator.bias:g}: has no effect, as clients reply by their accuracy "
                f"and {objective.metric!r} is a loss: leave it out"
            ]
        )
    if evaluator.choice is None:
        return
    # FLoRA leaves parties out of its surface by the same setting: see `fedhpo.methods.flora`.
    parties = method == "flora" and len(federation.train_clients) >= LEAST
    if one and not parties:
        refuse(
            [
                f"evaluation.choice = {evaluator.choice!r}: has no effect with {method}, which trains one "
                "trial: leave it out, or write baseline = true in [budget] to compare it with your own config"
            ]
        )
    if not objective.by_client:
        raise InputError(
            f"evaluation.choice = {evaluator.choice!r}: has no effect with objective.from = "
            f"{objective.from_!r}, which gives one score for all clients: leave it out"
        )
    if objective.over != "mean" or objective.pooled:
        why = f"over = {objective.over!r}" if objective.over != "mean" else "pooled = true"
        raise InputError(
            f"evaluation.choice = {evaluator.choice!r}: has no effect with objective.{why}, which says how "
            "trials are compared: leave it out"
        )
    asked = evaluator.count(len(federation.validation_clients))
    if evaluator.choice == "trimmed" and asked < LEAST:
        raise InputError(
            f"evaluation.choice = 'trimmed': needs {LEAST} clients that score, and {asked} are asked: leave "
            "it out, or use objective.over = 'median'"
        )


def settle_choice(search: Search, federation: Federation, run: Run) -> None:
    """How this run chooses, from now on: as its record says, or, where it begins, by what is usual there."""
    evaluator, record = search.evaluator, run.record
    if evaluator.choice is None and federation.trust and not record.last and _can_trim(search, federation):
        record.set(**{CHOICE: "trimmed"})
    kept = record.get(CHOICE)
    if kept is not None:
        search.evaluator = replace(evaluator, choice=kept)


def _can_trim(search: Search, federation: Federation) -> bool:
    evaluator, objective = search.evaluator, search.objective
    enough = evaluator.count(len(federation.validation_clients)) >= LEAST
    return evaluator.privacy is None and enough and replace(evaluator, choice="trimmed").trims(objective)


def trust_of(search: Search, federation: Federation) -> str:
    """In one line, what hostile clients can do in this run; empty in a simulation."""
    if not federation.trust:
        return ""
    if search.evaluator.trims(search.objective):
        choice = _TRIMMED
    elif search.objective.robust:
        choice = f"trials are compared by the {search.objective.over} of each client's differences"
    else:
        choice = "one client that lies about scores can move the choice"
    return f"Clients are real: {choice}. Training: {federation.trust}. {_UNGUARDED}. See docs/robust.md"


def say_better(method: Any, run: Run) -> None:
    """Where a run of a paper's own algorithm begins, say which variant did better in our comparisons."""
    line = getattr(method, "better", "")
    if line and not run.record.last:
        _say_once(line)


@cache
def _say_once(line: str) -> None:
    """Once in a process: a comparison runs the same method many times."""
    print(line, file=sys.stderr, flush=True)


def say_trust(search: Search, federation: Federation, run: Run) -> None:
    """Say it where progress is shown; a run that begins keeps it for its result."""
    line = trust_of(search, federation)
    if line:
        if not run.record.last:
            run.record.set(**{TRUST: line})
        print(line, file=sys.stderr, flush=True)
