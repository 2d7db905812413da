"""FedTune as a method: one training by a table, from proxy data or a file; what leaves a client."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.aggregation.server import OPTIMISERS
from fedhpo.cli import main
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.methods.fedtune.policy import LookUp
from fedhpo.protocol.federation import BEFORE
from fedhpo.run.codec import unpack
from fedhpo.run.record import Record
from fedhpo.study import Study
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(0.001, 1.0, log=True), "epochs": fh.Int(1, 9), "batch_size": 8})
BUDGET = {"rounds": 3, "total": 3, "cohort": 3, "seed": 1}
SMALL = {"indices": (0.2, 0.8), "quantities": (20, 60), "clients": 2, "length": 2, "steps": 3}


def config(lr, epochs):
    return {"lr": lr, "epochs": epochs, "batch_size": 8}


def table(rate=None, epochs=(2, 3, 5, 7)):
    rates = (0.0113, 0.0127, 0.0131, 0.0137) if rate is None else (rate,) * 4
    space = fh.Space(client={"lr": fh.Float(0.0, 1.0), "epochs": fh.Int(1, 9), "batch_size": 8})
    return ReferenceTable(Cells((0.2, 0.8), (20, 60)), tuple(map(config, rates, epochs)), space)


def clients(sizes, classes, seed=0):
    """Clients that hold so many rows of so many of ten classes; all validate on the same five rows."""
    rng = np.random.default_rng(seed)
    same = np.random.default_rng(9).normal(size=(5, 4)), np.arange(5)
    made = [
        {"train": (rng.normal(size=(n, 4)), np.arange(n) % c), "validation": same}
        for n, c in zip(sizes, classes, strict=True)
    ]
    return from_clients(made, classes=10)


def rounds_of(data, rule, *, weighting, server="fedavg", rounds=2, workers=0):
    """The reports of a training in which clients resolve a rule."""
    with fh.simulate("linear", data, weighting=weighting, server=server, workers=workers) as federation:
        federation.start(0, {}, 1)
        work = fh.Work(0, list(range(len(data.train.sizes))), rule, scores=(BEFORE,))
        return [federation.round([work])[0] for _ in range(rounds)]


def said(report):
    """All that a report holds, as JSON."""
    listed = {
        name: np.asarray(value).tolist() for name, value in vars(report).items() if name not in ("cost",)
    }
    return json.dumps({**listed, "reasons": dict(report.reasons), "cost": vars(report.cost)}, default=str)


def test_a_client_with_uniform_weights_sends_nothing_that_hangs_on_profile_or_choice():
    """With a learning rate of 0 updates are all alike: whatever else differs would tell something."""
    few_classes, many_classes = clients([20, 20, 60], [2, 2, 1]), clients([61, 35, 22], [10, 9, 8], seed=4)
    one, other = table(0.0), table(0.0, epochs=(9, 1, 4, 6))
    assert len(canonical(one.to_dict())) == len(canonical(other.to_dict()))
    expected = [said(report) for report in rounds_of(few_classes, one, weighting="uniform")]
    assert [said(r) for r in rounds_of(few_classes, other, weighting="uniform")] == expected
    assert [said(r) for r in rounds_of(many_classes, one, weighting="uniform")] == expected
    assert [said(r) for r in rounds_of(many_classes, other, weighting="uniform")] == expected
    assert json.loads(expected[0])["train_size"] == [0, 0, 0]


def test_with_size_weights_the_size_is_revealed_and_nothing_else():
    data = clients([23, 41, 67], [2, 10, 4])
    expected = [said(report) for report in rounds_of(data, table(0.0), weighting="size")]
    assert json.loads(expected[0])["train_size"] == [23, 41, 67]
    assert [said(r) for r in rounds_of(data, table(0.0, (9, 1, 4, 6)), weighting="size")] == expected
    # Other classes, the same sizes.
    others = clients([23, 41, 67], [7, 1, 9], seed=4)
    assert [said(r) for r in rounds_of(others, table(0.0), weighting="size")] == expected


def test_the_median_needs_no_sizes():
    with fh.simulate(
        "linear", clients([23, 41, 67], [2, 10, 4]), aggregation="median", workers=0
    ) as federation:
        federation.start(0, {}, 1)
        [report] = federation.round([fh.Work(0, [0, 1, 2], table(), scores=(BEFORE,))])
    assert report.train_size.tolist() == [0, 0, 0]
    assert report.cost.samples == 0


def test_each_client_trains_by_its_own_cell():
    data = clients([20, 60, 20, 60], [9, 9, 2, 2])
    with fh.simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, 1)
        federation.round([fh.Work(0, [0, 1, 2, 3], list(table().configs), scores=(BEFORE,))])
        weights = federation.state(0).arrays["weights"]
    with fh.simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, 1)
        federation.round([fh.Work(0, [0, 1, 2, 3], table(), scores=(BEFORE,))])
        np.testing.assert_allclose(federation.state(0).arrays["weights"], weights, rtol=0, atol=1e-6)


def test_the_table_s_bytes_are_charged_once_a_client_and_round():
    data = clients([20, 60, 20], [9, 9, 2])
    [plain] = rounds_of(data, {"lr": 0.1}, weighting="size", rounds=1)
    [ruled] = rounds_of(data, table(), weighting="size", rounds=1)
    assert ruled.cost.bytes_down - plain.cost.bytes_down == 3 * len(canonical(table().to_dict()))
    assert ruled.cost.bytes_up == plain.cost.bytes_up


def test_nothing_of_a_client_is_in_the_record_of_a_run(tmp_path):
    """Every event of the record is read: what clients sent, and what was asked of them."""
    sizes, classes = [23, 41, 67, 59], [2, 10, 4, 7]
    data = clients(sizes, classes)
    path = tmp_path / "table.json"
    table().save(path)
    with fh.simulate("linear", data, weighting="uniform", workers=0) as federation:
        result = fh.tune(federation, SPACE, fh.FedTune(table=str(path)), run=tmp_path / "run", **BUDGET)
    record = Record(tmp_path / "run" / "record.sqlite", read_only=True)
    events = list(record.events())
    record.close()
    assert {event.kind for event in events} >= {"start", "round", "evaluate"}
    trained = [event for event in events if event.kind == "round"]
    for event in trained:
        [report] = unpack(event.result)
        assert report.train_size.tolist() == [0, 0, 0]
        assert report.validation_size.tolist() == [1, 1, 1]
        assert (report.cost.samples, dict(report.reasons)) == (0, {})
        sent = json.loads(event.call)["work"][0]
        assert sent["client"] == {"rule": json.loads(canonical(table().for_clients().to_dict()))}
    assert len(trained) == 3
    # Which cell a client took is known to nobody: the result has the table, and no client hyperparameters.
    assert result.facts["best"]["config"].get("client") is None
    assert result.tried["client"] == 0
    assert result.facts["table"]["configs"] == json.loads(canonical(table().to_dict()))["configs"]


@pytest.mark.parametrize("server", sorted(OPTIMISERS))
def test_it_composes_with_every_server_optimiser(server):
    data = fh.load("digits", clients=6)
    rule = table(0.1, epochs=(1, 1, 1, 1))
    with fh.simulate("linear", data, server=server, workers=0) as federation:
        policy = LookUp(rule)
        tuner = fh.Tuner(fh.schedules.FixedLength(1), policy=policy)
        result = fh.tune(federation, SPACE, tuner, rounds=4, total=4, cohort=4)
    assert result.best_score > 0.3


def test_a_table_from_proxy_data(tmp_path):
    def method(**more):
        simulate = partial(fh.simulate, "linear", workers=0)
        return fh.FedTune(**SMALL, proxy=fh.load("digits", seed=3), simulate=simulate, **more)

    def tune(run, callbacks=()):
        with fh.simulate("linear", fh.load("digits", clients=5), workers=0) as federation:
            return fh.tune(federation, SPACE, method(), run=run, callbacks=callbacks, **BUDGET)

    whole = tune(tmp_path / "whole")
    found = ReferenceTable.load(tmp_path / "whole" / "table.json")
    assert found.to_dict() == whole.facts["table"]
    assert found.facts["steps"] == 12
    assert whole.facts["proxy"]["cost"] == {
        "rounds": 24,
        "client_rounds": 48,
        "bytes_down": 0,
        "bytes_up": 0,
    }
    assert whole.cost["rounds"] == 3
    assert [(t["trial"], t["rounds"]) for t in whole.trials] == [(0, 0), (1, 3)]
    # The cell's default config is tried first, so that no cell is worse than it.
    assert len(found.scores) == 4

    told = []

    def stop(event):
        told.append(event.kind)
        return told.count("table") == 2

    stopped = tune(tmp_path / "cut", [stop])
    assert stopped.status == "stopped"
    again = tune(tmp_path / "cut")
    assert again.status == "finished"
    assert again.facts["table"] == whole.facts["table"]
    assert again.best_score == whole.best_score


def test_a_baseline_is_trained_where_it_is_wanted(tmp_path):
    table().save(tmp_path / "table.json")
    method = fh.FedTune(table=str(tmp_path / "table.json"))
    result = fh.tune(ToyFederation(noise=0.0), SPACE, method, baseline=True, **BUDGET)
    assert [(t["trial"], t["rounds"]) for t in result.trials] == [(0, 3), (1, 3)]
    assert result.gain["round"] == 3


def test_a_private_score_is_released_once(tmp_path):
    table().save(tmp_path / "table.json")
    evaluation = fh.Evaluator(privacy=fh.Privacy(epsilon=1.0))
    method = fh.FedTune(table=str(tmp_path / "table.json"))
    result = fh.tune(ToyFederation(noise=0.0), SPACE, method, evaluation=evaluation, **BUDGET)
    assert result.facts["privacy"]["evaluations"] == 1


STUDY = """
seed = 1
[data]
name = "digits"
clients = 10
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[method]
name = "fedtune"
indices = [0.2, 0.8]
quantities = [30]
clients = 2
length = 2
steps = 3
[proxy.data]
name = "digits"
seed = 5
[budget]
rounds = 4
cohort = 3
"""


def test_the_study_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert main(["tune", "study.toml", "--workers", "0", "--quiet"]) == 0
    assert "6 trials, 12 rounds on digits, simulated by the server" in capsys.readouterr().out
    result = json.loads((tmp_path / "runs/study/result.json").read_text())
    assert result["method"]["name"] == "fedtune"
    assert result["cost"]["rounds"] == 4
    report = (tmp_path / "runs/study/report.html").read_text()
    assert "Reference table" in report
    assert "what it found is not known here" in report
    # The table that it wrote serves a study without proxy data.
    other = STUDY.replace('[proxy.data]\nname = "digits"\nseed = 5\n', "")
    filling = "indices = [0.2, 0.8]\nquantities = [30]\nclients = 2\nlength = 2\nsteps = 3\n"
    other = other.replace('name = "fedtune"', 'name = "fedtune"\ntable = "runs/study/table.json"')
    (tmp_path / "other.toml").write_text(other)
    assert main(["tune", "other.toml", "--workers", "0", "--quiet", "--json"]) == 2
    assert "method.steps = 3: counts only where table is left out" in capsys.readouterr().err
    other = other.replace(filling, "")
    (tmp_path / "other.toml").write_text(other)
    assert main(["tune", "other.toml", "--workers", "0", "--quiet", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["table"] == result["table"]
    assert again["best"]["validation"] == result["best"]["validation"]


def test_the_example_tunes_on_rows_that_no_client_holds():
    example = Study.load(Path(__file__).parents[3] / "examples" / "fedtune.toml")
    clients, proxy = example.load_data(), example.proxy_study.load_data()
    held = [
        set(np.concatenate([s.indices for s in (d.train, d.validation, d.test)])) for d in (clients, proxy)
    ]
    assert not held[0] & held[1]
    assert [len(rows) for rows in held] == [18 * 40, 539]


def study(**change):
    return {
        "data": {"name": "digits", "clients": 10},
        "model": {"name": "linear"},
        "space": {"client": {"lr": {"low": 0.001, "high": 1.0, "log": True}}},
        "method": {"name": "fedtune"},
        "proxy": {"data": {"name": "digits"}},
        "budget": {"rounds": 4, "cohort": 3},
        **change,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": {"name": "fedtune", "indices": [0.8, 0.2]}}, r"method\.indices: .*ascending"),
        ({"method": {"name": "fedtune", "steps": 0}}, r"method\.steps: steps must be"),
        ({"method": {"name": "fedtune", "patience": -1}}, r"method\.patience: patience must be"),
        ({"method": {"name": "fedtune", "measure": "gauss"}}, r"method\.measure = 'gauss'"),
        ({"method": {"name": "fedtune", "held_out": 1.0}}, r"method\.held_out: held_out must be a share"),
        ({"method": {"name": "fedtune", "table": "t.json"}}, r"method\.table: leave it out"),
        ({"proxy": {"data": {"name": "digits"}, "method": {"name": "sha"}}}, r"proxy\.method: leave it out"),
        ({"proxy": {"data": {"name": "digit"}}}, r"proxy\.data\.name: unknown data set"),
    ],
)
def test_mistakes_in_the_study_are_told_with_their_key(change, message):
    with pytest.raises(InputError, match=message):
        Study.from_dict(study(**change))


def test_mistakes_that_only_the_run_can_see(tmp_path):
    def tune(space=SPACE, **settings):
        return fh.tune(ToyFederation(), space, fh.FedTune(**settings), **BUDGET)

    with pytest.raises(InputError, match=r"fedtune needs proxy data .* or a table"):
        tune()
    table().save(tmp_path / "table.json")
    with pytest.raises(
        InputError, match="the table is for the client hyperparameters batch_size, epochs, lr"
    ):
        tune(fh.Space(client={"lr": fh.Float(0, 1)}), table=str(tmp_path / "table.json"))
    with pytest.raises(InputError, match="has none in scope client"):
        tune(fh.Space(server={"lr": fh.Float(0, 1)}), table=str(tmp_path / "table.json"))
    with pytest.raises(InputError, match="cannot read the reference table"):
        tune(table=str(tmp_path / "none.json"))


def test_what_concerns_cells_is_refused_where_whole_tables_are_tuned():
    for settings in ({"patience": 2}, {"sampler": "random"}):
        with pytest.raises(InputError, match=r"counts only where table is left out and scored_on is 'held-"):
            fh.FedTune(scored_on="mixture", **settings)
