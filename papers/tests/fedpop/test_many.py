"""FedPop at many seeds: the plan, the order of runs, the page of made-up rows, and a tiny one for real."""

import importlib
import json
from dataclasses import replace

import pytest

import fedhpo as fh
from fedhpo.federations.simulate import simulate
from fedhpo.research.statistics import Plan
from fedhpo.search.events import TuningError
from fedhpo_papers.fedpop import many
from fedhpo_papers.fedpop.command import run
from fedhpo_papers.fedpop.many import METHODS, SCALES, Done, about, todo
from fedhpo_papers.fedpop.many_page import Table, facts, page
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import earlier_rows
from fedhpo_papers.shared.remembering import Remembering


def tiny(replicates=2, methods=("sha", "sha-3")):
    claim = {"name": "a", "first": methods[0], "second": methods[1], "sets": ["digits"]}
    return Plan.from_dict(
        {"endpoint": "accuracy", "first_seed": 50, "claims": [{**claim, "replicates": replicates}]}
    )


def run_all(*arguments, **options):
    return [Done(**row) for row in many.run_all(*arguments, **options)]


TINY = {"digits": Setting("digits", {"clients": 8}, "mlp", 4, 12, cohort=3, trials=3, epochs=2)}


def test_the_plan_names_what_there_is_and_seeds_that_nothing_was_chosen_on():
    plan = Plan.load(SCALES["default"].plan)
    assert set(plan.methods) == set(METHODS)
    assert set(plan.sets) == set(SCALES["default"].sets)
    assert plan.first_seed >= 1000
    assert all(claim.replicates >= 20 and claim.margin for claim in plan.claims)
    assert len(todo(plan)) == 11 * 4 * 20


def test_the_deep_plan_has_eight_seeds_of_four_methods_on_a_cnn_and_an_lstm():
    plan, sets = Plan.load(SCALES["deep"].plan), SCALES["deep"].sets
    assert set(plan.methods) == {"auto", "sha", "sha-3", "fedpop"}
    assert set(plan.sets) == set(sets)
    assert {setting.model for setting in sets.values()} == {"cnn_small", "lstm"}
    assert plan.first_seed > max(Plan.load(SCALES["default"].plan).seeds("auto", "femnist"))
    assert len(todo(plan)) == 4 * 2 * 8


def test_what_most_claims_need_comes_first_seed_by_seed():
    plan = Plan.load(SCALES["default"].plan)
    order, first = todo(plan), plan.first_seed
    assert len(set(order)) == len(order)
    stage = ("sha-3", "auto", "sha-3-mean", "sha-3-cooling", "sha")
    assert {(seed, method) for seed, _, method in order[:20]} == {(first, method) for method in stage}
    assert order[20][0] == first + 1
    assert {method for _, _, method in order[:400]} == set(stage)


def rows(gaps, diverged=()):
    found = []
    for seed, gap in enumerate(gaps, start=50):
        found.append(Done("sha", "digits", seed, 80.0 + gap, 1, seed in diverged))
        found.append(Done("sha-3", "digits", seed, 80.0, 3))
    return found


def test_the_page_judges_what_is_whole_and_counts_collapses():
    plan = tiny(20)
    done = rows([1.0, 1.2] * 10)
    assert "**holds**" in page("default", plan, TINY, done)
    part = page("default", plan, TINY, done[:-2])
    assert "**undecided** (19 of 20 pairs)" in part
    fallen = rows([-0.5] * 18 + [-10.5, -40.0], diverged=[69])
    assert "2 of 20 (1.2% to 31.7%)" in page("default", plan, TINY, fallen)
    assert "they count at chance: sha on digits, seed 69" in page("default", plan, TINY, fallen)
    assert facts(plan, TINY, fallen)["verdicts"]["a"]["verdict"] in ("undecided", "does not hold")


def test_lineages_are_counted_without_runs_that_diverged():
    table = Table(rows([0.0, 0.0], diverged=[51]))
    assert table.lineages("sha", ["digits"]) == [1]
    assert table.lineages("sha-3", ["digits"]) == [3, 3]


def test_it_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    plan, path, said = tiny(), tmp_path / "journal", []
    real, left = many._run, [3]

    def stopping(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*arguments)

    monkeypatch.setattr(many, "_run", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_all(plan, TINY, path, said.append)
    assert len(said) == 3
    monkeypatch.setattr(many, "_run", real)
    done = run_all(plan, TINY, path, said.append)
    assert len(said) == 4
    assert [(one.seed, one.method) for one in done] == [(s, m) for s in (50, 51) for m in ("sha-3", "sha")]
    assert done == run_all(plan, TINY, path, said.append)
    assert len(said) == 4
    assert all(5 < one.accuracy < 100 for one in done)
    with pytest.raises(fh.InputError, match="was begun with other settings"):
        run_all(tiny(3), TINY, path, said.append)


def counted(monkeypatch):
    real, keys = many._run, []

    def run(*arguments):
        keys.append(arguments[-1:] + arguments[-2:-1])
        return real(*arguments)

    monkeypatch.setattr(many, "_run", run)
    return keys


def test_what_an_earlier_call_left_beside_its_page_is_taken_up_where_it_repeats(tmp_path, monkeypatch):
    plan, said = tiny(3), []
    done = run_all(plan, TINY, tmp_path / "first", said.append)
    kept = tmp_path / "fedpop.json"
    kept.write_text(json.dumps(facts(plan, TINY, done)))
    earlier = earlier_rows(kept, about(plan, TINY), said.append)
    assert [Done(**row) for row in earlier] == done
    keys = counted(monkeypatch)
    said.clear()
    assert run_all(plan, TINY, tmp_path / "second", said.append, earlier=earlier) == done
    assert len(keys) == 2  # the first seed of each method, once more
    assert all("is the same: 2 more taken up" in line for line in said)
    assert run_all(plan, TINY, tmp_path / "second", said.append) == done  # from its own journal
    assert len(keys) == 2
    changed = [
        {**row, "accuracy": row["accuracy"] + 1e-9} if row["method"] == "sha" else row for row in earlier
    ]
    said.clear()
    keys.clear()
    assert run_all(plan, TINY, tmp_path / "third", said.append, earlier=changed) == done
    assert len(keys) == 4  # all of sha, and one of the other
    assert any("digits sha: seed 50 was run again and differs: all are run again" in line for line in said)


def test_what_was_made_by_another_plan_or_other_settings_is_not_taken_up(tmp_path):
    plan, said, kept = tiny(), [], tmp_path / "fedpop.json"
    assert earlier_rows(kept, about(plan, TINY), said.append) == []
    kept.write_text(json.dumps(facts(plan, TINY, rows([0.0, 1.0]))))
    assert len(earlier_rows(kept, about(plan, TINY), said.append)) == 4
    longer = {"digits": replace(TINY["digits"], rounds=5)}
    assert not said
    assert earlier_rows(kept, about(plan, longer), said.append) == []
    assert earlier_rows(kept, about(tiny(3), TINY), said.append) == []
    assert ["(sets)" in said[0], "(plan)" in said[1]] == [True, True]


def test_when_it_is_stopped_the_page_of_what_is_done_is_written(tmp_path, monkeypatch):
    real, left = many._run, [3]

    def stopping(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*arguments)

    plan = tmp_path / "plan.toml"
    plan.write_text(
        'endpoint = "accuracy"\nfirst_seed = 50\n[[claims]]\nname = "a"\nfirst = "sha"\nsecond = "sha-3"\n'
        'sets = ["digits"]\nreplicates = 2\n'
    )
    monkeypatch.setattr(many, "_run", stopping)
    monkeypatch.setattr(many, "SCALES", {"default": many.Scale(plan, TINY, "tiny models")})
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(runs=tmp_path / "runs", out=out)
    found = json.loads((out / "fedpop.json").read_text())
    assert len(found["rows"]) == 3
    assert "3 of 4 planned runs are done" in (out / "fedpop.md").read_text()
    # Stopped at once on another machine: what was kept is not replaced by less.
    with pytest.raises(KeyboardInterrupt):
        run(runs=tmp_path / "other", out=out)
    assert json.loads((out / "fedpop.json").read_text()) == found


METHODS_ON_TOY = ("sha-3", "auto", "sha-3-mean", "sha-3-cooling", "sha", "fedpop-g")


def test_rounds_that_methods_share_are_trained_once_and_nothing_else_changes(monkeypatch):
    """Six methods on digits, each alone and all in one memory."""
    setting = replace(TINY["digits"], rounds=10, total=40, trials=9)
    data = setting.load()
    trained = []

    class Counting(Remembering):
        def __init__(self, inner):
            super().__init__(inner)
            real = inner.round
            inner.round = lambda work: trained.extend(work) or real(work)

    found = {}
    for remembers in (False, True):
        with simulate(setting.model, data, server="fedavgm", workers=0) as plain:
            federation = Counting(plain) if remembers else plain
            found[remembers] = [
                many._run(federation, 10, setting, "digits", method, 3) for method in METHODS_ON_TOY
            ]
    assert found[True] == found[False]
    assert len({one.accuracy for one in found[True]}) > 2
    # 40 rounds each; of the four with three finalists only what differs is trained.
    assert len(trained) < 0.65 * 40 * len(METHODS_ON_TOY)


def test_a_run_that_comes_to_nothing_counts_at_chance(tmp_path, monkeypatch):
    def failing(*arguments, **options):
        raise TuningError("no trial could be trained")

    monkeypatch.setattr(importlib.import_module("fedhpo.tuning.tune"), "tune", failing)
    done = run_all(tiny(), TINY, tmp_path / "journal", lambda text: None)
    assert {(one.accuracy, one.diverged) for one in done} == {(10.0, True)}


@pytest.mark.data
def test_components_are_those_of_the_training_rows():
    data = SCALES["default"].sets["fashion"].load()
    assert data.x.shape[1:] == (48,)
    variance = data.x[data.train.indices].var(axis=0)
    assert (variance[:-1] >= variance[1:] - 0.05).all()
