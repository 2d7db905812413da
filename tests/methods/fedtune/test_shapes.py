"""Tables of few parameters, by hand; and the distribution of profiles that they are made for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune import Cells, Profiles
from fedhpo.methods.fedtune.shapes import Tables

SPACE = fh.Space(
    client={
        "lr": fh.Float(0.002, 0.8, log=True, default=0.05),
        "batch_size": fh.Ordinal([4, 8, 16]),
        "epochs": fh.Ordinal([1, 2, 4]),
    }
)
CELLS = Cells((0.2, 0.5, 0.8), (50, 200))
PROFILES = Profiles.uniform(CELLS)


def config(tables, lr=0.4, epochs=2, **slopes):
    client = {"lr": lr, "batch_size": 8, "epochs": epochs}
    return tables.searched.complete({"client": client, "policy": slopes})


def column(table, key):
    return [cell.get(key) for cell in table.configs]


def test_rates_fall_by_doublings_from_the_highest():
    tables = Tables(SPACE, PROFILES, "rate")
    falling = tables.table(config(tables, index_slope=-1.0))
    assert column(falling, "lr") == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.1, 0.1])
    # Two doublings of the quantity from 50 to 200, half of a doubling of the rate each.
    both = tables.table(config(tables, index_slope=-1.0, quantity_slope=0.5))
    assert column(both, "lr") == pytest.approx([0.2, 0.4, 0.1, 0.2, 0.05, 0.1])
    rising = tables.table(config(tables, index_slope=2.0))
    assert column(rising, "lr") == pytest.approx([0.025, 0.025, 0.1, 0.1, 0.4, 0.4])
    assert column(both, "batch_size") == [8] * 6


@given(st.floats(0.002, 0.8), st.floats(-3, 3), st.floats(-1, 1))
def test_no_cell_exceeds_the_config_s_rate_and_all_are_in_the_space(lr, slope, by_quantity):
    tables = Tables(SPACE, PROFILES, "rate")
    found = column(tables.table(config(tables, lr=lr, index_slope=slope, quantity_slope=by_quantity)), "lr")
    assert max(found) == pytest.approx(lr)
    assert min(found) >= 0.002


def test_a_cell_that_nobody_is_in_does_not_set_the_highest_rate():
    tables = Tables(SPACE, Profiles.given(CELLS, [0, 0, 1, 1, 1, 1]), "rate")
    found = column(tables.table(config(tables, index_slope=-1.0)), "lr")
    assert found == pytest.approx([0.4, 0.4, 0.4, 0.4, 0.2, 0.2])


def test_slopes_of_zero_are_one_config_for_all():
    for shape in ("rate", "weight", "constant"):
        tables = Tables(SPACE, PROFILES, shape)
        table = tables.table(tables.lifted(config(Tables(SPACE, PROFILES, "constant"))))
        assert column(table, "lr") == [0.4] * 6
        assert set(column(table, "update_scale")) <= {None, 1.0}


def test_weights_fall_and_the_mean_client_counts_one():
    tables = Tables(SPACE, PROFILES, "weight")
    scales = column(tables.table(config(tables, index_slope=-1.0)), "update_scale")
    # 4 : 2 : 1, whose mean is 7/3.
    assert scales == pytest.approx([12 / 7, 12 / 7, 6 / 7, 6 / 7, 3 / 7, 3 / 7], rel=1e-5)


def test_fednova_by_hand():
    """Batch 8, 2 epochs: 14 steps on 50 rows, 50 on 200; weighted by rows the mean is 0.2 x 14 + 0.8 x 50."""
    tables = Tables(SPACE, PROFILES, "fednova")
    scales = column(tables.table(config(tables)), "update_scale")
    assert scales == pytest.approx([42.8 / 14, 42.8 / 50] * 3, rel=1e-5)


def test_equal_work():
    tables = Tables(SPACE, PROFILES, "rate", equal_work=True)
    table = tables.table(config(tables, epochs=2))
    assert column(table, "epochs") == [8, 2] * 3
    assert [q * e for (_, q), e in zip(CELLS.profiles, column(table, "epochs"), strict=True)] == [400] * 6
    assert fh.ReferenceTable.from_dict(table.to_dict()) == table


def test_tables_near_a_constant_keep_its_mean_rate():
    tables = Tables(SPACE, PROFILES, "rate")
    near = tables.around(config(Tables(SPACE, PROFILES, "constant"), lr=0.1))
    logs = [np.log2(column(tables.table(one), "lr")).mean() for one in near]
    assert logs == pytest.approx(np.log2([0.1, 0.1 / 2**0.5, 0.1, 0.05]))
    assert [one.policy["index_slope"] for one in near] == [-1.0, -1.0, -2.0, -2.0]


def test_profiles():
    assert PROFILES.counts(24).tolist() == [4] * 6
    assert PROFILES.counts(8).sum() == 8
    given = Profiles.given(CELLS, [2, 0, 1, 0, 1, 0])
    assert (given.counts(8).tolist(), given.held) == ([4, 0, 2, 0, 2, 0], [0, 2, 4])
    assert given.to_dict() == {"source": "given", "shares": [0.5, 0.0, 0.25, 0.0, 0.25, 0.0]}
    for bad in ([1, 2], [0] * 6, [1, 1, 1, 1, 1, -1]):
        with pytest.raises(InputError, match="shares"):
            Profiles.given(CELLS, bad)


def test_mistakes():
    with pytest.raises(InputError, match=r"client\.lr must be tuned"):
        Tables(fh.Space(client={"lr": 0.1, "momentum": fh.Float(0, 1)}), PROFILES, "rate")
    with pytest.raises(InputError, match=r"equal_work needs client\.epochs"):
        Tables(fh.Space(client={"lr": fh.Float(0.1, 1)}), PROFILES, "rate", equal_work=True)
    with pytest.raises(InputError, match="unknown shape"):
        Tables(SPACE, PROFILES, "rates")
