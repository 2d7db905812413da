"""A run belongs to its data, model and code: called with others it says what differs, finished or not."""

import functools
import json

import numpy as np
import pytest
from torch import nn

import fedhpo as fh
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation
from fedhpo.testing.table import toy_table
from fedhpo.tuning.proxy import ProxySearch

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})


def rows(seed, count=12):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)).astype(np.float32), rng.integers(0, 2, count)


CLIENTS = [{split: rows(10 * c + i) for i, split in enumerate(("train", "validation"))} for c in range(4)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 3)
        self.fc2 = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc2(self.fc1(x))


class Wide(Net):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 5)
        self.fc2 = nn.Linear(5, 2)


def my_loss(output, target):
    return nn.functional.cross_entropy(output, target, reduction="none")


def other_loss(output, target):
    return 2 * nn.functional.cross_entropy(output, target, reduction="none")


def train(model, data, hyperparameters, generator):
    pass


def tune(run, model=Net, data=None, *, stop=False, **options):
    federation = fh.simulate(model, CLIENTS if data is None else data, workers=0, **options)
    callbacks = [lambda event: event.kind == "start"] if stop else []
    with federation:
        return fh.tune(federation, SPACE, "random", rounds=1, total=2, cohort=2, run=run, callbacks=callbacks)


def given(seed):
    import torch

    torch.manual_seed(seed)
    return Net()


def one_value():
    changed = [dict(client) for client in CLIENTS]
    x, y = changed[2]["train"]
    x = x.copy()
    x[3, 1] = np.nextafter(x[3, 1], np.float32(9))
    changed[2]["train"] = x, y
    return changed


CASES = {
    "one value": ({}, {"data": one_value()}, "data: client 2 has other rows"),
    "all rows": (
        {},
        {"data": [{k: rows(99 + c) for k in CLIENTS[0]} for c in range(4)]},
        "data: clients 0, 1, 2, 3",
    ),
    "order": ({}, {"data": CLIENTS[::-1]}, "data: the clients come in another order"),
    "a row less": (
        {},
        {"data": [*CLIENTS[:3], {k: (x[:-1], y[:-1]) for k, (x, y) in CLIENTS[3].items()}]},
        "data: client 3 has 12 training rows there, 11 here",
    ),
    "model": ({}, {"model": Wide}, "model: the model is Net there, Wide here"),
    "name": ({"model": "linear"}, {"model": "mlp"}, "model: the model is linear there, mlp here"),
    "weights": ({"model": given(0)}, {"model": given(1)}, "has other weights"),
    "loss": ({}, {"loss": my_loss}, "loss is nothing there, `my_loss` here"),
    "other loss": ({"loss": my_loss}, {"loss": other_loss}, "loss is `my_loss` there, `other_loss` here"),
    "training": ({}, {"train": train}, "train is nothing there, `train` here"),
    "server": ({}, {"server": "fedadam"}, "settings: server is 'fedavg' there, 'fedadam' here"),
    "aggregation": ({}, {"aggregation": "median"}, "settings: rule is 'mean' there, 'median' here"),
    "weighting": ({}, {"weighting": "uniform"}, "settings: weighting is 'size' there, 'uniform' here"),
    "missing": ({}, {"missing": 0.1}, "settings: missing is 0.0 there, 0.1 here"),
    "stacking": ({}, {"stacking": False}, "settings: stacking is True there, False here"),
}


@pytest.mark.parametrize("stop", [False, True], ids=["finished", "stopped"])
@pytest.mark.parametrize(("first", "then", "told"), CASES.values(), ids=CASES.keys())
def test_a_run_is_not_continued_with_something_else(tmp_path, first, then, told, stop):
    tune(tmp_path / "run", stop=stop, **first)
    with pytest.raises(fh.InputError) as error:
        tune(tmp_path / "run", **{**first, **then})
    assert told in str(error.value)
    assert "Undo that to go on with the run, or choose another name" in str(error.value)
    with open_read(tmp_path / "run") as run:
        assert run.status == ("stopped" if stop else "finished")
    assert tune(tmp_path / "run", **first).status == "finished"


def test_data_that_was_changed_in_place_is_noticed(tmp_path):
    data = fh.from_clients(CLIENTS)
    tune(tmp_path / "run", data=data)
    data.x[0, 0] += 1
    with pytest.raises(fh.InputError, match="data: client 0 has other rows"):
        tune(tmp_path / "run", data=data)


def test_workers_do_not_count(tmp_path):
    one = fh.simulate(Net, CLIENTS, workers=0).fingerprint({})
    assert fh.simulate(Net, CLIENTS, workers=3).fingerprint({}) == one
    assert len(json.dumps(one)) < 10_000


def test_a_run_without_a_fingerprint_says_that_nothing_was_compared(tmp_path):
    tune(tmp_path / "run")
    from fedhpo.run.record import Record

    record = Record(tmp_path / "run" / "record.sqlite")
    record.set(fingerprint=None)
    record.close()
    with pytest.warns(UserWarning, match="without a fingerprint"):
        tune(tmp_path / "run")


def toy(run, method="random", space=SPACE, total=4, **settings):
    return fh.tune(ToyFederation(**settings), space, method, rounds=2, total=total, cohort=3, run=run)


def test_a_toy_a_table_and_a_learner_have_fingerprints_of_their_own(tmp_path):
    toy(tmp_path / "toy")
    with pytest.raises(fh.InputError, match=r"settings: best_lr is 0\.1 there, 0\.2 here"):
        toy(tmp_path / "toy", best_lr=0.2)
    tables = toy_table(configs=4, rounds=9, clients=5), toy_table(configs=4, rounds=9, clients=5, spread=0.2)
    one, same, other = (fh.TabularFederation(table).fingerprint({}) for table in (tables[0], *tables))
    assert one == same != other
    data = fh.from_clients(CLIENTS)
    learners = [
        fh.LearnerFederation(data, name, workers=0, scoring=scoring).fingerprint({})
        for name, scoring in (("hgb", "accuracy"), ("hgb", "accuracy"), ("svm", "accuracy"), ("hgb", "f1"))
    ]
    assert learners[0] == learners[1]
    assert learners[0] != learners[2]
    assert learners[0] != learners[3]


def test_what_a_method_uses_besides_counts(tmp_path):
    def proxy(**settings):
        return ProxySearch(ToyFederation(**settings), total=4)

    toy(tmp_path / "proxy", proxy(), total=None)
    with pytest.raises(fh.InputError, match=r"method: proxy: settings: noise is 0\.05 there, 0\.5 here"):
        toy(tmp_path / "proxy", proxy(noise=0.5), total=None)
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
    sets = [fh.from_clients([rows(seed, 60)], classes=2) for seed in (1, 2)]
    names = ("mlp", "linear")
    prints = [
        fh.FedTune(proxy=data, simulate=functools.partial(fh.simulate, name)).fingerprint(space)
        for data, name in ((sets[0], names[0]), (sets[0], names[0]), (sets[1], names[0]), (sets[0], names[1]))
    ]
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]
    assert prints[0] != prints[3]


class MySampler(fh.samplers.Random):
    pass


def test_a_sampler_of_the_users_own_counts_by_its_code():
    from fedhpo.methods import Tuner
    from fedhpo.schedules import FixedLength

    own = Tuner(FixedLength(), MySampler()).fingerprint(SPACE)["sampler"]
    assert own["name"] == "MySampler"
    assert own["parts"]["code"].startswith("source ")
