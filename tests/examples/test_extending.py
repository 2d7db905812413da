"""The strangers in examples/extending, each from its study file."""

import json
import shutil
import sys
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.aggregation.own_rule import rule_of
from fedhpo.cli import main
from fedhpo.data import partition_from_dict
from fedhpo.protocol.own_metric import own_metric
from fedhpo.run import open_read

HERE = Path(__file__).parents[2] / "examples" / "extending"
NAMES = (
    "hill_climbing",
    "own_rates",
    "pbt",
    "own_trainee",
    "own_place",
    "geometric_median",
    "signed_server",
    "one_rare_class",
    "gumbel_choice",
    "brier",
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The examples, copied to a working directory of their own."""
    for file in HERE.iterdir():
        if file.suffix in (".py", ".toml"):
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.syspath_prepend(tmp_path)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def tuned(name, *more):
    assert main(["tune", f"{name}.toml", "--workers", "0", "--quiet", *more]) == 0
    return json.loads(Path("runs", name, "result.json").read_text())


def changed(name, old, new):
    text = Path(f"{name}.toml").read_text()
    assert old in text
    Path(f"{name}.toml").write_text(text.replace(old, new))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_one_file_below_a_hundred_lines(name):
    assert len((HERE / f"{name}.py").read_text().splitlines()) < 100


def test_the_sampler(capsys):
    result = tuned("hill_climbing")
    assert result["method"]["sampler"] == {"name": "HillClimbing", "startup": 2, "step": 0.3}
    assert len(result["trials"]) == 6
    study = fh.Study.load("hill_climbing.toml")
    known = [trial["score"] for trial in result["trials"]]
    # From the third trial on, each is a step of at most 0.3 from the best of those before it.
    for number in range(2, 6):
        best = max(range(number), key=lambda one: known[one])
        a, b = (
            study.space.to_unit(fh.Config.from_dict(result["trials"][one]["config"]))
            for one in (best, number)
        )
        assert abs(a - b).max() <= 0.3 + 1e-9


def test_the_policy_learns_per_client(capsys):
    result = tuned("own_rates")
    [told] = result["sections"]
    assert told["title"] == "Learning rates by client"
    rows = told["parts"][1]["table"]["rows"]
    assert rows, "the best trial has learned of some clients"
    # Of 6 rounds, each factor is a product of 1.1 and 0.5, within 4.
    assert all(0.25 <= factor <= 4 for _, factor in rows)
    assert len({factor for _, factor in rows}) > 1
    assert result["tried"]["client"] > len(result["trials"])


def test_the_method_and_its_section_in_the_report(capsys):
    result = tuned("pbt")
    copies = [step for trial in result["trials"] for step in trial["path"][1:]]
    assert len(copies) == 2  # one of four members, after rounds 2 and 4
    assert result["cost"]["rounds"] == 24
    rows = result["sections"][0]["parts"][0]["table"]["rows"]
    assert [row[0] for row in rows] == [2, 4]
    page = Path("runs/pbt/report.html").read_text(encoding="utf-8")
    assert "<h2>Exchanges</h2>" in page
    assert "became a copy of" in page


def test_the_trainee_is_trained_in_this_process(capsys):
    result = tuned("own_trainee")
    assert [trial["rounds"] for trial in result["trials"]] == [3, 3, 3]
    assert max(trial["score"] for trial in result["trials"]) > 0.6


def test_the_place_trains_trees(capsys):
    assert main(["tune", "own_place.toml", "--quiet"]) == 0
    result = json.loads(Path("runs", "own_place", "result.json").read_text())
    given = {key: table for key, table in fh.Study.load("own_place.toml").given.items() if key != "place"}
    usual = fh.Study.from_dict(given).tune(workers=0)
    assert [trial["score"] for trial in result["trials"]] == [trial["score"] for trial in usual.trials]


def test_the_rule_takes_part_and_is_part_of_the_run(capsys, recwarn):
    tuned("geometric_median")
    with open_read("runs/geometric_median") as run:
        assert run.record.get("federation")["aggregation"] == "geometric_median:GeometricMedian"
    plain = fh.Study.load("geometric_median.toml").given
    plain = plain | {"server": {"aggregation": "median"}}
    ours = fh.Study.from_dict(plain).tune(workers=0)
    assert ours.best_score != fh.load_run("runs/geometric_median").best_score
    changed("geometric_median", "steps = 6", "steps = 7")
    with pytest.raises(fh.FedhpoError, match="steps"):
        fh.Study.load("geometric_median.toml").tune("runs/geometric_median", workers=0)


def test_a_rule_computes_what_weiszfeld_says():
    from geometric_median import GeometricMedian

    # Of three points on a line the geometric median is the middle one.
    points = np.array([[0.0], [1.0], [10.0]], np.float32)
    assert GeometricMedian(steps=300)(points, [1, 1, 1]) == pytest.approx([1.0], abs=1e-2)


def test_the_optimiser_steps_by_signs(capsys):
    result = tuned("signed_server")
    assert set(result["best"]["config"]["server"]) == {"beta", "lr"}


def test_the_partition_deals_as_it_says(capsys):
    tuned("one_rare_class")
    data = fh.Study.load("one_rare_class.toml").load_data()
    splits = (data.train, data.validation, data.test)
    holders = {c for split in splits for c in range(12) if (data.y[split.rows(c)] == 3).any()}
    assert holders == {0, 1}


def test_the_mechanism_chooses_and_is_named_in_the_result(capsys):
    result = tuned("gumbel_choice")
    assert result["privacy"]["mechanism"] == {"name": "gumbel_choice:GumbelChoice", "caution": 1.5}
    assert result["privacy"]["epsilon_spent"] <= 20.0 + 1e-9
    assert "eliminated" in {trial["status"] for trial in result["trials"]}


def test_the_metric_is_minimised(capsys):
    result = tuned("brier")
    assert result["objective"]["metric"] == "brier:Brier"
    assert result["objective"]["direction"] == "minimize"
    scores = [trial["score"] for trial in result["trials"]]
    assert result["best"]["validation"]["value"] == min(scores)
    assert all(0 <= score <= 2 for score in scores)


def test_all_of_them_are_named_in_python():
    from geometric_median import GeometricMedian

    data = fh.load("digits", clients=5, partition={"kind": "one_rare_class:OneRareClass", "rare": 1})
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    with fh.simulate("mlp", data, aggregation=GeometricMedian(), workers=0) as federation:
        result = fh.tune(
            federation, space, fh.RandomSearch(trials=2), rounds=2, cohort=3, objective="brier:Brier"
        )
    assert result.facts["objective"]["metric"] == "brier:Brier"


def test_an_entry_point_of_an_earlier_version_is_still_an_optimiser(monkeypatch):
    from fedhpo.aggregation.server import optimisers
    from fedhpo.core import registry

    points = [EntryPoint("aggregation.signed", "signed_server:SignedServer", "fedhpo")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    with pytest.warns(FutureWarning, match="aggregation.signed is now the entry point optimiser.signed"):
        assert optimisers.find("signed").__name__ == "SignedServer"
    points[:] = [EntryPoint("optimiser.signed", "signed_server:SignedServer", "fedhpo")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert optimisers.find("signed").__name__ == "SignedServer"


@pytest.mark.parametrize(
    ("kind", "build"),
    [
        ("aggregation.geo", lambda: rule_of("geo", ["mean"])[1]),
        ("partition.rare", lambda: partition_from_dict({"kind": "rare", "holders": 1}, 4).inner),
        ("privacy.gumbel", lambda: fh.Privacy(1.0, mechanism="gumbel").own_selection()),
        ("metric.brier", lambda: own_metric("brier").function),
    ],
)
def test_an_installed_package_brings_parts_by_entry_points(kind, build, monkeypatch):
    from fedhpo.core import registry

    homes = {
        "aggregation.geo": "geometric_median:GeometricMedian",
        "partition.rare": "one_rare_class:OneRareClass",
        "privacy.gumbel": "gumbel_choice:GumbelChoice",
        "metric.brier": "brier:Brier",
    }
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint(kind, homes[kind], "fedhpo")])
    assert type(build()).__name__ == homes[kind].split(":")[1]


def test_reading_its_run_does_not_import_it(capsys):
    tuned("pbt")
    del sys.modules["pbt"]
    Path("pbt.py").write_text("raise SystemExit('imported')")
    assert main(["report", "runs/pbt"]) == 0
    assert main(["runs"]) == 0
    assert "pbt" not in sys.modules


def test_a_run_of_it_goes_on_where_it_was_stopped(capsys):
    whole = tuned("pbt")
    study = fh.Study.load("pbt.toml")
    seen = []

    def stop(event):
        seen.append(event)
        return len(seen) == 9

    assert study.tune("stopped", workers=0, callbacks=[stop]).status == "stopped"
    assert main(["resume", "stopped", "--quiet"]) == 0
    again = json.loads(Path("stopped/result.json").read_text())
    for key in ("times", "cost"):
        whole.pop(key), again.pop(key)
    assert again == whole


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        (
            "pbt",
            "population = 4",
            "poplation = 4",
            "pbt.toml: method: unknown key 'poplation' (did you mean 'population'?); known: interval, "
            "population, resample, share, step",
        ),
        (
            "pbt",
            "population = 4",
            'population = "4"',
            "method.population = '4': must be a whole number",
        ),
        (
            "pbt",
            "pbt:PBT",
            "pbt:PTB",
            "method.name = 'pbt:PTB': unknown name in module pbt 'PTB' (did",
        ),
        ("pbt", "pbt:PBT", "ppt:PBT", "method.name = 'ppt:PBT': module ppt cannot be imported"),
        ("pbt", "pbt:PBT", "pbt:stream", "method.name = 'pbt:stream': must be a dataclass"),
        ("pbt", "interval = 2", "share = 0.9", "method.share: population >= 2, interval >= 1 and 0 < share"),
        ("pbt", "total = 24", "total = 12", "4 members of 6 rounds need a total of 24, not 12"),
        (
            "own_rates",
            "down = 0.5",
            "dwon = 0.5",
            "own_rates.toml: method.policy: unknown key 'dwon' (did you mean 'down'?); known: down, most, up",
        ),
        (
            "own_trainee",
            "penalty = 1e-4",
            "pennalty = 1e-4",
            "model: unknown key 'pennalty' (did you mean 'penalty'?); known: classes, features, penalty",
        ),
        (
            "own_trainee",
            "lr = {",
            "rl = {",
            "space.client.rl: unknown hyperparameter of Logistic 'rl' (did you mean 'lr'?)",
        ),
        (
            "own_place",
            "threads = 2",
            "thread = 2",
            "place: unknown key 'thread' (did you mean 'threads'?); known: threads",
        ),
        (
            "own_place",
            "own_place:ThreadPlace",
            "workrs",
            "place.name: unknown place 'workrs' (did you mean 'workers'?); known: process, ray, workers",
        ),
        (
            "hill_climbing",
            "step = 0.3",
            "step = 3.0",
            "method.sampler.step: step must lie in (0, 1], not",
        ),
        (
            "hill_climbing",
            "sampler = {",
            "smapler = {",
            "unknown key 'smapler' (did you mean 'sampler'?)",
        ),
        (
            "geometric_median",
            "steps = 6",
            "stpes = 6",
            "server.aggregation: unknown setting of 'geometric_median:GeometricMedian' 'stpes' (did you mean "
            "'steps'?); known: smooth, steps",
        ),
        (
            "geometric_median",
            "steps = 6",
            "steps = 0",
            "it raised ValueError: steps must be at least 1, not 0",
        ),
        (
            "geometric_median",
            '{ name = "geometric_median:GeometricMedian", steps = 6 }',
            '"mena"',
            "server.aggregation: unknown aggregation rule 'mena' (did you mean 'mean'?)",
        ),
        (
            "geometric_median",
            "steps = 6 }",
            "steps = 6 }\ntrim = 0.2",
            "server.trim = 0.2: counts only where aggregation is 'trimmed_mean'",
        ),
        (
            "signed_server",
            "beta = {",
            "betta = {",
            "unknown server hyperparameter of signed_server:SignedServer 'betta' (did you mean 'beta'?)",
        ),
        (
            "one_rare_class",
            "rare = 3",
            "raer = 3",
            "unknown setting of 'one_rare_class:OneRareClass' 'raer' (did you mean 'rare'?)",
        ),
        (
            "gumbel_choice",
            "caution = 1.5",
            "cautoin = 1.5",
            "unknown setting of 'gumbel_choice:GumbelChoice' 'cautoin' (did you mean 'caution'?)",
        ),
        (
            "brier",
            "brier:Brier",
            "brier:Breir",
            "unknown name in module brier 'Breir' (did you mean 'Brier'?)",
        ),
        (
            "hill_climbing",
            '"fixed"',
            '"fixt"',
            "unknown schedule 'fixt' (did you mean 'fixed'?)",
        ),
    ],
)
def test_mistakes_are_told_as_ours_are(name, old, new, told, capsys):
    changed(name, old, new)
    assert main(["tune", f"{name}.toml", "--workers", "0", "--quiet"]) == 2
    assert told in capsys.readouterr().err


def test_it_is_compared_with_ours(capsys):
    assert (
        main(["compare", "pbt.toml", "-m", "pbt:PBT", "-m", "random", "--seeds", "1", "--quiet", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert "pbt:PBT" in json.dumps(found)
    assert Path("runs/compare-pbt/pbt_PBT-0/result.json").is_file()


def test_it_is_named_in_python():
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
    federation = fh.testing.ToyFederation(6)
    result = fh.tune(federation, space, "pbt:PBT", rounds=4, total=24, cohort=3)
    assert result.facts["method"]["name"] == "pbt"
    assert len(result.trials) == 6
