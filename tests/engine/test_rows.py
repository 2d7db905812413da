"""Touched rows: the same as dense training with plain PyTorch, whatever decays, and charged by rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedhpo as fh
from fedhpo.data import from_clients
from fedhpo.engine import rows as by_rows
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.rows import RowLayout, Table, row_layout
from fedhpo.protocol.federation import Work

WORDS, WIDTH, LENGTH, CLASSES = 4000, 64, 6, 3


class Text(nn.Module):
    """An embedding between other parameters, so that its place in the vector is not the first."""

    def __init__(self, padding: int | None = None, bag: bool = False) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.word = nn.EmbeddingBag(WORDS, WIDTH) if bag else nn.Embedding(WORDS, WIDTH, padding)
        self.bag, self.out = bag, nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        found = self.word(x)
        return self.out(self.scale * (found if self.bag else found.mean(1)))


class Shifted(Text):
    def forward(self, x):
        return self.out(self.word((x + 1) % WORDS).mean(1))


class Late(Text):
    """Looks up a row of its own, but only for rows that the sample does not have."""

    def forward(self, x):
        return self.out(self.word(torch.where(x == 77, 78, x)).mean(1))


class Tied(Text):
    def forward(self, x):
        return (self.word(x).mean(1) @ self.word.weight.t())[:, :CLASSES]


def padded():
    return Text(padding=5)


def bag():
    return Text(bag=True)


def data_of(seed=0, clients=5, special=None):
    rng = np.random.default_rng(seed)
    found = []
    for client in range(clients):
        x = rng.integers(100, 400, (9 + 3 * client, LENGTH)).astype(np.int32)
        x[:, 0] = 5
        if special is not None and client == clients - 1:
            x[-1, 1] = special
        y = rng.integers(0, CLASSES, len(x))
        found.append({"train": (x, y), "validation": (x[:4], y[:4])})
    return from_clients(found, classes=CLASSES)


def dense(monkeypatch):
    monkeypatch.setattr("fedhpo.federations.simulated.has_tables", lambda model: False)


def trained(model, data, config, *, rounds=3, workers=0, clients=5, **settings):
    """The weights after some rounds, the reports, and how the federation describes itself."""
    with fh.simulate(model, data, workers=workers, **settings) as federation:
        federation.start(0, {}, seed=3)
        reports = [federation.round([Work(0, range(clients), config, {})])[0] for _ in range(rounds)]
        return federation.state(0).arrays["weights"], reports, federation.describe()


CONFIGS = {
    "plain": {"lr": 0.5, "batch_size": 4},
    "decay": {"lr": 0.5, "batch_size": 4, "weight_decay": 0.05},
    "all": {"lr": 0.3, "batch_size": 4, "weight_decay": 0.05, "momentum": 0.8, "epochs": 2, "prox": 0.1},
    "clipped gradient": {"lr": 0.5, "batch_size": 4, "max_grad_norm": 0.05, "weight_decay": 0.05},
    "adamw": {"lr": 0.01, "batch_size": 4, "optimiser": "adamw", "weight_decay": 0.1},
    "adam": {"lr": 0.01, "batch_size": 4, "optimiser": "adam"},
    "scaled": {"lr": 0.5, "batch_size": 4, "update_scale": 0.5, "weight_decay": 0.05},
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("model", [Text, padded, bag])
def test_the_result_is_the_dense_one(name, model, monkeypatch):
    found, reports, about = trained(model, data_of(), CONFIGS[name])
    assert about["embeddings"] == "by touched rows: word.weight"
    dense(monkeypatch)
    wanted, others, about = trained(model, data_of(), CONFIGS[name])
    assert "embeddings" not in about
    # Adam divides by the gradient's own size: where that is nearly zero, rounding is magnified.
    assert np.quantile(np.abs(found - wanted), 0.9999) < 1e-5
    assert np.abs(found - wanted).max() < (1e-4 if "adam" in name else 1e-5)
    assert np.abs(wanted - wanted.mean()).max() > 0.1
    for one, other in zip(reports, others, strict=True):
        assert one.cost.bytes_up < other.cost.bytes_up / 5
        for column in ("loss_before", "loss_after"):
            np.testing.assert_allclose(getattr(one, column), getattr(other, column), rtol=1e-5)


def test_a_client_trains_as_plain_pytorch_does():
    config = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.02, "batch_size": 100}
    data = data_of()
    with fh.simulate(Text, data, workers=0) as federation:
        federation.start(0, {}, seed=1)
        module = federation.model(0)
        before = module.word.weight.detach().clone()
        optimiser = torch.optim.SGD(module.parameters(), 0.3, momentum=0.9, weight_decay=0.02)
        rows = data.train.rows(2)
        x, y = torch.from_numpy(data.x[rows]).long(), torch.from_numpy(data.y[rows])
        for _ in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimiser.step()
        federation.round([Work(0, [2], config | {"epochs": 3}, {})])
        found = federation.model(0)
    for (name, one), other in zip(found.named_parameters(), module.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5), name
    untouched = torch.ones(WORDS, dtype=torch.bool)
    untouched[x.unique()] = False
    assert not torch.allclose(found.word.weight[untouched], before[untouched], atol=1e-3)  # it decayed


def test_bytes_are_those_of_touched_rows():
    data = data_of()
    _, (report,), _ = trained(Text, data, CONFIGS["decay"], rounds=1)
    rest = WIDTH + WIDTH * CLASSES + CLASSES
    touched = [len(np.unique(data.x[data.train.rows(client)])) for client in range(5)]
    assert report.cost.bytes_down == 4 * sum(rest + WIDTH * count for count in touched)
    assert report.cost.bytes_up == 4 * sum(rest + (WIDTH + 1) * count + 1 for count in touched)


@pytest.mark.parametrize("settings", [{"clip_norm": 0.05}, {"server": "fedadam"}, {"weighting": "uniform"}])
def test_clipping_and_server_optimisers_see_the_whole_update(settings, monkeypatch):
    found, _, about = trained(Text, data_of(), CONFIGS["all"], **settings)
    assert "embeddings" in about
    dense(monkeypatch)
    wanted, _, _ = trained(Text, data_of(), CONFIGS["all"], **settings)
    # Adam's division magnifies the rounding of steps that are nearly zero.
    assert np.quantile(np.abs(found - wanted), 0.999) < 1e-5
    assert np.abs(found - wanted).max() < (1e-3 if "server" in settings else 1e-5)


@pytest.mark.parametrize("name", ["decay", "all"])
def test_bits_do_not_depend_on_workers(name):
    first, _, _ = trained(Text, data_of(clients=40), CONFIGS[name], clients=40)
    second, _, _ = trained(Text, data_of(clients=40), CONFIGS[name], clients=40, workers=2)
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({"optimiser": "adam", "weight_decay": 0.1}, {}),
        ({"prox": 0.1, "max_grad_norm": 1.0, "weight_decay": 0.1}, {}),
        ({}, {"aggregation": "median"}),
        ({}, {"server": "fedexp"}),
    ],
)
def test_what_rows_cannot_do_is_done_densely(config, settings, monkeypatch):
    config = {"lr": 0.1, "batch_size": 4} | config
    found, (report, *_), about = trained(Text, data_of(), config, **settings)
    assert about["embeddings"].startswith("whole: word.weight: the server") == bool(settings)
    assert report.cost.bytes_up == 4 * len(found) * 5
    dense(monkeypatch)
    wanted, _, _ = trained(Text, data_of(), config, **settings)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("model", "reason"), [(Shifted, "tried on a few rows: UnknownRow"), (Tied, "the gradient of word.weight")]
)
def test_a_model_that_uses_its_table_otherwise_stays_dense(model, reason, monkeypatch):
    found, _, about = trained(model, data_of(), CONFIGS["all"])
    assert about["embeddings"].startswith("whole: ")
    dense(monkeypatch)
    wanted, _, _ = trained(model, data_of(), CONFIGS["all"])
    assert np.array_equal(found, wanted)


def test_a_row_that_no_token_names_is_found_in_time(monkeypatch):
    found, (report, *_), about = trained(Late, data_of(special=77), CONFIGS["all"])
    assert about["embeddings"] == "by touched rows: word.weight"
    assert (report.status == 0).all()
    dense(monkeypatch)
    wanted, _, _ = trained(Late, data_of(special=77), CONFIGS["all"])
    assert np.abs(found - wanted).max() < 1e-5


def test_clients_that_touch_most_rows_send_whole_tables(monkeypatch):
    monkeypatch.setattr("fedhpo.federations.simulated.MOST_SHARE", 1e-3)
    found, (report, *_), _ = trained(Text, data_of(), CONFIGS["plain"])
    assert report.cost.bytes_up == 4 * len(found) * 5


def test_one_that_diverges_is_left_out(monkeypatch):
    configs = [CONFIGS["plain"]] * 4 + [{"lr": 1e38, "batch_size": 4}]
    found, (report, *_), _ = trained(Text, data_of(), configs, rounds=1)
    assert report.status.tolist() == [0, 0, 0, 0, 1]
    dense(monkeypatch)
    wanted, _, _ = trained(Text, data_of(), configs, rounds=1)
    assert np.abs(found - wanted).max() < 1e-5


def test_small_embeddings_are_left_alone():
    model = FlatModel(nn.Embedding(10, 4))
    assert not by_rows.has_tables(model)
    assert row_layout(model, torch.zeros(2, 3, dtype=torch.long)) == (None, "")


def test_a_layout_knows_its_parts():
    layout = RowLayout(20, (Table("a", 3, 5, 2), Table("b", 15, 2, 1)))
    assert layout.rest_of(np.arange(20, dtype=np.float32)).tolist() == [0, 1, 2, 13, 14, 17, 18, 19]
    assert (layout.rest, layout.width, layout.rows) == (8, 3, 2)


def test_a_run_keeps_the_number_of_rows():
    for model, wanted in ((Text, True), (Tied, False)):
        with fh.simulate(model, data_of(), workers=0) as federation:
            assert federation.by_rows({}) is wanted
