"""Outside proposals: their share, their order, and what a resumed run does without them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.protocol.sampler import Sampler
from fedhpo.samplers import Proposals, Random
from fedhpo.schedules import FixedLength
from fedhpo.space import Float, Space
from fedhpo.study.methods import method_in
from fedhpo.testing import ToyFederation
from fedhpo.testing.sampler import PLANE, SamplerSuite, played

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
    assert counts[-1] == int(share * 40)


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
            FixedLength(trials=8, side_by_side=1), Proposals(ask=ask, share=0.5, sampler="random")
        )
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
        return fh.tune(ToyFederation(clients=6), space, tuner, rounds=2, total=16, cohort=3, run=run, **more)

    whole = tuned(tmp_path / "whole")
    asked = len(calls)
    assert asked == 4
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


def test_proposals_that_stand_badly_get_fewer_turns(tmp_path: Path) -> None:
    given = [{"lr": (1 + n) / 1000} for n in range(50)]
    path = written(tmp_path / "p", given)
    values = {one["lr"] for one in given}

    def count(value: Any) -> int:
        configs = played(Proposals(path, share=0.5, sampler=Random()), LINE, 60, value)
        return sum(config.client["lr"] in values for config in configs)

    assert count(lambda config: config.client["lr"]) == 30  # the best there are: their whole share
    assert count(lambda config: -config.client["lr"]) <= 5  # the worst there are
