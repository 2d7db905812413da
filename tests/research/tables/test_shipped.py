"""The tables that come with fedhpo."""

import tomllib
import zlib

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.research.tables.build import table_study
from fedhpo.research.tables.grid import score_rounds, table_configs
from fedhpo.research.tables.replay import replay
from fedhpo.research.tables.shipped import shipped_tables
from fedhpo.space.config import SCOPES
from fedhpo.study import Study

#: Of the paper's space, built by version 0.1.0; and of a narrower one, with a second training.
OF_THE_PAPER, NARROW = ("cifar10", "mnist", "stackexchange"), ("fashion_mnist", "femnist", "shakespeare")


@pytest.fixture(scope="module", params=OF_THE_PAPER)
def table(request):
    return fh.load_table(request.param)


@pytest.fixture(scope="module", params=NARROW)
def narrow(request):
    return fh.load_table(request.param)


def tuned(config):
    """What a config says of training; the shape of the model belongs to the data set."""
    return config.client, config.server


def test_they_are_of_at_most_4_mb_each():
    shipped = shipped_tables()
    assert set(shipped) == {*OF_THE_PAPER, *NARROW}
    assert all(path.stat().st_size <= 4e6 for path in shipped.values())


def test_all_hold_the_same_128_configs_of_the_paper_s_space(table):
    first = fh.load_table("cifar10")
    assert [tuned(config) for config in table.configs] == [tuned(config) for config in first.configs]
    client, server = table.space.scope("client"), table.space.scope("server")
    assert (client["lr"].low, client["lr"].high) == (1e-6, 1.0)
    assert (server["lr"].low, server["lr"].high) == (1e-6, 0.1)


def test_they_are_scored_where_rungs_of_hyperband_end(table):
    assert table.rounds.tolist() == [1, 3, *range(9, 82, 9)]
    assert table.heterogeneity == (0.0, 0.5, 1.0)
    assert len(table.validation_sizes[table.validation_sizes > 0]) == 100


def test_their_studies_are_the_examples(table, request):
    path = request.config.rootpath / "examples" / "tables" / f"{table.name}.toml"
    study = table_study(Study.load(path))
    assert table.study.to_dict() == study.to_dict()
    # Their configs were drawn when a space had the order of the file, from streams of the first version.
    given = tomllib.loads(path.read_text())["space"]
    names = [f"{scope}.{key}" for scope in SCOPES for key in given.get(scope, {})]
    order = [names.index(name) for name in study.space.names]
    tunable = sorted(order)
    rng, drawn = np.random.default_rng([0, zlib.crc32(b"table")]), {}
    while len(drawn) < 128:
        units = dict(zip(tunable, rng.random(len(tunable)), strict=True))
        drawn.setdefault(study.space.from_unit([units[place] for place in order]))
    assert list(table.configs) == list(drawn)


def test_configs_differ_and_a_search_finds_one_of_the_better_half(table):
    final = np.array([table.truth(config, 81) for config in range(128)])
    assert final.min() < np.median(final) - 0.02
    assert replay(table, "hyperband", seed=0).truth < np.median(final)


def test_the_narrower_ones_are_what_their_studies_draw_and_have_a_second_training(narrow, request):
    path = request.config.rootpath / "examples" / "tables" / f"{narrow.name}.toml"
    study = table_study(Study.load(path))
    assert narrow.study.to_dict() == study.to_dict()
    assert list(narrow.configs) == list(table_configs(study.space, 128))
    assert narrow.rounds.tolist() == score_rounds(81)
    assert len(narrow.rounds) == 28
    assert narrow.again is not None
    final = narrow.errors()[:, -1] @ narrow.counted[0] / narrow.counted[0].sum()
    assert set(narrow.again.configs.tolist()) == set(np.argsort(final, kind="stable")[:40].tolist())


@pytest.mark.parametrize(
    ("name", "clients", "below"),
    [
        ("fashion_mnist", 320, 0.85),  # the most frequent of ten classes has an error of 0.89
        ("femnist", 79, 0.90),  # of 62 classes 0.94
        ("shakespeare", 160, 0.80),  # of characters 0.84
    ],
)
def test_more_than_half_of_their_configs_learn(name, clients, below):
    table = fh.load_table(name)
    assert len(table.validation_clients) == clients
    final = table.errors()[:, -1] @ table.counted[0] / table.counted[0].sum()
    assert (final < below).mean() > 0.5
    assert len(np.unique(np.sort(final)[:15])) >= 14  # two of few targets may be level
