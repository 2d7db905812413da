"""`[[enqueue]]`: configs that a study tries right after trial 0."""

import pytest

from fedhpo.core.errors import InputError
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.study import Study
from fedhpo.testing.table import toy_table

TABLE = toy_table(configs=20, rounds=9, clients=8)


def _study(**more: object) -> Study:
    return Study.from_dict({**TABLE.study_tables, "method": {"name": "random"}, **more})


def test_they_come_first_in_their_order() -> None:
    wanted = [TABLE.configs[7], TABLE.configs[3]]
    given = [{"client": dict(one.client), "server": dict(one.server)} for one in wanted]
    result = _study(enqueue=given).tune(federation=TabularFederation(TABLE))
    assert [row["client.lr"] for row in result.trials][:2] == [one.client["lr"] for one in wanted]


def test_what_is_no_config_and_what_would_never_be_tried_are_refused() -> None:
    with pytest.raises(InputError, match=r"enqueue\[0\]: a config names its scopes"):
        _study(enqueue=[{"lr": 0.1}])
    budget = {"rounds": 9, "cohort": 10}
    fedtune = {"name": "fedtune", "table": "a.json"}
    with pytest.raises(InputError, match="enqueue: "):
        _study(enqueue=[{"client": {"lr": 0.1}}], method=fedtune, budget=budget)


def test_a_config_that_the_table_does_not_hold_is_refused() -> None:
    study = _study(enqueue=[{"client": {"lr": 0.37}}])
    with pytest.raises(
        InputError, match=r"enqueue\[0\]: the table holds no training of .*0\.37.* 20 configs"
    ):
        study.tune(federation=TabularFederation(TABLE))
