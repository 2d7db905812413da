"""Is successive halving worth it? Its winner against its own random trials, all trained to the end.

    FEDHPO_DATA=/path/to/data python benchmarks/halving.py examples/femnist.toml [--trials N] [--json]

Tunes the study with successive halving, then trains its first N configs (all of them by default) in full
and compares the winner's test accuracy with theirs. Both parts resume where they were stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

from fedhpo.policies import Fixed
from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.samplers import Random
from fedhpo.search.search import Search
from fedhpo.study import Study


def in_full(study: Study, path: Path, trials: int) -> list[float]:
    """Test accuracies of the study's first random trials, each trained as long as the winner."""
    rounds, cohort = study.file.budget.rounds, study.file.budget.cohort
    with study.federation() as federation, Run.create_or_open(path, study.to_dict(), "in full", 1) as run:
        search = Search(
            study.space,
            rounds=rounds,
            total=trials * rounds,
            cohort=cohort,
            seed=study.file.seed,
            objective=study.objective,
            evaluator=study.evaluator,
            enqueued=[study.space.default()],
        )
        recorded = RecordedSession(federation, run.record, run.ledger)
        search.begin(recorded)
        started = search.start(trials, Random(), Fixed())
        search.train(started, rounds)
        alive = [trial.number for trial in started if trial.status != "failed"]
        scores = recorded.evaluate(alive, recorded.test_clients, "test")
        recorded.checkpoint()
    chance = 1 / (study.load_data().classes or 1)
    found = {score.trial: score.mean("accuracy") for score in scores}
    return [found.get(trial.number, chance) for trial in started]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--trials", type=int, help="configs to train in full; all by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    study = Study.load(options.study)
    result = study.tune(options.runs / f"{study.name}-halving")
    trials = options.trials or len(result.trials)
    accuracies = in_full(study, options.runs / f"{study.name}-in-full-{trials}", trials)
    winner = result.facts["best"]
    facts = {
        "study": study.name,
        "trials": trials,
        "winner": winner["trial"],
        "winner_test_accuracy": winner["test"]["accuracy"],
        "rounds_spent": result.cost["rounds"],
        "random_median": statistics.median(accuracies[1:]),
        "random_quartiles": np.quantile(accuracies[1:], [0.25, 0.75]).tolist(),
        "random_best": max(accuracies[1:]),
        "own_config": accuracies[0],
        "rounds_in_full": trials * study.file.budget.rounds,
    }
    if options.json:
        print(json.dumps(facts))
        return
    low, high = facts["random_quartiles"]
    print(f"{facts['study']}: {trials} trials in full, {winner['rounds']} rounds of training")
    print(f"  halving's winner (trial {winner['trial']})  test accuracy {facts['winner_test_accuracy']:.3f}")
    print(f"  its random trials in full       median {facts['random_median']:.3f} ({low:.3f} to {high:.3f})")
    print(f"  the best of them                {facts['random_best']:.3f}")
    print(f"  the user's own config           {facts['own_config']:.3f}")
    print(f"  rounds: {facts['rounds_spent']} against {facts['rounds_in_full']}")


if __name__ == "__main__":
    main()
