"""A table's file: whole, small, precise as stated, and refused where it is damaged."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedhpo.core.errors import InputError
from fedhpo.research.tables import file, load_table, shipped_tables
from fedhpo.research.tables.coding import coded_losses, decoded_losses, differences, from_differences
from fedhpo.research.tables.curve_table import Again
from fedhpo.research.tables.file import LIMIT, round_mantissa
from fedhpo.testing.table import toy_table


def test_what_is_written_is_read(built, table, table_file):
    for name in ("wrong", "counted", "loss", "rounds", "train_sizes", "validation_sizes", "trained"):
        assert (getattr(table, name) == getattr(built, name)).all(), name
    assert table.configs == built.configs
    assert table.heterogeneity == (0.0, 0.5, 1.0)
    assert table.study.to_dict() == built.study.to_dict()
    assert table.recipe == {**built.recipe, "loss_bits": 10}
    assert table.name == "small"
    assert table_file.stat().st_size < 100_000


def test_the_same_table_is_the_same_file(built, table_file, tmp_path):
    built.save(tmp_path / "again.table")
    assert (tmp_path / "again.table").read_bytes() == table_file.read_bytes()


@pytest.mark.parametrize("bits", file.LOSS_BITS)
def test_precision_is_as_stated(bits):
    losses = np.exp(np.random.default_rng(0).uniform(-7, 11, 100_000)).astype(np.float16)
    found = round_mantissa(losses, bits).astype(float)
    assert (np.abs(found / losses.astype(float) - 1) <= 2.0 ** -(bits + 1)).all()
    assert len(np.unique(found)) <= 40 * 2**bits


def test_the_largest_loss_stays_finite():
    largest = np.array([np.finfo(np.float16).max])
    for bits in file.LOSS_BITS:
        assert np.isfinite(round_mantissa(largest, bits)).all()


def test_a_large_table_loses_precision_before_it_grows_too_large(tmp_path, monkeypatch):
    table = toy_table(configs=20, rounds=27, clients=50)
    noise = np.random.default_rng(0).uniform(0.1, 5, table.loss.shape).astype(np.float16)
    table = replace(table, loss=noise)
    whole = table.save(tmp_path / "whole.table")
    size = (tmp_path / "whole.table").stat().st_size
    assert size < LIMIT
    assert whole.recipe["loss_bits"] == 10
    monkeypatch.setattr(file, "LIMIT", int(0.9 * size))
    smaller = table.save(tmp_path / "smaller.table")
    assert smaller.recipe["loss_bits"] in (8, 6, 4)
    assert (smaller.wrong == table.wrong).all()
    monkeypatch.setattr(file, "LIMIT", 1000)
    with pytest.raises(InputError, match="fewer configs, rounds or validation clients"):
        table.save(tmp_path / "none.table")


def test_second_trainings_are_written_and_checked(tmp_path):
    table = toy_table(configs=20, rounds=27, clients=50)
    second = Again(np.array([7, 2]), np.array([27, 27]), table.wrong[:1, [7, 2]], table.loss[:1, [7, 2]])
    replace(table, again=second).save(tmp_path / "t.table")
    found = load_table(tmp_path / "t.table").again
    assert found.configs.tolist() == [7, 2]
    assert (found.wrong == second.wrong).all()
    assert (found.loss == second.loss).all()
    assert load_table(tmp_path / "t.table").training_deviation() == pytest.approx(0)
    kept = found.kept(np.array([1, 2, 5]), np.array([4, 9]))
    assert kept.configs.tolist() == [1]
    assert (kept.wrong[0, 0] == table.wrong[0, 2][:, [4, 9]]).all()
    for odd, message in (
        (replace(second, configs=np.array([7, 7])), "comes twice"),
        (replace(second, configs=np.array([7, 20])), "not in the table"),
        (replace(second, wrong=second.wrong + 100), "more wrong targets"),
        (replace(second, trained=np.array([27])), r"again_trained has shape \(1,\)"),
    ):
        replace(table, again=odd).save(tmp_path / "odd.table")
        with pytest.raises(InputError, match=message):
            load_table(tmp_path / "odd.table")


def test_files_of_the_first_format_are_read():
    """Those of version 0.1.0 hold the numbers themselves; written anew they hold differences."""
    first = load_table("mnist")
    with zipfile.ZipFile(shipped_tables()["mnist"]) as content:
        assert json.loads(content.read("header.json"))["format"] == 1
    assert (first.counted > 0).all()
    assert first.again is None


@given(
    arrays(np.uint16, (2, 3, 5, 4), elements=st.integers(0, 2000)),
    st.sampled_from(file.LOSS_BITS),
)
def test_differences_lose_nothing(values, bits):
    assert (from_differences(differences(values)) == values).all()
    losses = round_mantissa(values.astype(np.float16), bits)
    assert (decoded_losses(coded_losses(losses, bits), bits) == losses).all()


def rewritten(path, target, change):
    """A copy of a table's file with some members changed."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


def header(**changes):
    return lambda name, content: (
        json.dumps({**json.loads(content), **changes}) if name == "header.json" else content
    )


def test_damage_is_told_with_the_file(table_file, tmp_path):
    whole = table_file.read_bytes()
    cases = {"half": whole[: len(whole) // 2], "empty": b"", "text": b"configs: 128", "noise": whole[50:]}
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    cases["flipped"] = bytes(flipped)
    for name, content in cases.items():
        path = tmp_path / f"{name}.table"
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.table: not a table"):
            load_table(path)


def test_parts_that_do_not_fit_are_told(table, table_file, tmp_path):
    target = tmp_path / "odd.table"
    with pytest.raises(InputError, match="format is number 99; this fedhpo reads 1 and 2"):
        load_table(rewritten(table_file, target, header(format=99)))
    with pytest.raises(InputError, match=r"wrong has shape \(3, 40, 4, 12\), expected \(2, 40, 4, 12\)"):
        load_table(rewritten(table_file, target, header(heterogeneity=[0.0, 1.0])))
    twice = [table.configs[0].to_dict()] * 40
    with pytest.raises(InputError, match="a config comes twice"):
        load_table(rewritten(table_file, target, header(configs=twice)))
    with pytest.raises(InputError, match="format"):
        load_table(rewritten(table_file, target, lambda n, c: b"{}" if n == "header.json" else c))
    study = {**table.study_tables, "data": {"name": "nowhere"}}
    with pytest.raises(InputError, match="unknown data set 'nowhere'"):
        load_table(rewritten(table_file, target, header(study=study)))
    with pytest.raises(InputError, match="not a table"):
        load_table(rewritten(table_file, target, lambda n, c: b"\x80\x04." if n == "wrong.npy" else c))


def test_an_unknown_name_is_told_with_the_known():
    with pytest.raises(InputError, match="unknown table 'cifar11'"):
        load_table("cifar11")


def test_shipped_tables_are_whole_and_small():
    for name, path in shipped_tables().items():
        assert path.stat().st_size <= LIMIT, name
        assert len(load_table(name).configs) == 128, name
