"""FedPop.auto(): finalists of three lineages, careful copies, parents that stay, an elite to return to."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedpop.finale import Finale
from fedhpo.methods.fedpop.lineage import founders
from fedhpo.protocol.federation import Scores, Status
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(1e-4, 100.0, log=True), "epochs": fh.Int(1, 5)},
    server={"lr": fh.Float(0.02, 1.0, log=True)},
)


def tune(seed=0, federation=None, **options):
    budget = {"rounds": 20, "total": 100, "cohort": 6, "objective": "loss", "seed": seed} | options
    return fh.tune(federation or ToyFederation(noise=0.005), SPACE, fh.FedPop.auto(trials=9), **budget)


def copies(result):
    """Copies that go on training: the elite's are only kept."""
    elite = max(trial["trial"] for trial in result.facts["trials"])
    return [row for row in result.lineage if row["trial"] != elite]


def test_nobody_is_copied_before_three_are_left():
    for seed in range(4):
        result = tune(seed)
        plan = fh.SHA(9, finalists=3).tuner().schedule.plan(20, 100)
        assert plan[0] == [9, 3]
        assert all(row["round"] > plan[1][0] for row in copies(result))
        finalists = {t["trial"] for t in result.facts["trials"][:9] if t["status"] == "finished"}
        assert len(finalists) == 3
        assert {row["trial"] for row in copies(result)} <= finalists
        assert result.cost["rounds"] == 9 * 6 + 3 * 14  # as SHA with three finalists


def test_copies_are_near_their_parents_and_parents_go_on_as_they_are():
    seen = 0
    for seed in range(6):
        result = tune(seed)
        configs = {t["trial"]: (t["path"] or [t])[0]["config"] for t in result.facts["trials"]}
        for row in copies(result):
            parent = configs[row["source"]]
            rates = [row["client.lr"] / parent["client"]["lr"], row["server.lr"] / parent["server"]["lr"]]
            calmed = sorted(rates) == pytest.approx([0.5, 1.0]) or row["server.lr"] == 0.02
            steps = abs(row["client.epochs"] - parent["client"]["epochs"])
            near = abs(math.log10(rates[0])) <= 6 * 0.03 + 1e-9 and steps <= 1
            assert calmed or near
            configs[row["trial"]] = {
                "client": {"lr": row["client.lr"], "epochs": row["client.epochs"]},
                "server": {"lr": row["server.lr"]},
            }
            seen += 1
            # What was copied is not replaced in the same exchange.
            assert row["source"] not in {o["trial"] for o in copies(result) if o["round"] == row["round"]}
    assert seen >= 3


def scores(loss):
    loss = np.array(loss, float)
    count = len(loss)
    ok = np.full(count, Status.OK, np.int8)
    sizes = np.ones(count, np.int64)
    return Scores(0, "validation", np.arange(count), ok, sizes, loss, np.exp(-loss))


class Told:
    """A trial, as far as it is compared."""

    def __init__(self, loss):
        self.failed, self.rank_value = False, float(np.mean(loss))
        self.evaluations = [type("Evaluation", (), {"scores": scores(loss)})()]


@pytest.mark.parametrize(
    ("gaps", "behind"),
    [
        ([0.1, 0.3, 0.2, 0.2], True),  # mean 0.2, deviation 0.0816, error 0.0408: 4.9 errors
        ([0.5, -0.3, 0.4, 0.2], False),  # mean 0.2, deviation 0.356, error 0.178: 1.1 errors
        ([-0.1, -0.3, -0.2, -0.2], False),
    ],
)
def test_a_trial_is_behind_by_more_than_two_errors_of_the_paired_difference(gaps, behind):
    best, worst = np.array([1.0, 5.0, 9.0, 3.0]), np.array([1.0, 5.0, 9.0, 3.0]) + gaps
    search = type("Search", (), {"objective": fh.Objective("loss")})()
    assert Finale()._behind(search, Told(worst), Told(best)) is behind


class Spoiling(ToyFederation):
    """From round 16 on training harms: the weights move away from where they should be."""

    def _step(self, work, member, weights):
        step = super()._step(work, member, weights)
        return step if self._trials[work.trial].round < 16 else -2 * step - 0.5


def test_what_was_best_on_the_way_is_a_candidate_in_the_end():
    result = tune(federation=Spoiling(noise=0.0))
    best = result.facts["best"]
    assert best["rounds"] <= 16
    line = founders(result.facts["trials"])
    elite = max(line)
    assert best["trial"] == elite
    assert line[elite] in {t["trial"] for t in result.facts["trials"] if t["status"] == "finished"}
    sha = fh.tune(
        Spoiling(noise=0.0), SPACE, fh.SHA(9, finalists=3), rounds=20, total=100, cohort=6, objective="loss"
    )
    assert best["validation"]["value"] < sha.facts["best"]["validation"]["value"]


def test_it_says_why_it_cannot_be_private():
    private = fh.Evaluator(privacy=fh.Privacy(epsilon=10.0))
    search = type("Search", (), {"evaluator": private})()
    with pytest.raises(fh.InputError, match="fedpop-auto compares finalists client by client"):
        Finale().rounds(search, None)
    with pytest.raises(fh.InputError, match=r"interval must be a share in \(0, 1\], not 2"):
        Finale(interval=2.0)


def test_it_is_not_worse_than_halving_to_three_on_the_toy():
    """Seeds fixed, margin wide: in decades of the loss."""
    gaps = []
    for seed in range(6):
        sha = fh.tune(
            ToyFederation(noise=0.005),
            SPACE,
            fh.SHA(9, finalists=3),
            rounds=20,
            total=100,
            cohort=6,
            objective="loss",
            seed=seed,
        )
        found = [abs(r.facts["best"]["validation"]["value"]) for r in (sha, tune(seed))]
        gaps.append(math.log10(max(1e-6, found[0])) - math.log10(max(1e-6, found[1])))
    assert np.mean(gaps) > -0.15
