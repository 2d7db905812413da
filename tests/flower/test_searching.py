"""FLoRA's local searches at clients that train in a way of their own."""

import numpy as np
import pytest
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client, local_search
from fedhpo.protocol.federation import Status
from fedhpo.queries.local_search import LocalSearch
from fedhpo.samplers import Random
from fedhpo.space import Float, Int, Space

SPACE = Space(client={"lr": Float(0.0, 1.0)}, model={"width": Int(1, 4)})
QUERY = LocalSearch(SPACE, configs=6, sampler=Random(), seed=3)


def search(config, context):
    if config["width"] == 2:
        raise ValueError("no two")
    return abs(config["lr"] - 0.1 * context.node_config["partition-id"]) / config["width"]


def train(arrays, task, context):
    return Trained({"w": arrays["w"] + np.float32(task.config["lr"])}, train_size=10)


def evaluate(arrays, task, context):
    return Scored(size=10, loss=float((0.3 - arrays["w"]) ** 2), accuracy=0.5)


def rows(context):
    return {"train": 10, "validation": 10}


def app(**options):
    return client(ClientApp(), **{"train": train, "evaluate": evaluate, "sizes": rows} | options)


def federation(made):
    model = Arrays(lambda seed, **_: {"w": np.zeros(())})
    return FlowerFederation(InProcessGrid(made, nodes=3), model, clients=3, repeatable=True)


def asked(made, clients=(2, 0), query=QUERY):
    with federation(made) as one:
        return one.query(query, clients)


def test_the_losses_are_those_of_the_clients_own_function():
    answers = asked(app(search=search))
    assert [answer.client for answer in answers] == [2, 0]
    for answer in answers:
        assert (answer.status, answer.content["size"]) == (Status.OK, 10)
        configs, losses = answer.content["configs"], answer.content["losses"]
        assert 0 < len(configs) < 6  # those of width 2 failed
        for config, loss in zip(configs, losses, strict=True):
            own = {**config["client"], **config["model"]}
            assert loss == pytest.approx(abs(own["lr"] - 0.1 * answer.client) / own["width"])


def test_an_app_of_ones_own_answers_the_same():
    """One to which `client` is only told how to train: the query is registered by hand."""
    by_hand = app()
    by_hand.query("local_search")(local_search(search, rows=10))
    ours, theirs = asked(app(search=search)), asked(by_hand)
    assert [one.content for one in ours] == [one.content for one in theirs]


def test_without_it_a_search_is_refused():
    assert [one.status for one in asked(app())] == [Status.FAILED] * 2


def test_who_is_late_says_so():
    slow = LocalSearch(SPACE, configs=6, sampler=Random(), deadline=1e-9)
    [answer] = asked(app(search=search), [0], slow)
    assert answer.status == Status.MISSING
    assert "late: 0 of 6 configs" in answer.reason.text


def test_sizes_are_kept_and_noise_is_paid_for(tmp_path):
    pytest.importorskip("opendp")
    ledger = tmp_path / "ledger.jsonl"
    privacy = fh.LocalPrivacy(epsilon=6.0, total=12.0, ledger=ledger)
    private = app(search=search, tell_sizes=False, privacy=privacy)
    [first], [second] = asked(private, [0]), asked(private, [0])
    assert first.content["size"] == 1
    assert len(first.content["losses"]) == 6  # that a config failed is a fact about the rows too
    assert first.content["losses"] != second.content["losses"]
    [third] = asked(private, [0])
    assert third.status == Status.FAILED


def test_flora_finds_what_suits_the_clients():
    space = Space(client={"lr": Float(0.0, 1.0)})
    with federation(app(search=lambda config, context: (config["lr"] - 0.3) ** 2)) as one:
        result = fh.tune(
            one, space, fh.FLoRA(configs=12, diagnose=False), rounds=1, cohort=3, objective="loss"
        )
    assert result.best_config.client["lr"] == pytest.approx(0.3, abs=0.1)
