"""The winner against the user's own config: who compares, what leaves them, and when it is an improvement."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.significance import ASKED
from fedhpo.privacy.noise import ExactNoise, SeededNoise
from fedhpo.privacy.privacy import Privacy
from fedhpo.run import open_read
from fedhpo.run.record import Record
from fedhpo.search.comparison import LEAST, SUM_SHARE, comparison_of, draw_comparison
from fedhpo.search.evaluator import Evaluator
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=1e-3)})
RANDOM = {"method": fh.RandomSearch(trials=4), "rounds": 3, "total": 12, "cohort": 4}


def tune(privacy=None, federation=None, *, clients=None, **options):
    evaluation = Evaluator(clients=clients, privacy=privacy)
    return fh.tune(
        federation or ToyFederation(clients=60), SPACE, evaluation=evaluation, **(RANDOM | options)
    )


def events(path, kind):
    with open_read(path) as run:
        return [event for event in run.record.events() if event.kind == f"decide {kind}"]


class Asked(ToyFederation):
    """Knows who was asked about what."""

    def __init__(self, **options):
        super().__init__(**options)
        self.asked = []

    def evaluate(self, trials, clients, split="validation"):
        self.asked.append((list(trials), [int(client) for client in clients]))
        return super().evaluate(trials, clients, split)


@pytest.mark.parametrize(
    ("accounting", "mechanism"),
    [("rotation", "laplace"), ("basic", "laplace"), ("rotation", "topk"), ("pld", "permute-and-flip")],
)
def test_held_out_clients_are_asked_once_and_by_nobody_else(tmp_path, accounting, mechanism):
    if accounting == "pld":
        pytest.importorskip("dp_accounting")
    delta = 1e-3 if accounting == "pld" else 0.0
    privacy = Privacy(5.0, mechanism=mechanism, accounting=accounting, delta=delta)
    federation = Asked(clients=60)
    result = tune(privacy, federation, run=tmp_path / "a")
    plan = result.facts["privacy"]["comparison"]
    held_out = set(plan["clients"])
    assert len(held_out) == 12
    assert plan["held_out"]
    assert plan["released"]
    *search, (trials, last) = federation.asked
    assert set(last) == held_out
    assert trials == [result.facts["best"]["trial"], 0]
    assert not held_out & {client for _, clients in search for client in clients}
    [event] = events(tmp_path / "a", "compare")
    assert json.loads(event.call)["clients"] == sorted(held_out)
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(5.0)
    assert result.gain["fresh"] is True
    assert result.gain["clients"] == 12
    again = Asked(clients=60)
    assert tune(privacy, again, run=tmp_path / "a").gain == result.gain  # drawn once
    assert again.asked == []


def test_few_clients_keep_a_part_of_epsilon_and_it_is_said(tmp_path):
    result = tune(Privacy(50.0), ToyFederation(clients=20), run=tmp_path / "a", seed=1)
    said = result.facts["privacy"]
    assert said["comparison"]["held_out"] is False
    assert (said["epsilon"], said["comparison"]["epsilon"]) == (50.0, pytest.approx(10.0))
    assert said["epsilon_each"] == pytest.approx(40.0 / 4)  # 4 scores, all clients in each
    assert said["epsilon_spent"] == pytest.approx(50.0)
    assert [e.epsilon for e in events(tmp_path / "a", "compare")] == [pytest.approx(10.0)]
    assert result.gain["level"] == pytest.approx(ASKED / 3)
    assert "same clients" in result.verdict
    assert not comparison_of(Privacy(1.0), np.arange(49), 0).held_out
    assert comparison_of(Privacy(1.0), np.arange(50), 0).held_out
    assert not comparison_of(Privacy(1.0), np.arange(60), 0, asked=60).held_out


def test_what_leaves_the_clients_by_hand():
    """Differences 0.9, -0.1 and 0.2 clipped to ±0.5: sum 0.6, squares 0.25 + 0.01 + 0.04."""
    plan = comparison_of(Privacy(1e12, clip=0.5), np.arange(100), 0)
    found = draw_comparison(np.array([0.9, -0.1, 0.2]), plan, SeededNoise(np.random.default_rng(0)))
    assert found["mean"] == pytest.approx(0.2)
    assert found["second_moment"] == pytest.approx(0.1)
    assert found["scale"] == pytest.approx(2 * 0.5 / (SUM_SHARE * 1e12 * 3))
    assert found["second_scale"] == pytest.approx(0.5**2 / ((1 - SUM_SHARE) * 1e12 * 3))
    pytest.importorskip("opendp")
    exact = draw_comparison(np.array([0.9, -0.1, 0.2]), plan, ExactNoise())
    assert exact["mean"] == pytest.approx(0.2, abs=1e-8)
    assert exact["second_moment"] == pytest.approx(0.1, abs=1e-8)


def test_the_noise_has_the_scale_that_is_said():
    plan, rng = comparison_of(Privacy(2.0), np.arange(100), 0), np.random.default_rng(0)
    drawn = [draw_comparison(np.zeros(20), plan, SeededNoise(rng)) for _ in range(4000)]
    for name, scale in (("mean", 2 / (0.75 * 2 * 20)), ("second_moment", 1 / (0.25 * 2 * 20))):
        assert np.abs([one[name] for one in drawn]).mean() == pytest.approx(scale, rel=0.06)


def test_a_method_that_may_drop_the_own_config_keeps_nothing_for_a_comparison():
    result = tune(Privacy(5.0), method=fh.SHA(trials=9, finalists=1), rounds=8, total=48)
    assert "comparison" not in result.facts["privacy"]
    assert result.improved is not True
    kept = tune(Privacy(5.0), method=fh.SHA(trials=9, finalists=1), rounds=8, total=48, baseline=True)
    assert len(kept.facts["privacy"]["comparison"]["clients"]) == 12


def test_scores_and_gains_are_shown_in_their_range(tmp_path):
    wild = tune(Privacy(0.01), ToyFederation(clients=20), run=tmp_path / "a")
    raw = [value for e in events(tmp_path / "a", "release") for value in json.loads(e.result)["values"]]
    assert max(map(abs, raw)) > 1
    assert all(0 <= row["score"] <= 1 for row in wild.trials)
    assert 0 <= wild.best_score <= 1
    assert wild.gain is None or -1 <= wild.gain["value"] <= 1
    shown = [row["accuracy"] for row in wild.history if row["kind"] == "evaluate"]
    assert all(0 <= value <= 1 for value in shown)
    [compared] = [json.loads(e.result) for e in events(tmp_path / "a", "compare")] or [None]
    if compared is not None:  # the test had what was released
        assert wild.gain["standard_error"] >= math.sqrt(2) * compared["scale"]


def test_a_run_that_was_begun_without_a_comparison_goes_on_without(tmp_path):
    """As versions did that knew of none: the same calls, the same result."""
    stop = SimpleNamespace(after=2)

    def stopping(event):
        stop.after -= event.kind == "round"
        return stop.after < 0

    then = Privacy(5.0, held_out=0.0)
    assert tune(then, run=tmp_path / "a", callbacks=[stopping]).status == "stopped"
    record = Record(tmp_path / "a" / "record.sqlite", read_only=True)
    assert "held_out" not in record.get("study")["evaluation"]["privacy"]
    record.close()
    result = tune(Privacy(5.0), run=tmp_path / "a")
    assert result.status == "finished"
    assert "comparison" not in result.facts["privacy"]
    assert events(tmp_path / "a", "compare") == []


def test_fresh_clients_compare_where_scores_come_from_some(tmp_path):
    federation = Asked(clients=60)
    result = tune(None, federation, clients=5, run=tmp_path / "a")
    validated = [clients for trials, clients in federation.asked if len(clients) != 60]
    *search, last = validated
    assert not set(last) & {client for clients in search for client in clients}
    assert result.gain["fresh"] is True
    assert result.gain["clients"] == len(last) >= LEAST
    assert result.gain["level"] == ASKED
    again = tune(None, Asked(clients=60), clients=5, run=tmp_path / "a")
    assert again.gain == result.gain
    with open_read(tmp_path / "a") as run:
        assert run.facts()["spent"]["evaluations"] == result.cost["evaluations"]


def test_a_record_of_earlier_versions_asks_no_fresh_clients(tmp_path):
    from fedhpo.tuning.setup import prepare

    options = {"rounds": 3, "total": 12, "cohort": 4, "seed": 0, "evaluation": Evaluator(clients=5)}
    toy = ToyFederation(clients=60)
    assert prepare(toy, SPACE, fh.RandomSearch(trials=4), **options).search.compares_afresh
    old = prepare(toy, SPACE, fh.RandomSearch(trials=4), **options, begun={"evaluation": {"privacy": None}})
    assert not old.search.compares_afresh
    assert "comparison" not in old.facts(toy)


def test_where_all_clients_chose_the_level_is_that_of_all_rivals():
    result = tune(None, ToyFederation(clients=20))
    assert result.gain["fresh"] is False
    assert result.gain["rivals"] == 3
    assert result.gain["level"] == pytest.approx(ASKED / 3)
    assert (result.improved is True) == (result.gain["p_value"] <= result.gain["level"])
