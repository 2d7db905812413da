"""Small runs for the conformance suites: what they come to, and how they go on after a stop."""

from __future__ import annotations

import atexit
import json
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from fedhpo.core.settings import settings_of
from fedhpo.methods import Tuner
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.method import Method
from fedhpo.search.events import Event, StopTuning
from fedhpo.space import Choice, Float, Ordinal, Space
from fedhpo.tuning.result import Result
from fedhpo.tuning.tune import tune

#: What simulated clients can train with.
PLAIN = Space(
    client={"lr": Float(0.01, 1.0, log=True), "batch_size": Ordinal([8, 16, 32])},
    server={"lr": Float(0.1, 1.0)},
)
#: A space in which what is tuned depends on other hyperparameters.
CONDITIONAL = Space(
    client={
        "lr": Float(1e-3, 10.0, log=True),
        "momentum": Float(0.0, 0.9, when={"server.optimiser": ["sgd"]}),
        "rule": Choice(["a", "b"]),
        "decay": Float(0.0, 1.0, when={"client.rule": ["b"]}),
    },
    server={"lr": Float(0.1, 1.0), "optimiser": Choice(["sgd", "adam"])},
)


def facts_of(result: Result) -> dict[str, Any]:
    """What result.json holds but for times."""
    return {name: value for name, value in result.facts.items() if name != "times"}


def stopped_at_every_event(
    federation: Federation, space: Space, method: Method | Tuner, run: Path, **budget: Any
) -> Result:
    """The result of a run that is stopped after its first event, then after its second, and so on."""
    for last in count(1):
        heard = 0

        def stop(event: Event, last: int = last) -> None:
            nonlocal heard
            heard += 1
            if heard == last and event.kind != "finish":
                raise StopTuning("after every event")

        result = tune(federation, space, method, run=run, callbacks=[stop], **budget)
        if result.status == "finished":
            return result
    raise AssertionError


def plain_settings(part: object) -> dict[str, Any]:
    """The settings of a part, which must be plain data without an address in it."""
    found = settings_of(part)
    assert " at 0x" not in json.dumps(found)
    return found


@cache
def simulated(workers: int) -> Federation:
    """A small simulated federation, made once for all suites of a process."""
    from fedhpo.data import load
    from fedhpo.federations.simulate import simulate

    made = simulate("linear", load("synthetic", clients=6, seed=0), workers=workers)
    atexit.register(made.close)
    return made
