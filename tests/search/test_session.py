"""What a stranger's method, sampler, schedule and policy meet: sessions of all kinds, and clear words."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.core.settings import settings_of
from fedhpo.core.streams import stream
from fedhpo.methods import Tuner
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import FORK, TrialError, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.ledger import Budget
from fedhpo.protocol.method import Method
from fedhpo.protocol.session import Charged, Cost
from fedhpo.samplers import Random
from fedhpo.schedules import FixedLength
from fedhpo.search.planned import PlannedSession
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.space.config import Config
from fedhpo.testing import ToyFederation
from fedhpo.testing.method import MethodSuite
from fedhpo.testing.runs import CONDITIONAL, facts_of, stopped_at_every_event

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
BUDGET = {"rounds": 4, "total": 16, "cohort": 3}


@dataclass(frozen=True)
class PBT(Method):
    """Population-based training: every `interval` rounds the worst goes on as a changed copy of the best."""

    population: int = 4
    interval: int = 2
    ranked: bool = False

    name: ClassVar[str] = "pbt"

    @property
    def needs(self):
        return frozenset({FORK})

    def rounds(self, search):
        planned = self.population * search.rounds
        if planned > search.total:
            raise InputError(
                f"total = {search.total}: pbt with {self.population} trials needs {planned} rounds"
            )
        return planned

    def run(self, search):
        members = search.start(self.population, Random(), Fixed())
        for until in range(self.interval, search.rounds, self.interval):
            search.train(members, until)
            search.evaluate(members)
            self.exchange(search, [trial for trial in members if trial.training])
        search.train(members, search.rounds)
        search.evaluate(members)
        search.finish(members)
        return search.best(members)

    def exchange(self, search, members):
        if len(members) < 2:
            return
        if self.ranked:
            best, *_, worst = search.rank(members)
        else:
            [best] = search.choose(members, 1)
            good = search.choose(members, len(members) - 1)
            worst = next(trial for trial in members if trial not in good)
        if best is worst:
            return
        key = [best.number, worst.number, best.round]

        def changed():
            rng = stream(search.seed, "pbt", *key)
            return search.space.sample(rng).to_dict()

        config = Config.from_dict(search.session.decide("pbt", key, changed))
        search.replace(worst, best, config, None, None)


class TestPBT(MethodSuite):
    def method(self):
        return PBT()


class TestRankedPBT(MethodSuite):
    """It needs values: under a mechanism that releases none it is refused, by its name."""

    def method(self):
        return PBT(ranked=True)


@pytest.mark.parametrize("mechanism", ["topk", "permute-and-flip", "repeated"])
def test_ranking_needs_values(mechanism):
    evaluation = fh.Evaluator(privacy=fh.Privacy(10.0, mechanism=mechanism))
    with pytest.raises(
        InputError, match=f"pbt: privacy: mechanism = '{mechanism}' releases which trials"
    ) as e:
        fh.tune(ToyFederation(), SPACE, PBT(ranked=True), evaluation=evaluation, **BUDGET)
    assert "search.choose" in str(e.value)


def test_a_private_method_of_ones_own_is_planned():
    """Four trials are scored at rounds 2 and 4, and one that was copied is not scored more often."""
    found = fh.tune(
        ToyFederation(), SPACE, PBT(), evaluation=fh.Evaluator(privacy=fh.Privacy(10.0)), **BUDGET
    )
    assert found.facts["privacy"]["evaluations"] == 8
    assert found.facts["privacy"]["epsilon_spent"] == pytest.approx(10.0)
    chosen = fh.Evaluator(privacy=fh.Privacy(10.0, mechanism="topk"))
    found = fh.tune(ToyFederation(), SPACE, PBT(), evaluation=chosen, **BUDGET)
    # Best and worst at round 2, and the best in the end.
    assert found.facts["privacy"]["evaluations"] == 3


# Parts as plain classes


class PlainSampler:
    """Neither a dataclass, nor does it say how many configs it knows."""

    def __init__(self, shift=0.0):
        self.shift = shift
        self._cache = object()

    def suggest(self, space, observations, asked, rng, pool=None):
        return space.sample(rng)


class PlainSchedule:
    def __init__(self, trials):
        self.trials, self.rule = trials, max

    def rounds(self, search, sampler):
        if search.distinct(self.trials, sampler) * search.rounds > search.total:
            raise InputError(f"total = {search.total} is too small")
        return search.distinct(self.trials, sampler) * search.rounds

    def run(self, search, sampler, policy):
        trials = search.start(search.distinct(self.trials, sampler), sampler, policy)
        search.train(trials, search.rounds)
        search.evaluate(trials)
        search.finish(trials)
        return search.best()


class PlainPolicy:
    needs = frozenset()
    scores = ()

    def begin(self, config, space, rng):
        return Fixed().begin(config, space, rng)


def test_plain_classes_make_a_run_that_can_be_resumed(tmp_path):
    def tuner():
        return Tuner(PlainSchedule(3), PlainSampler(), PlainPolicy())

    assert tuner().to_dict() == {
        "name": "tuner",
        "schedule": {"name": "PlainSchedule", "trials": 3, "rule": "max"},
        "sampler": {"name": "PlainSampler", "shift": 0.0},
        "policy": {"name": "PlainPolicy"},
    }
    whole = fh.tune(ToyFederation(), CONDITIONAL, tuner(), **BUDGET)
    found = stopped_at_every_event(ToyFederation(), CONDITIONAL, tuner(), tmp_path / "run", **BUDGET)
    assert facts_of(found) == facts_of(whole)
    other = Tuner(PlainSchedule(3), PlainSampler(0.5), PlainPolicy())
    with pytest.raises(InputError, match="holds another study"):
        fh.tune(ToyFederation(), CONDITIONAL, other, run=tmp_path / "run", **BUDGET)


def test_settings_never_hold_an_address():
    class Nested:
        def __init__(self):
            self.inner, self.table = PlainSampler(), {"a": (1, object())}

    assert " at 0x" not in json.dumps(settings_of(Nested()))


# The sessions


def test_an_unrecorded_session_charges_what_calls_cost():
    session = UnrecordedSession(ToyFederation(clients=4), Budget(rounds=3))
    session.start(0, {}, 1)
    session.round([Work(0, [0, 1], {"lr": 0.1})])
    session.submit(Work(0, [0, 1], {"lr": 0.1}))
    assert session.ready() == [0]
    assert session.next_done().round == 2
    session.evaluate([0], [0, 1, 2])
    assert (session.ledger.cost.rounds, session.ledger.cost.evaluations) == (2, 3)
    assert session.ledger.remaining["rounds"] == 1
    assert session.decide("x", 0, lambda: Charged((1, 2), Cost(samples=5))) == [1, 2]
    assert session.ledger.cost.samples == 2 * (10 + 11) + 5
    assert not session.kept
    (session.directory / "file").write_text("here")


def test_a_planned_session_answers_without_clients():
    clients = ToyFederation(clients=4).train_clients
    session = PlannedSession(Budget(rounds=9), frozenset(), clients, clients)
    session.start(0, {}, 1)
    session.start(1, {}, 1)
    [report] = session.round([Work(0, [2, 3], {"lr": 0.1})])
    assert report.applied
    assert report.round == 1
    session.fork(0, 1)
    session.submit(Work(1, [2, 3], {"lr": 0.1}))
    assert session.next_done(1).round == 2
    assert session.ledger.cost.rounds == 2
    with pytest.raises(TrialError):
        session.next_done()
    session.stop(1)
    assert session.trials == [0]
    assert session.decide("x", 0, lambda: 1 / 0, planned={"a": (1,)}) == {"a": [1]}
    assert session.decide("x", 0, lambda: {"a": 2}) == {"a": 2}
    with pytest.raises(InputError, match="cannot be planned"):
        session.query(FineTune(0, {}), [0])
    with pytest.raises(InputError, match="scores are private"):
        session.evaluate([0], [0])


@dataclass(frozen=True)
class Curious(fh.RandomSearch):
    """Looks at clients' scores beside the channel."""

    name: ClassVar[str] = "curious"

    def run(self, search):
        [trial] = search.start(1, Random(), Fixed())
        search.session.evaluate([trial.number], search.session.validation_clients)


def test_a_private_session_shows_no_scores():
    privacy = fh.Privacy(1.0, evaluations=20)
    with pytest.raises(InputError, match="scores are private"):
        fh.tune(ToyFederation(), SPACE, Curious(), evaluation=fh.Evaluator(privacy=privacy), **BUDGET)


def test_composed_parts_still_have_to_be_parts():
    with pytest.raises(InputError, match="sampler must be a sampler"):
        Tuner(FixedLength(1), object())
    with pytest.raises(InputError, match="policy must be a client policy"):
        Tuner(FixedLength(1), policy=object())


def test_the_method_of_the_docs_works(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    [block] = [part for part in text.split("```")[1::2] if "class Longest" in part]
    (tmp_path / "longest.py").write_text(block.removeprefix("python"))
    monkeypatch.syspath_prepend(tmp_path)
    method = importlib.import_module("longest").Longest
    found = fh.tune(ToyFederation(), SPACE, method(trials=4), rounds=4, total=12, cohort=3)
    assert (found.cost["rounds"], len(found.trials)) == (12, 4)
    with pytest.raises(InputError, match="longest needs 20 rounds"):
        fh.tune(ToyFederation(), SPACE, method(), rounds=4, total=12, cohort=3)
