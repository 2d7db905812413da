"""Which node is which client."""

import re

import pytest
from flower_cases import Clock, small_app, small_federation

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import DamageError
from fedhpo.federations.remote.clients import Clients, Hello
from fedhpo.federations.remote.layout import Rejected
from fedhpo.flower import FlowerFederation, InProcessGrid
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.reasons import Reason, Why

ROWS = {"train": 5, "validation": 2, "test": 0}


def test_a_partition_id_is_the_clients_number():
    clients = Clients()
    left_out = clients.settle({90: Hello(4, "a", ROWS), 7: Hello(2, "z", ROWS), 33: Hello(0, "m", ROWS)})
    assert (left_out, clients.by) == ({}, "partition")
    assert clients.nodes == {0: 33, 2: 7, 4: 90}
    assert clients.holders("train").tolist() == [0, 2, 4]
    assert clients.holders("test").tolist() == []


def test_names_are_numbered_in_their_order():
    clients = Clients()
    clients.settle({90: Hello(None, "b", ROWS), 7: Hello(None, "c", ROWS), 33: Hello(1, "a", ROWS)})
    assert (clients.by, clients.nodes) == ("name", {0: 33, 1: 90, 2: 7})


def test_a_client_has_the_same_name_in_every_run():
    first, second = Clients(), Clients()
    first.settle({90: Hello(None, "b", ROWS), 7: Hello(4, None, ROWS), 8: Hello(1, "c", ROWS)})
    second.settle({11: Hello(4, None, ROWS), 12: Hello(1, "c", ROWS)})
    assert [first.stable_name(number) for number in (1, 4, 5)] == ["partition 1", "partition 4", "name b"]
    assert [second.stable_name(number) for number in (1, 4)] == ["partition 1", "partition 4"]


def test_node_ids_are_the_last_resort():
    clients = Clients()
    with pytest.warns(UserWarning, match="do not repeat"):
        clients.settle({90: Hello(None, None, ROWS), 7: Hello(0, None, ROWS), 8: Hello(None, None, ROWS)})
    assert (clients.by, clients.nodes) == ("node", {0: 7, 1: 8, 2: 90})
    assert clients.stable_name(0) is None  # a node id is another one in the next run


def test_partition_ids_and_names_may_mix():
    """Those with a name only come after the largest partition id, in the order of their names."""
    said = {
        90: Hello(None, "b", ROWS),
        7: Hello(4, None, ROWS),
        8: Hello(None, "a", ROWS),
        9: Hello(1, "c", ROWS),
    }
    clients = Clients()
    assert clients.settle(said) == {}
    assert (clients.by, clients.nodes) == ("partition or name", {1: 9, 4: 7, 5: 8, 6: 90})
    clients.keep(set())
    assert clients.admit(70, Hello(None, "b", ROWS)) == ""
    assert clients.admit(71, Hello(4, "b", ROWS)) == ""
    assert clients.nodes == {6: 70, 4: 71}
    assert "was not there" in clients.admit(72, Hello(None, "z", ROWS))


def test_a_node_without_partition_id_and_name_is_left_out_and_the_others_begin():
    clients = Clients()
    [why] = clients.settle(
        {5: Hello(1, None, ROWS), 3: Hello(None, None, ROWS), 4: Hello(0, None, ROWS)}
    ).values()
    assert "node 3 has no partition or name in its config" in why
    assert (clients.by, clients.nodes) == ("partition or name", {1: 5, 0: 4})


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (Hello(2, None, ROWS, (9,), 3, "sgd"), r"node 3 \(partition 2\).* its shape is \(9,\), .*\(6,\)"),
        (Hello(None, "odd", ROWS, (6,), 4, "sgd"), r"node 3 \(name odd\).* its classes is 4, .*3"),
        (Hello(2, None, ROWS, (6,), 3, "trees"), "its training is trees, that of most others sgd"),
    ],
)
def test_a_node_that_deviates_is_left_out_and_named(odd, why):
    clients = Clients()
    said = {1: Hello(0, None, ROWS, (6,), 3, "sgd"), 2: Hello(1, None, ROWS, (6,), 3, "sgd"), 3: odd}
    [found] = clients.settle(said).values()
    assert re.search(why, found)
    assert clients.nodes == {0: 1, 1: 2}
    assert clients.common("shape") == (6,)


def test_two_nodes_cannot_be_one_client():
    clients = Clients()
    [why] = clients.settle({5: Hello(1, None, ROWS), 3: Hello(1, None, ROWS)}).values()
    assert clients.nodes == {1: 3}
    assert "node 5" in why
    assert "node 3" in why
    # When the first has gone, the other may take its place.
    clients.keep({5})
    assert clients.admit(5, Hello(1, None, ROWS)) == ""
    assert clients.nodes == {1: 5}


def test_who_was_not_there_at_the_beginning_stays_out():
    clients = Clients()
    clients.settle({5: Hello(1, None, ROWS)})
    assert "was not there" in clients.admit(6, Hello(2, None, ROWS))
    assert "no partition" in clients.admit(8, Hello(None, "x", ROWS))


def test_clients_are_written_down_and_read_again(tmp_path):
    clients = Clients()
    clients.settle({9: Hello(None, "b", ROWS, (6,), 3, "sgd"), 7: Hello(None, "a", ROWS)})
    clients.save(tmp_path / "run" / "clients.json")
    again = Clients.load(tmp_path / "run" / "clients.json", 100)
    assert again.hellos == clients.hellos
    assert again.nodes == {}
    assert again.admit(70, Hello(None, "b", ROWS)) == ""
    assert again.nodes == {1: 70}
    (tmp_path / "bad.json").write_text('{"by": "name"}')
    with pytest.raises(DamageError, match=r"bad\.json is damaged: .*; restore it from a copy"):
        Clients.load(tmp_path / "bad.json", 100)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "list"),
        ({"sizes": {"train": -1}}, "sizes.train is -1"),
        ({"sizes": {"train": 101}}, "0..100"),
        ({"sizes": {"train": True}}, "whole number"),
        ({"sizes": {"secrets": 1}}, "sizes"),
        ({"sizes": ROWS, "partition": 1 << 40}, "partition"),
        ({"sizes": ROWS, "name": "x" * 300}, "name"),
        ({"sizes": ROWS, "shape": "wide"}, "shape"),
        ({"sizes": ROWS, "training": "magic"}, "training"),
    ],
)
def test_a_hello_that_cannot_be_is_rejected(said, why):
    with pytest.raises(Rejected, match=why):
        Hello.from_dict(said, most_rows=100)


def test_clients_that_disagree_on_their_samples_are_refused():
    clients = Clients()
    clients.settle({1: Hello(0, None, ROWS, (6,), 3), 2: Hello(1, None, ROWS, (6,), 4)})
    assert clients.common("shape") == (6,)
    with pytest.raises(InputError, match=r"classes is 3 at client 0, 4 at client 1"):
        clients.common("classes")


def test_too_few_clients_is_an_error_that_says_how_many():
    clock = Clock()
    with pytest.raises(InputError, match=r"3 of 5 clients are there after 20 s"):
        FlowerFederation(
            InProcessGrid(small_app(), 3), "mlp", clients=5, patience=20, clock=clock, sleep=clock.sleep
        )


def not_loaded(message, context):
    """What an app whose module cannot be imported looks like: Flower replies in its place."""
    raise ModuleNotFoundError("No module named 'nosuch'")


def test_apps_that_cannot_be_loaded_are_told_at_once():
    clock = Clock()
    with (
        pytest.warns(UserWarning, match="cannot take part"),
        pytest.raises(
            InputError, match=r"none of 3 clients can take part; node \d+ .*No module named 'nosuch'"
        ),
    ):
        FlowerFederation(
            InProcessGrid(not_loaded, 3), "mlp", clients=3, patience=300, clock=clock, sleep=clock.sleep
        )
    assert clock.now < 1


def test_others_may_still_come_where_some_apps_cannot_be_loaded():
    clock = Clock()
    with (
        pytest.warns(UserWarning, match="cannot take part"),
        pytest.raises(InputError, match=r"0 of 4 clients are there after 20 s"),
    ):
        FlowerFederation(
            InProcessGrid(not_loaded, 3), "mlp", clients=4, patience=20, clock=clock, sleep=clock.sleep
        )


def test_a_client_whose_node_goes_is_missing_until_it_comes_back():
    federation = small_federation()
    grid = federation._post.transport.grid
    federation.start(0, {}, 0)
    gone = next(n for n, c in grid.contexts.items() if c.node_config["partition-id"] == 2)
    context = grid.contexts.pop(gone)
    [report] = federation.round([Work(0, [1, 2, 3], {"lr": 0.1})])
    assert report.applied
    assert report.status.tolist() == [Status.OK, Status.MISSING, Status.OK]
    assert report.reasons == {1: Reason(Why.GONE, "its node is not there")}
    [scores] = federation.evaluate([0], [2, 1])
    assert scores.status.tolist() == [Status.MISSING, Status.OK]
    context.node_id = 4711
    grid.contexts[4711] = context
    federation.evaluate([0], [0])  # it is greeted with the next call, and there for the one after
    [report] = federation.round([Work(0, [1, 2, 3], {"lr": 0.1})])
    assert report.status.tolist() == [Status.OK] * 3


@pytest.mark.parametrize(
    "wrong", [{"clients": 0}, {"deadline": 0}, {"quorum": 1.5}, {"message_bytes": -1}, {"retries": -1}]
)
def test_wrong_settings_are_named(wrong):
    [name] = wrong
    with pytest.raises(InputError, match=name):
        FlowerFederation(InProcessGrid(small_app(), 1), "mlp", **wrong)
