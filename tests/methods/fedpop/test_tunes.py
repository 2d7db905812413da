"""That FedPop tunes, on the toy federation; its mended parts; when exchanges come too late; its own pace."""

import math
import warnings

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods import Exchange
from fedhpo.methods.fedpop.lineage import founders, lineages
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-4, 100.0, log=True)}, server={"lr": fh.Float(0.02, 1.0, log=True)})


def tune(method, seed=0, federation=None, **options):
    budget = {"rounds": 20, "total": 100, "cohort": 6, "objective": "loss", "seed": seed} | options
    return fh.tune(federation or ToyFederation(noise=0.005), SPACE, method, **budget)


def log_loss(result):
    """Of the winner, in decades: on the toy a loss falls by a factor with every round."""
    return math.log10(max(1e-6, abs(result.facts["best"]["validation"]["value"])))


# It tunes


def test_it_beats_random_search_with_as_many_rounds():
    gaps = [log_loss(tune(fh.RandomSearch(), seed)) - log_loss(tune(fh.FedPop(), seed)) for seed in range(6)]
    assert np.mean(gaps) > 0.1
    assert min(gaps) > -0.3


def test_it_keeps_several_lineages():
    """A third of five trials is replaced at each of nine exchanges; the others go on as they are."""
    kept = [lineages(tune(fh.FedPop(interval=0.25), seed).facts["trials"]) for seed in range(6)]
    assert np.mean(kept) >= 1.5
    assert max(kept) <= 5


def test_founders_are_followed_through_copies_of_copies():
    first = {"round": 0, "source": None}
    trials = [
        {"trial": 0, "path": [first, {"source": 1, "source_step": 0}]},
        {"trial": 1, "path": [first, {"source": 2, "source_step": 0}]},  # later: trial 0 copied what it was
        {"trial": 2, "path": []},
    ]
    assert founders(trials) == {0: 1, 1: 2, 2: 2}


# Annealing inside G


def test_copies_move_less_the_later_they_are_made():
    """eps falls from 0.1 to 0 by a cosine: at rounds 4 and 16 of 20 it is 0.0905 and 0.0095."""
    early, late = [], []
    for seed in range(4):
        result = tune(fh.FedPop(local=False, resample=0.0, population=9), seed, total=180)
        configs = {}
        for trial in result.facts["trials"]:
            start = trial["path"][0]["config"] if trial["path"] else trial["config"]
            configs[trial["trial"]] = start["client"]["lr"]
        for row in result.lineage:
            moved = abs(math.log10(row["client.lr"] / configs[row["source"]])) / 6
            configs[row["trial"]] = row["client.lr"]
            width = 0.1 * (1 + math.cos(math.pi * row["round"] / 20)) / 2
            assert moved <= width + 1e-9
            (early if row["round"] <= 4 else late if row["round"] >= 16 else []).append(moved)
    assert max(late) < 0.01
    assert np.mean(early) > 5 * np.mean(late)


def test_without_width_and_resampling_a_copy_is_the_config_it_was():
    space = fh.Space(
        client={
            "lr": fh.Float(1e-3, 10.0, log=True),
            "epochs": fh.Int(1, 5),
            "steps": fh.Int(1, 100, log=True),
            "batch_size": fh.Ordinal([8, 16, 32]),
            "rule": fh.Choice(["a", "b"]),
        }
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        config = space.sample(rng)
        assert space.perturb(config, 0.0, 0.0, rng) == config


# Drawing anew


WIDE = fh.Space(
    client={"lr": fh.Float(1e-4, 1.0, log=True), "momentum": fh.Float(0.0, 0.9), "epochs": fh.Int(1, 21)},
    server={"lr": fh.Float(0.1, 10.0, log=True)},
)


def test_by_vector_all_of_a_scope_is_drawn_anew_at_once():
    """With probability 0.5 each: never a part of a scope, each combination in a quarter of draws."""
    rng, centre = np.random.default_rng(0), WIDE.default()
    seen = {}
    for _ in range(400):
        found = WIDE.perturb(centre, 0.0, 0.5, rng, by="vector")
        client = {name: found.client[name] != centre.client[name] for name in ("lr", "momentum")}
        assert len(set(client.values())) == 1
        key = client["lr"], found.server != centre.server
        seen[key] = seen.get(key, 0) + 1
    assert set(seen) == {(a, b) for a in (False, True) for b in (False, True)}
    assert all(count == pytest.approx(100, abs=35) for count in seen.values())
    with pytest.raises(fh.InputError, match="unknown resample_by 'row'"):
        WIDE.perturb(centre, 0.0, 0.5, rng, by="row")


def test_client_vectors_that_are_drawn_anew_fill_their_box_and_do_not_crowd_its_border():
    """With every coordinate drawn anew, lr lies evenly within 0.4 decades of the base."""
    base = WIDE.default()
    state = FedPopLocal(resample=1.0, annealing="constant", rounds=10**6).begin(
        base, WIDE, np.random.default_rng(0)
    )
    state.assign(range(12), np.random.default_rng(0))
    rng, moved = np.random.default_rng(1), []
    for number in range(1, 60):
        state.learn(_report(rng.random(12), number))
        moved += [math.log10(vector["lr"] / base.client["lr"]) / 0.4 for vector in state.vectors]
        assert all(abs(vector["epochs"] - 11) <= 2 for vector in state.vectors)
    assert max(map(abs, moved)) <= 1 + 1e-9
    assert np.mean([abs(move) > 0.99 for move in moved]) < 0.03
    assert np.mean([abs(move) < 0.5 for move in moved]) == pytest.approx(0.5, abs=0.08)


def _report(after, number):
    count = len(after)
    nothing = np.full(count, np.nan)
    ones, ok = np.ones(count, np.int64), np.full(count, Status.OK, np.int8)
    cohort = np.arange(count)
    return RoundReport(
        0, number, True, cohort, ok, ones, ones, nothing, np.array(after), nothing, nothing, {}
    )


def test_selection_every_few_rounds_goes_by_discounted_means_and_ends():
    """Three slots, two rounds: means with discount 0.5 are 2, 1.333 and 1.667; then one vector for all."""
    policy = FedPopLocal(eps=0.0, resample=0.0, radius=0.3, every=2, discount=0.5, until=0.2, rounds=10)
    state = policy.begin(WIDE.default(), WIDE, np.random.default_rng(0))
    before = state.assign(range(3), np.random.default_rng(0))
    state.learn(_report([4.0, 0.0, 3.0], 1))
    assert state.vectors == before
    state.learn(_report([1.0, 2.0, 1.0], 2))  # (4 + 2 x 1) / 3 = 2, (0 + 2 x 2) / 3, (3 + 2 x 1) / 3
    assert state.vectors == [before[1]] * 3


def test_without_selection_vectors_stay():
    state = FedPopLocal(until=0.0, rounds=10).begin(WIDE.default(), WIDE, np.random.default_rng(0))
    before = state.assign(range(6), np.random.default_rng(0))
    for number in range(1, 9):
        state.learn(_report(np.arange(6.0), number))
    assert state.vectors == before


# Exchanges and eliminations


@pytest.mark.parametrize(
    ("rounds", "ends", "short"),
    [
        (30, [3, 7, 12], [(6, 1)]),
        (100, [11, 22, 35], [(10, 1), (20, 2), (30, 5)]),
        (800, [89, 177, 268], [(80, 9), (160, 17), (240, 28)]),
        (200, [50, 100, 150], [(40, 10), (80, 20), (140, 10)]),
    ],
)
def test_how_many_rounds_an_exchange_has_before_trials_are_dropped(rounds, ends, short):
    """Published schedules, T_g = 0.1: at 80 of 800 nine rounds are left until 89, and so on."""
    expected = [(at, left) for at, left in short if left < rounds // 10]
    assert Exchange().short(rounds, ends) == expected


def test_a_population_whose_copies_have_no_time_is_warned_of():
    method = fh.FedPop(population=9, schedule="halving", local=False)
    with pytest.warns(UserWarning, match=r"fedpop: exchanges after round .* \(1 left\)"):
        tune(method, total=90)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune(fh.FedPop(local=False))  # nobody is dropped
        tune(fh.FedPop(population=9, schedule="halving", local=False, interval=1), total=90)


# The same clients for all trials


@pytest.mark.parametrize("method", [fh.FedPop(shared_cohorts=True), fh.SHA(9, shared_cohorts=True)])
def test_trials_can_share_their_cohorts(method):
    cohorts = {}

    class Watched(ToyFederation):
        def submit(self, work):
            at = self._trials[work.trial].round
            cohorts.setdefault(at, set()).add(tuple(work.cohort))
            super().submit(work)

    tune(method, federation=Watched(noise=0.005))
    assert len(cohorts) == 20
    assert all(len(some) == 1 for some in cohorts.values())
    assert len(set.union(*cohorts.values())) > 10
    cohorts.clear()
    tune(fh.SHA(9), federation=Watched(noise=0.005))
    assert any(len(some) > 1 for some in cohorts.values())


# The authors' code


def test_the_authors_code_drops_by_the_last_rounds_loss():
    result = tune(fh.FedPop.authors_code(population=9, exchange=False, local="static"), total=90)
    losses = {}
    for row in result.history:
        if row["kind"] == "round":
            losses[row["trial"], row["round"]] = row["loss_after"]
    dropped = [t for t in result.facts["trials"] if t["status"] == "eliminated"]
    first = min(t["rounds"] for t in dropped)
    gone = [losses[t["trial"], first] for t in dropped if t["rounds"] == first]
    kept = [losses[t["trial"], first] for t in result.facts["trials"] if t["rounds"] > first]
    # The history's losses are means by size, those that count are plain: nearly the same order.
    assert max(kept) < min(gone) + 0.02
    # A vector for each slot, and never another; a few are the same, at a bound of the space.
    assert 45 < result.tried["client"] <= 9 * 6
    assert result.tried["server"] == 9


def test_the_authors_base_moves_twice_as_far_and_is_not_annealed():
    tuner = fh.FedPop.authors_code(eps=0.05).tuner()
    assert tuner.exchange.evolution.at(0, 100) == tuner.exchange.evolution.at(99, 100) == (0.1, 0.1)
    assert tuner.exchange.resample_by == "vector"
    assert tuner.policy.evolution.at(0, 100) == (0.05, 0.0)
    with pytest.raises(fh.InputError, match="unknown local 'on'"):
        fh.FedPop.authors_code(local="on")


def test_halving_by_losses_needs_losses():
    from fedhpo.schedules import Halving

    with pytest.raises(fh.InputError, match="needs clients that score after local training"):
        tune(fh.Tuner(Halving(9, judge="losses")), total=90)


# At its own pace


class Paced(ToyFederation):
    """Rounds take time: trial n's (1 + n % 3) units each. `clock` is when the last one ended."""

    clock = 0

    def submit(self, work):
        super().submit(work)
        self.ends = {**getattr(self, "ends", {}), work.trial: self.clock + 1 + work.trial % 3}

    def next_done(self, trial=None):
        waiting = {number: self.ends[number] for number in self._trials.rounds}
        trial = min(waiting, key=lambda number: (waiting[number], number)) if trial is None else trial
        self.clock = max(self.clock, waiting[trial])
        return super().next_done(trial)

    def ready(self):
        return [number for number in self._trials.rounds if self.ends[number] <= self.clock]


def test_at_uneven_speeds_the_asynchronous_population_is_as_good_and_sooner_done():
    gaps, times = [], []
    for seed in range(5):
        found = {}
        for apart in (False, True):
            federation = Paced(noise=0.005)
            result = tune(fh.FedPop(population=9, asynchronous=apart), seed, federation, total=180)
            found[apart] = result.facts["best"]["validation"]["value"], federation.clock
        gaps.append(found[False][0] - found[True][0])
        times.append(found[True][1] / found[False][1])
    assert abs(np.mean(gaps)) < 0.1
    assert max(times) <= 1.0
