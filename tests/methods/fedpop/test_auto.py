"""FedPop.auto(): finalists of three lineages, careful copies, parents that stay, an elite to return to."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedpop.finale import Finale
from fedhpo.methods.fedpop.lineage import founders
from fedhpo.methods.fedpop.means import Means
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import Scores, Status
from fedhpo.samplers import Random
from fedhpo.search.search import Search
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(1e-4, 100.0, log=True), "epochs": fh.Int(1, 5)},
    server={"lr": fh.Float(0.02, 1.0, log=True)},
)


def tune(seed=0, federation=None, **options):
    budget = {"rounds": 20, "total": 100, "cohort": 6, "objective": "loss", "seed": seed} | options
    return fh.tune(federation or ToyFederation(noise=0.005), SPACE, fh.FedPop.auto(trials=9), **budget)


def copies(result):
    """Copies that go on training: those beyond the first nine trials, elite and means, are only kept."""
    return [row for row in result.lineage if row["trial"] < 9]


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
        # A copy is made from a mean, which has the config of the trial that it is the mean of.
        for row in sorted(result.lineage, key=lambda row: (row["round"], row["trial"] < 9)):
            parent = configs[row["source"]]
            configs[row["trial"]] = {
                "client": {"lr": row["client.lr"], "epochs": row["client.epochs"]},
                "server": {"lr": row["server.lr"]},
            }
            if row["trial"] >= 9:
                assert configs[row["trial"]] == parent
                continue
            rates = [row["client.lr"] / parent["client"]["lr"], row["server.lr"] / parent["server"]["lr"]]
            calmed = sorted(rates) == pytest.approx([0.5, 1.0]) or row["server.lr"] == 0.02
            steps = abs(row["client.epochs"] - parent["client"]["epochs"])
            near = abs(math.log10(rates[0])) <= 6 * 0.03 + 1e-9 and steps <= 1
            assert calmed or near
            assert row["source"] >= 9
            assert row["round"] >= 10  # from half of the training on
            seen += 1
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
    search = type("Search", (), {"objective": fh.Objective("loss"), "evaluator": fh.Evaluator()})()
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
    assert best["trial"] >= 9
    assert line[best["trial"]] in {t["trial"] for t in result.facts["trials"] if t["status"] == "finished"}
    sha = fh.tune(
        Spoiling(noise=0.0), SPACE, fh.SHA(9, finalists=3), rounds=20, total=100, cohort=6, objective="loss"
    )
    assert best["validation"]["value"] < sha.facts["best"]["validation"]["value"]


class Swinging(ToyFederation):
    """Every second round ends as far on one side of where training is as the round before on the other."""

    def next_done(self, trial=None):
        report = super().next_done(trial)
        one = self._trials[report.trial]
        one.weights = one.weights + (0.4 if report.round % 2 else -0.4) * np.ones_like(one.weights)
        return report


def test_the_mean_of_the_last_models_is_a_candidate_and_costs_no_round():
    """Weights swing by 0.4 around their way: the mean over the last four of twenty rounds does not."""
    swinging, steady = (tune(federation=kind(noise=0.0)) for kind in (Swinging, ToyFederation))
    assert swinging.cost["rounds"] == steady.cost["rounds"]
    best = swinging.facts["best"]
    assert best["trial"] >= 9
    last = [t for t in swinging.facts["trials"][:9] if t["status"] == "finished"]
    assert best["validation"]["value"] < 0.2 * min(t["score"] for t in last)


class Breaking(ToyFederation):
    """Breaks at one of its mixes, if told so."""

    left = -1

    def mix(self, source, target, share):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("broken")
        super().mix(source, target, share)


@pytest.mark.filterwarnings("error")  # such as of a report that cannot be written
@pytest.mark.parametrize("broken_at", [1, 8])
def test_a_run_that_breaks_in_the_middle_of_a_mean_ends_in_the_same_result(broken_at, tmp_path):
    unbroken = tune(federation=Breaking(noise=0.005))
    federation = Breaking(noise=0.005)
    federation.left = broken_at
    with pytest.raises(RuntimeError, match="broken"):
        tune(federation=federation, run=tmp_path / "run")
    resumed = tune(federation=Breaking(noise=0.005), run=tmp_path / "run")
    assert resumed.facts["best"] == unbroken.facts["best"]
    assert resumed.facts["trials"] == unbroken.facts["trials"]
    assert (tmp_path / "run" / "report.html").is_file()


def test_means_by_hand():
    """The mean of the models after rounds 9 and 10 of 10; two of one lineage have one in common."""
    federation = ToyFederation(noise=0.0)
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0, log=True)}, server={"lr": 1.0})
    search = Search(
        space,
        rounds=10,
        total=30,
        cohort=4,
        seed=0,
        objective=fh.Objective("loss"),
        evaluator=fh.Evaluator(),
    )
    search.begin(UnrecordedSession(federation))
    rung = search.start(3, Random(), Fixed())
    search.train(rung, 4)
    search.replace(rung[2], rung[0], rung[0].config, None, None)
    means, weights, real = Means(), {}, federation.next_done

    def watched(trial=None):
        report = real(trial)
        weights[report.trial, report.round] = federation.state(report.trial).arrays["weights"].copy()
        return report

    federation.next_done = watched
    means.train(search, rung, 8)
    means.train(search, rung, 10)  # another window
    candidates = means.candidates(search)
    assert [means.trial_of(one) for one in means.trials] == rung
    assert len(candidates) == 4  # of each trial, and of the lineage of trials 0 and 2
    expected = [(weights[n, 9] + weights[n, 10]) / 2 for n in range(3)]
    expected.append((expected[0] + expected[2]) / 2)
    for one, mean in zip(candidates, expected, strict=True):
        np.testing.assert_allclose(federation.state(one.number).arrays["weights"], mean)
        assert one.round == 10
        assert not one.scores


def test_it_says_why_it_cannot_be_private():
    private = fh.Evaluator(privacy=fh.Privacy(epsilon=10.0))
    search = type("Search", (), {"evaluator": private})()
    with pytest.raises(fh.InputError, match="fedpop-auto compares finalists client by client"):
        Finale().rounds(search, None)
    with pytest.raises(fh.InputError, match=r"interval must be a share in \(0, 1\], not 2"):
        Finale(interval=2.0)
    with pytest.raises(fh.InputError, match=r"tail must be a share in \(0, 1\), not 1"):
        Finale(tail=1.0)


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
