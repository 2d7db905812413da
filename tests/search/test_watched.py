"""Scores on the way, for those who watch: the method chooses as without them."""

import pytest

import fedhpo as fh
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(0.001, 1.0, log=True)})
METHODS = {
    "random": fh.RandomSearch(trials=4),
    "tpe": fh.TPE(trials=5),
    "sha": fh.SHA(trials=6),
    "hyperband": fh.Hyperband(),
    "robust": fh.Robust(),
    "fedex": fh.FedEx(schedule="fixed", trials=2, arms=3),
}


def tuned(method, every=None, run=None, **options):
    evaluation = fh.Evaluator(clients=5, every=every)
    return fh.tune(
        ToyFederation(clients=12),
        SPACE,
        METHODS[method],
        rounds=9,
        total=90,
        cohort=4,
        evaluation=evaluation,
        objective="loss",
        run=run,
        **options,
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_result_is_the_same_and_more_is_scored(method):
    plain, watched = tuned(method), tuned(method, every=2)
    assert [dict(one) for one in watched.trials] == [dict(one) for one in plain.trials]
    assert watched.best_config == plain.best_config
    assert watched.gain == plain.gain
    assert watched.cost.rounds == plain.cost.rounds
    assert watched.cost.evaluations > plain.cost.evaluations


def test_the_documented_callback_stops_random_search_on_the_way():
    def stop_when_good(event):
        leader = event.search.leader()
        return leader is not None and leader.score.value < 1e9

    assert tuned("random", callbacks=[stop_when_good]).cost.rounds == 36  # scored at the end only
    stopped = tuned("random", every=2, callbacks=[stop_when_good])
    assert stopped.status == "stopped"
    assert stopped.cost.rounds == 8  # four trials side by side, two rounds each
    assert {trial.round for trial in stopped.trials} == {2}


def test_a_stopped_run_goes_on_to_the_same_result(tmp_path):
    whole = tuned("random", every=3)
    seen = []

    def stop(event):
        seen.append(event.kind)
        return len(seen) == 8

    assert tuned("random", every=3, run=tmp_path / "run", callbacks=[stop]).status == "stopped"
    again = tuned("random", every=3, run=tmp_path / "run")
    assert again.status == "finished"
    assert again.best_score == whole.best_score
    assert again.cost.evaluations == whole.cost.evaluations


@pytest.mark.parametrize(
    ("method", "evaluation", "told"),
    [
        (None, {"every": 9}, "evaluation.every = 9: has no effect in trainings of 9 rounds"),
        (None, {"every": 0}, "every must be a whole number of at least 1"),
        (fh.FedPop(population=3), {"every": 2}, "evaluation.every = 2: has no effect with fedpop"),
        (None, {"every": 2, "privacy": fh.Privacy(1.0)}, "every cannot go with privacy"),
    ],
)
def test_where_it_has_no_effect_it_is_refused(method, evaluation, told):
    toy = ToyFederation(clients=12)
    with pytest.raises(fh.InputError, match=told):
        fh.tune(toy, SPACE, method, rounds=9, cohort=4, evaluation=fh.Evaluator(**evaluation))
