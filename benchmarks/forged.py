"""One of eight clients forges numbers: every method x 50 forged values, over Flower and in simulation.

    python benchmarks/forged.py [--methods sha,fedex] [--values 50] [--places flower] [--workers 2]

Flower's clients run in this process. Each run is stopped midway and resumed. Limits: no exception but
fedhpo's own, every run ends after it was resumed, and in 95% of the cases the config that was chosen is at
most one point of accuracy worse, on the seven honest clients, than what these choose alone. Prints a table in
Markdown; exits with 1 where a limit is missed. Arrays are honest here: see `benchmarks/hostile.py` for those.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import fedhpo as fh
from fedhpo.methods.registry import METHODS as KINDS
from fedhpo.testing.attacks import Attack, hostile

LIAR, CLIENTS, ROUNDS, TOTAL = 7, 8, 4, 40
#: All but fedtune, whose clients tell neither scores nor sizes.
METHODS = tuple(name for name in KINDS if name != "fedtune")
PLACES = ("flower", "simulation")
SPACE = {"client": {"lr": {"low": 0.001, "high": 3.0, "log": True}}}
_HUGE = (1e308, 1e300, 1e160, 1e100, 1e39, 3e38, 1e30, 1e10)
_LOSSES = (
    *_HUGE,
    *(-value for value in _HUGE),
    5e-324,
    1e-300,
    0.0,
    -0.0,
    -1e-9,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
)
_SHARES = (1e308, -1e308, 2.0, -1.0, 1.0, 0.0, 1e-300, math.nan, math.inf, -math.inf)
_SIZES = (0, -1, 2**31, 2**63, 10**30, 10**400, 1)
#: What is forged, and with what: 50 cases.
VALUES: tuple[tuple[str, Any], ...] = (
    *(("loss", value) for value in _LOSSES),
    *(("accuracy", value) for value in _SHARES),
    *(("size", value) for value in _SIZES),
    ("all", 1e308),
    ("all", math.inf),
    ("all", -1e308),
    ("old", None),
    ("first", None),
    ("repeated", None),
    ("another trial's", None),
    ("old, unnamed", None),
)


@dataclass
class Lie(Attack):
    """Forged scores and sizes; of a reply that came before, those of that one."""

    what: str
    value: Any
    seen: list[tuple[float, float]] = field(default_factory=list)

    def size(self, rows: int) -> int:
        return self.value if self.what == "size" else rows

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        self.seen.append((loss, accuracy))
        if self.what in ("loss", "accuracy", "all"):
            number = _float(self.value)
            return (
                number if self.what in ("loss", "all") else loss,
                number if self.what in ("accuracy", "all") else accuracy,
            )
        places = {"old": -2, "first": 0, "repeated": -2, "another trial's": -3, "old, unnamed": -2}
        place = places.get(self.what)
        return (loss, accuracy) if place is None else self.seen[max(place, -len(self.seen))]


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def forge(honest: dict[str, Any], lie: Lie, kept: list[dict[str, Any]]) -> dict[str, Any]:
    """A reply over Flower with what is forged in it; `kept` are those that came before."""
    told = copy.deepcopy(honest)
    names = {"loss": ("loss",), "accuracy": ("accuracy",), "size": ("size",), "all": ("loss", "accuracy")}
    for name in honest:
        if any(part in name for part in names.get(lie.what, ())):
            told[name] = lie.value
    answer = told.get("answer")
    if isinstance(answer, dict) and "losses" in answer and lie.what in ("loss", "all"):
        answer["losses"] = [lie.value] * len(answer["losses"])
    if isinstance(answer, dict) and "size" in answer and lie.what == "size":
        answer["size"] = lie.value
    kept.append(honest)
    if lie.what in ("old", "first", "another trial's", "old, unnamed") and "trial" in honest:
        same = [one for one in kept[:-1] if one.keys() == honest.keys()]
        others = [one for one in same if one["trial"] != honest["trial"]]
        own = [one for one in same if one["trial"] == honest["trial"]]
        chosen = others if lie.what == "another trial's" else own[:1] if lie.what == "first" else own
        if chosen:
            told = {**chosen[-1], **({"arrays": honest["arrays"]} if "arrays" in honest else {})}
        if lie.what == "old, unnamed":
            told.pop("task", None)
    return told


# The two places


def _targets() -> np.ndarray:
    return 1 + 0.05 * (np.arange(CLIENTS) - 3.5)


def flower(lie: Lie | None, silent: bool = False) -> Any:
    """Eight clients in process: each moves a number towards its own target; a high rate overshoots."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client

    targets = _targets()

    def scores(weights: Any, place: int) -> tuple[float, float]:
        with np.errstate(over="ignore"):
            loss = float(min((float(weights[0]) - targets[place]) ** 2, 1e30))
        return loss, math.exp(-min(loss, 700.0))

    def train(arrays: Any, task: Any, context: Any) -> Any:
        place, w = task.client, np.asarray(arrays["w"], np.float64)
        after = np.clip(w + task.config.get("lr", 0.1) * (targets[place] - w), -1e15, 1e15)
        (lb, ab), (la, aa) = scores(w, place), scores(after, place)
        return Trained({"w": after.astype(np.float32)}, 10, 10, lb, la, ab, aa)

    def evaluate(arrays: Any, task: Any, context: Any) -> Any:
        loss, accuracy = scores(arrays["w"], task.client)
        return Scored(10, loss, accuracy)

    def search(config: Any, context: Any) -> float:
        return float(1 - math.exp(-min((1 - config["lr"]) ** (2 * ROUNDS), 700.0)))

    kept: list[dict[str, Any]] = []

    class Grid(InProcessGrid):
        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            kind = message.metadata.message_type
            liar = self.contexts[message.metadata.dst_node_id].node_config["partition-id"] == LIAR
            if not liar or "hello" in kind or "left_out" in kind or (lie is None and not silent):
                return reply
            content = RecordDict()
            for name, record in reply.content.items():
                if isinstance(record, ConfigRecord):
                    facts = json.loads(record["json"])
                    if silent:
                        facts["replies"] = [
                            {"trial": o.get("trial"), "failure": "silent"} for o in facts["replies"]
                        ]
                    else:
                        facts["replies"] = [forge(one, lie, kept) for one in facts["replies"]]
                    content[name] = ConfigRecord({"json": json.dumps(facts)})
                else:
                    content[name] = record
            return Message(content, reply_to=message)

        def pull_messages(self, message_ids: Any) -> Any:
            found = list(super().pull_messages(message_ids))
            if lie is None or lie.what != "repeated":
                return found
            ids = {node for node, c in self.contexts.items() if c.node_config["partition-id"] == LIAR}
            return [r for one in found for r in ([one, one] if one.metadata.src_node_id in ids else [one])]

    sizes = {"train": 10, "validation": 10, "test": 0}
    app = client(ClientApp(), train=train, evaluate=evaluate, sizes=lambda context: sizes, search=search)
    model = Arrays(lambda seed: {"w": np.zeros(1, np.float32)})
    return FlowerFederation(Grid(app, CLIENTS, seed=1), model, clients=CLIENTS, repeatable=True)


@cache
def _data() -> Any:
    rng = np.random.default_rng(3)
    centres = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])

    def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 3, count)
        return (centres[y] + rng.normal(size=(count, 2)) * 0.6).astype(np.float32), y

    return fh.from_clients([{"train": rows(24), "validation": rows(24)} for _ in range(CLIENTS)], classes=3)


def simulation(lie: Lie | None, silent: bool = False) -> Any:
    """Eight simulated clients; the last one lies."""
    found = fh.simulate("mlp", _data(), workers=0, aggregation="trimmed_mean", weight_cap=2.0)
    if lie is not None or silent:
        hostile(found, Lie("accuracy", -1.0) if lie is None else lie, share=1 / CLIENTS)
        object.__setattr__(found.adversary, "clients", np.array([LIAR]))
    return found


MAKE = {"flower": flower, "simulation": simulation}


@cache
def quality(place: str, lr: float) -> float:
    """The accuracy on the seven honest clients after a whole training with this rate."""
    honest = list(range(CLIENTS - 1))
    from fedhpo.protocol.federation import Work

    with MAKE[place](None) as federation:
        federation.start(0, {}, 0)
        for _ in range(ROUNDS):
            federation.round([Work(0, honest, {"lr": lr}, scores=())])
        [scores] = federation.evaluate([0], honest)
    return float(np.nanmean(scores.accuracy))


class Stopper:
    """Stops a run after a few events of its own."""

    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self, event: Any) -> bool:
        self.left -= not event.replayed
        return self.left <= 0


def tuned(place: str, method: str, lie: Lie | None, folder: Path | None, silent: bool = False) -> float:
    """The rate that a run chooses; stopped midway and resumed where it has a folder."""
    arguments: dict[str, Any] = {"rounds": ROUNDS, "total": TOTAL, "cohort": CLIENTS, "seed": 3}
    space = fh.Space.from_dict(SPACE)
    few = {"configs": 8, "sampler": "random"}
    quick = {"flora": few | {"regressor": "gp", "diagnose": False}, "fts": {"configs": 8}}
    settings: dict[str, Any] = quick.get(method, {})
    chosen = KINDS[method](**settings)
    if folder is not None:
        with MAKE[place](copy.deepcopy(lie), silent) as federation:
            fh.tune(federation, space, chosen, run=folder, callbacks=[Stopper(3)], **arguments)
    with MAKE[place](copy.deepcopy(lie), silent) as federation:
        return float(fh.tune(federation, space, chosen, run=folder, **arguments).best_config.client["lr"])


@dataclass(frozen=True)
class Found:
    """What came of one case: regret in points, or what was raised."""

    place: str
    method: str
    what: str
    value: str
    regret: float | None = None
    refused: str = ""
    bare: str = ""


def case(job: tuple[str, str, int | None]) -> Found:
    """One method at one place with one forged value; None asks the seven honest ones alone."""
    warnings.simplefilter("ignore")
    place, method, number = job
    what, value = ("honest", "") if number is None else VALUES[number]
    name = (place, method, what, f"{value:.6g}" if isinstance(value, float) else str(value)[:12])
    try:
        with tempfile.TemporaryDirectory(prefix="forged-") as folder:
            lie = None if number is None else Lie(what, value)
            rate = tuned(
                place, method, lie, None if number is None else Path(folder) / "run", silent=number is None
            )
        return Found(*name, regret=100 * quality(place, round(rate, 12)))
    except fh.FedhpoError as error:
        return Found(*name, refused=f"{type(error).__name__}: {error}"[:200])
    except Exception:
        return Found(*name, bare=traceback.format_exc().strip().splitlines()[-1][:200])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--values", type=int, default=len(VALUES), help="forged values to try, spread evenly")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    begun = time.monotonic()
    numbers = np.unique(np.linspace(0, len(VALUES) - 1, options.values).round().astype(int)).tolist()
    pairs = [(place, method) for place in options.places.split(",") for method in options.methods.split(",")]
    jobs: list[tuple[str, str, int | None]] = [(*pair, n) for pair in pairs for n in (None, *numbers)]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        found = list(pool.imap(case, jobs, chunksize=8))
    sys.exit(judged(found, time.monotonic() - begun))


def judged(found: list[Found], seconds: float) -> int:
    """Print what was found; 1 where a limit is missed."""
    alone = {(one.place, one.method): one for one in found if one.what == "honest"}
    forged = [one for one in found if one.what != "honest"]
    able = [one for one in forged if not alone[one.place, one.method].refused]
    more = {one: alone[one.place, one.method].regret - one.regret for one in able if one.regret is not None}
    near = sum(value <= 1.0 for value in more.values())
    print(
        "| place | method | cases | within a point | worst | refused | bare |\n|---|---|---|---|---|---|---|"
    )
    for (place, method), honest in alone.items():
        own = [one for one in able if (one.place, one.method) == (place, method)]
        if honest.refused or honest.bare:
            print(f"| {place} | {method} | not able: {honest.refused or honest.bare} | | | | |")
            continue
        lost = [more[one] for one in own if one in more]
        ended = [one for one in own if one.refused]
        bare = sum(bool(one.bare) for one in own)
        inside = sum(value <= 1.0 for value in lost)
        worst = f"{max(lost, default=0):.1f}"
        print(f"| {place} | {method} | {len(own)} | {inside} | {worst} | {len(ended)} | {bare} |")
    for one in sorted(able, key=lambda o: -more.get(o, math.inf))[:20]:
        if one.bare or one.refused or more[one] > 1:
            said = one.bare or one.refused or round(more[one], 2)
            print(f"- {one.place} {one.method} {one.what} {one.value}: {said}")
    bare = sum(bool(one.bare) for one in found)
    ended = sum(bool(one.refused) for one in able)
    share = near / len(able) if able else 0.0
    print(
        f"\n{len(able)} cases in {seconds / 60:.1f} min: {bare} bare exceptions, {ended} that did not end, "
        f"{share:.1%} within one point of the honest clients' choice (at least 95%)"
    )
    return int(bare > 0 or ended > 0 or share < 0.95)


if __name__ == "__main__":
    main()
