"""Wrappers hand on every name of a federation; one value says what it is."""

import inspect
from contextlib import suppress
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from fedhpo.core.errors import FedhpoError
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.about import About
from fedhpo.protocol.federation import Federation, Work
from fedhpo.protocol.ledger import Ledger
from fedhpo.protocol.through import Through
from fedhpo.run.record import Record
from fedhpo.run.recorded import RecordedSession
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.testing import ToyFederation
from fedhpo_papers.shared.remembering import Remembering

FACTS = [one.name for one in fields(About)]
#: Made of the other names by `Federation` itself.
DERIVED = {"save", "load", "require", "check_products", "about"}
VERBS = sorted(
    name
    for name, value in inspect.getmembers(Federation)
    if not name.startswith("_") and inspect.isfunction(value) and name not in DERIVED
)
#: How each verb is called.
ARGUMENTS = {
    "expect": (10,),
    "start": (1, {}, 0),
    "fork": (0, 1),
    "mix": (0, 1, 0.5),
    "stop": (0,),
    "submit": (Work(0, [0], {"lr": 0.1}),),
    "next_done": (0,),
    "ready": (),
    "round": ([Work(0, [0], {"lr": 0.1})],),
    "evaluate": ([0], [0]),
    "measure": ([],),
    "query": (SimpleNamespace(name="mine", to_dict=dict), [0]),
    "present": (0.0, 1, np.arange(2)),
    "starts": ([0], 0.0, []),
    "state": (0,),
    "restore": (0, None),
    "model": (0,),
    "describe": (),
    "fingerprint": ({},),
    "preflight": (Config(), "accuracy"),
    "stable_name": (0,),
    "distances": ([0], 0),
    "folds": (3, {}),
    "by_rows": ({},),
    "why_no_horizon": (Space(),),
    "why_no_mean": ({},),
    "close": (),
}


class Spy(ToyFederation):
    """Counts calls."""

    def __init__(self, **more):
        self.calls = []
        super().__init__(**more)

    def __getattribute__(self, name):
        if name in ARGUMENTS or name in FACTS or name == "trials":
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)


def recorded(inner, directory):
    return RecordedSession(inner, Record(directory / "record.sqlite"), Ledger())


WRAPPERS = {
    "through": lambda inner, path: Through(inner),
    "sealed": lambda inner, path: SealedFederation(inner),
    "remembering": lambda inner, path: Remembering(inner),
    "unrecorded": lambda inner, path: UnrecordedSession(inner),
    "recorded": recorded,
}


def test_every_verb_has_arguments_here():
    assert set(ARGUMENTS) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_verb_of_every_wrapper_reaches_the_inner_one(wrapper, verb, tmp_path):
    spy = Spy(clients=3)
    wrapped = WRAPPERS[wrapper](spy, tmp_path)
    if verb != "start":
        wrapped.start(0, {}, 0)
        wrapped.start(1, {}, 0)
    if verb == "next_done":
        wrapped.submit(*ARGUMENTS["submit"])
    spy.calls.clear()
    arguments = (0, spy.state(0)) if verb == "restore" else ARGUMENTS[verb]
    with suppress(FedhpoError):  # the toy knows no such query
        getattr(wrapped, verb)(*arguments)
    assert verb in spy.calls


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_fact_of_every_wrapper_is_that_of_the_inner_one(wrapper, fact, tmp_path):
    spy = Spy(clients=3)
    wrapped = WRAPPERS[wrapper](spy, tmp_path)
    spy.calls.clear()
    assert getattr(wrapped, fact) is getattr(spy, fact)
    assert fact in spy.calls
    spy.calls.clear()
    assert getattr(wrapped.about, fact) is getattr(spy, fact)


def test_facts_are_one_frozen_value():
    about = ToyFederation(clients=3).about
    with pytest.raises(AttributeError):
        about.task = "regression"
    assert about.train_clients.tolist() == [0, 1, 2]
