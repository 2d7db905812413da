"""A small straight-line method over a toy federation, as a program that can be killed.

    python small_method.py DIRECTORY [PAUSE]

It uses everything that is recorded: rounds of several trials, submit and next_done, forks, stops,
evaluations, queries and decisions. Prints the result as JSON.
"""

import json
import sys
from dataclasses import asdict
from functools import partial

import numpy as np

from fedhpo.protocol.federation import Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation

TRIALS, ROUNDS = 6, 24


def method(federation, *, rounds=ROUNDS, factor=1.0, seed=100, first="round"):
    """Trains, exchanges and stops trials; returns something that depends on all of it."""
    generator = np.random.default_rng(7)

    def ask(trial):
        return {"lr": factor * 10.0 ** np.random.default_rng([7, trial]).uniform(-3, 0)}

    configs = [federation.decide("ask", {"trial": t}, partial(ask, t)) for t in range(TRIALS)]
    trials = list(range(TRIALS))
    seen = []
    for trial in trials:
        federation.start(trial, {"width": 2}, seed=seed + trial)
    if first == "evaluate":
        federation.evaluate(trials, [0])
    for number in range(rounds):
        cohorts = [generator.choice(20, 5, replace=False).tolist() for _ in trials]
        works = [Work(t, c, configs[t], {"lr": 0.5}) for t, c in zip(trials, cohorts, strict=True)]
        if number % 3 == 2:
            for work in works:
                federation.submit(work)
            reports = [federation.next_done() for _ in works]
        else:
            reports = federation.round(works)
        reports.sort(key=lambda report: report.trial)
        seen += [report.mean("loss_after") for report in reports]
        if number % 4 == 3:
            scores = federation.evaluate(trials, federation.validation_clients)
            order = [s.trial for s in sorted(scores, key=lambda s: s.mean("loss"))]
            federation.fork(order[0], order[-1])
            configs[order[-1]] = {"lr": configs[order[0]]["lr"] * 1.1}
            if len(trials) > 3:
                federation.stop(order[-2])
                trials.remove(order[-2])
    answers = federation.query(FineTune(trials[0], {}), [3, 1])
    final = federation.evaluate(trials, [1, 2, 3], "test")
    weights = {t: federation.state(t).arrays["weights"].tolist() for t in trials}
    return {
        "seen": seen,
        "trials": trials,
        "answers": [answer.content for answer in answers],
        "final": [scores.loss.tolist() for scores in final],
        "weights": weights,
    }


def main(directory, pause=0.0, **options):
    """Begin or resume the run in `directory`."""
    with Run.create_or_open(directory, {"seed": 7}, "small", 1) as run:
        inner = ToyFederation(missing=0.1, seconds=pause, **options)
        federation = RecordedSession(inner, run.record, run.ledger)
        result = method(federation)
        result["spent"] = asdict(run.ledger.cost)
        run.finish(result)
        return result


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(float, sys.argv[2:]))))
