"""What the bench plays is what a study file says: `fedhpo tune` comes to the same config."""

from dataclasses import replace

import pytest

from fedhpo.core.errors import InputError
from fedhpo.research.tables import CurveTable
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.testing.table import toy_table
from fedhpo_papers.bench.cells import priced
from fedhpo_papers.bench.entries import ENTRIES, Task
from fedhpo_papers.bench.settings import Setting

NOISES = [Setting(), Setting(3), Setting(3, 100.0), Setting(0.2, 10.0), Setting(0.2, bias=3.0)]
NOISES += [Setting(0.2, bias=3.0, bias_per=per) for per in ("message", "client")]


@pytest.fixture(scope="module")
def table() -> CurveTable:
    return toy_table(configs=30, rounds=9, clients=20)


@pytest.fixture(scope="module")
def other(table: CurveTable) -> CurveTable:
    tables = {**table.study_tables, "data": {"name": "digits", "clients": 100}}
    return replace(toy_table(configs=50, rounds=9, clients=20), study_tables=tables)


@pytest.mark.parametrize("setting", NOISES, ids=lambda one: one.name)
@pytest.mark.parametrize("name", ENTRIES)
def test_tune_and_the_bench_agree(table: CurveTable, other: CurveTable, name: str, setting: Setting) -> None:
    if name == "optuna-cmaes":
        pytest.importorskip("cmaes")
    task, entry = Task(table, setting, (other,), seed=5), ENTRIES[name]
    if setting.epsilon is not None and name in ("optuna-hyperband", "optuna-median", "optuna-sha"):
        with pytest.raises(InputError, match="epsilon cannot be split"):
            priced(entry, task)
        return
    if setting.bias_per != "trial" and (
        entry.paired is False or name == "proxy"
    ):  # one trial, or others' clients
        with pytest.raises(InputError, match=r"leave one of them out|leave it out"):
            priced(entry, task)
        return
    played, total = priced(entry, task)
    study = entry.study(task, total)
    tuned = study.tune(federation=TabularFederation(table))
    assert tuned.best_config == played.best
    assert tuned.cost["rounds"] == played.rounds
    assert len(tuned.trials) == played.trials


def test_auto_is_given_an_epsilon_and_nothing_else(table: CurveTable) -> None:
    study = ENTRIES["auto"].study(Task(table, Setting(0.2, 10.0), (), seed=0))
    assert study.given["method"] == {}
    assert study.given["evaluation"] == {"clients": 0.2, "privacy": {"epsilon": 10.0}}
    assert study.tune(federation=TabularFederation(table)).facts["privacy"]["mechanism"] == "permute-and-flip"
