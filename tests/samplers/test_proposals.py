"""Outside proposals: their share, their order, and what a resumed run does without them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.protocol.sampler import Observation, Sampler
from fedhpo.samplers import Proposals, Random
from fedhpo.samplers.proposals import START, trust
from fedhpo.schedules import FixedLength, Hyperband
from fedhpo.space import Float, Space
from fedhpo.space.config import Config
from fedhpo.study.methods import method_in
from fedhpo.testing import ToyFederation
from fedhpo.testing.sampler import PLANE, SamplerSuite, observed, played

LINE = Space(client={"lr": Float(0.0, 1.0)})


class TestWithoutAny(SamplerSuite):
    def sampler(self) -> Sampler:
        return Proposals(sampler="tpe")


class TestAnsweredAtTurns(SamplerSuite):
    """Somebody proposes the middle of the space whenever asked: it is a config once, and taken once."""

    def sampler(self) -> Sampler:
        return Proposals(ask=lambda space, seen: space.default(), sampler="tpe")


def written(path: Path, configs: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps({"client": one}) + "\n" for one in configs))
    return str(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_at_no_time_is_more_than_the_share_proposed(tmp_path: Path, share: float) -> None:
    given = [{"lr": (1 + n) / 1000} for n in range(50)]
    sampler = Proposals(written(tmp_path / "p", given), share=share, sampler=Random())
    configs = played(sampler, LINE, 40, lambda config: 1.0)
    values = {one["lr"] for one in given}
    counts = np.cumsum([config.client["lr"] in values for config in configs])
    assert (counts <= share * np.arange(1, 41) + 1e-9).all()
    assert counts[-1] == {0.0: 0, 0.1: 1, 0.3: 2, 0.5: 3, 1.0: 40}[share]  # a sixth, and at least one


def test_proposals_come_in_order_and_lines_may_be_added_later(tmp_path: Path) -> None:
    path = tmp_path / "p"
    sampler = Proposals(str(path), share=1.0)
    rng = np.random.default_rng(0)
    assert sampler.suggest(LINE, [], [], rng) is not None  # nobody has proposed anything: the sampler does
    written(path, [{"lr": 0.25}, {"lr": 0.75}])
    first = sampler.suggest(LINE, [], [], rng)
    assert first == LINE.complete({"client": {"lr": 0.25}})
    assert sampler.suggest(LINE, [], [first], rng) == LINE.complete({"client": {"lr": 0.75}})


def test_what_is_no_config_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text(
        '{"client": {"lr": 7}}\nnot json\n{"server": {"lr": 1}}\n[1]\n{"client": {"lr": 0.5}}\n{"cli'
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Proposals(str(path), share=1.0).suggest(LINE, [], [], np.random.default_rng(0))
    assert found == LINE.complete({"client": {"lr": 0.5}})
    assert len(caught) == 5
    assert "line 1" in str(caught[0].message)


def test_a_pool_is_not_left() -> None:
    pool = [PLANE.sample(np.random.default_rng(n)) for n in range(5)]
    outside = PLANE.sample(np.random.default_rng(99))
    sampler = Proposals(ask=lambda space, seen: outside, share=1.0)
    assert sampler.suggest(PLANE, [], [], np.random.default_rng(0), pool) in pool


def test_a_resumed_run_asks_nobody_again(tmp_path: Path) -> None:
    """Whoever is asked answers by how often that was: another call would change every answer after it."""
    calls: list[int] = []

    def ask(space: Space, seen: Any) -> dict[str, Any]:
        calls.append(len(seen))
        return {"client": {"lr": 0.011 * len(calls)}}

    def tuned(run: Path, **more: Any) -> fh.Result:
        tuner = fh.Tuner(
            FixedLength(trials=8, side_by_side=1), Proposals(ask=ask, share=1.0, sampler="random")
        )
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
        return fh.tune(ToyFederation(clients=6), space, tuner, rounds=2, total=16, cohort=3, run=run, **more)

    whole = tuned(tmp_path / "whole")
    asked = len(calls)
    assert asked == 7  # the first trial is the default config
    for length in (2, 4, 7):
        calls.clear()
        count = [0]

        def stop(event: Any, count: list[int] = count, length: int = length) -> bool:
            count[0] += 1
            return count[0] > length

        run = tmp_path / f"cut {length}"
        assert tuned(run, callbacks=[stop]).status == "stopped"
        assert tuned(run).facts["trials"] == whole.facts["trials"]
        assert len(calls) == asked


def test_a_study_names_it() -> None:
    method = method_in(
        {
            "schedule": {"name": "robust"},
            "sampler": {"name": "proposals", "file": "p.jsonl", "sampler": "tpe", "share": 0.2},
        }
    )
    assert method.sampler == Proposals("p.jsonl", share=0.2, sampler="tpe")
    for values, words in (
        ({"share": 1.5}, "share"),
        ({"sampler": "none"}, "unknown sampler"),
        ({"file": "a", "ask": lambda space, seen: None}, "one of them"),
    ):
        with pytest.raises(InputError, match=words):
            Proposals(**values)


def finished(sampler: Sampler, trials: int, value: Any, final: bool = True) -> list[Config]:
    """The configs of a run in which every score is that of a full training, unless `final` is false."""
    asked: list[Config] = []
    seen: list[Observation] = []
    for trial in range(trials):
        config = sampler.suggest(LINE, seen, asked, np.random.default_rng(trial))
        assert config is not None
        asked.append(config)
        seen.append(replace(observed(trial, config, value(config)), final=final))
    return asked


def test_trust_is_earned_by_full_trainings_alone(tmp_path: Path) -> None:
    """The best there are get nearly all of their share, the worst next to nothing."""
    given = [{"lr": (1 + n) / 1000} for n in range(50)]
    path = written(tmp_path / "p", given)
    values = {one["lr"] for one in given}

    def count(value: Any, final: bool = True) -> int:
        configs = finished(Proposals(path, share=0.4, sampler=Random()), 100, value, final)
        return sum(config.client["lr"] in values for config in configs)

    assert count(lambda config: config.client["lr"]) >= 30
    assert count(lambda config: -config.client["lr"]) <= 5
    assert count(lambda config: config.client["lr"], final=False) == 6 == int(START * 0.4 * 100)


def test_trust_by_hand() -> None:
    mine = {LINE.complete({"client": {"lr": one}}) for one in (0.1, 0.2)}
    other = LINE.complete({"client": {"lr": 0.9}})
    seen = [
        replace(observed(n, one, score), final=True)
        for n, (one, score) in enumerate([*((one, 0.2) for one in sorted(mine, key=str)), (other, 0.5)])
    ]
    # Two wins of two: (2 - 0) / (2 + 2) of the way from a sixth to all.
    assert trust(seen, mine) == pytest.approx(1 / 6 + 0.5 * 5 / 6)
    lost = [replace(one, score=replace(one.score, rank_value=-one.score.rank_value)) for one in seen]
    assert trust(lost, mine) == pytest.approx(1 / 6 * (1 - 0.5))
    assert trust(seen[:2], mine) == START  # nothing to compare with


def test_a_search_says_which_scores_are_of_full_trainings() -> None:
    seen: list[list[Observation]] = []

    def ask(space: Space, observations: Any) -> None:
        seen.append(list(observations))

    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    tuner = fh.Tuner(Hyperband(), Proposals(ask=ask, share=1.0, sampler="random"))
    fh.tune(ToyFederation(clients=6), space, tuner, rounds=9, total=120, cohort=3)
    every = [one for some in seen for one in some]
    assert {one.final for one in every} == {True, False}
    assert all(one.final == (one.score.round == 9) for one in every)


def test_what_cannot_be_tried_is_said_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    missing = Proposals(str(tmp_path / "typo.jsonl"), share=1.0, sampler="random")
    with pytest.warns(UserWarning, match=r"typo\.jsonl is not there: nothing is proposed until it is"):
        missing.suggest(LINE, [], [], rng)
    pool = [Config(client={"lr": 0.25}), Config(client={"lr": 0.5})]
    some = Proposals(written(tmp_path / "p", [{"lr": 0.3}, {"lr": 0.5}]), share=1.0, sampler="random")
    with pytest.warns(UserWarning, match=r"\{'lr': 0\.3\}.* is not one of the table's configs"):
        assert some.suggest(LINE, [], [], rng, pool) == pool[1]
    asked = Proposals(ask=lambda space, seen: {"client": {"lr": 0.3}}, share=1.0, sampler="random")
    with pytest.warns(UserWarning, match="is not one of the table's configs"):
        assert asked.suggest(LINE, [], [], rng, pool) in pool


def test_a_share_of_no_proposals_is_refused() -> None:
    with pytest.raises(InputError, match=r"sampler\.share = 0\.5: counts only where file is given or ask"):
        fh.tune(ToyFederation(), LINE, fh.Tuner(FixedLength(), Proposals(share=0.5)), rounds=1, total=2)
