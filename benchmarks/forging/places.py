"""Where one of eight clients lies: clients of Flower in this process, and simulated ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.protocol.federation import Work
from fedhpo.testing.attacks import hostile
from forging.lies import Lie

LIAR, CLIENTS, ROUNDS = 7, 8, 4


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

    class Grid(InProcessGrid):
        def lies(self, reply: Any) -> bool:
            """Whether the liar forges it: not its greeting, without which it would not take part."""
            kind = reply.metadata.message_type
            place = self.contexts[reply.metadata.src_node_id].node_config["partition-id"]
            return bool(place == LIAR and "hello" not in kind and "left_out" not in kind)

        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            if not self.lies(reply) or (lie is None and not silent):
                return reply
            content = RecordDict()
            for name, record in reply.content.items():
                if isinstance(record, ConfigRecord):
                    facts = json.loads(record["json"])
                    facts["replies"] = [
                        {"trial": one.get("trial"), "failure": "silent"} if lie is None else lie.reply(one)
                        for one in facts["replies"]
                    ]
                    content[name] = ConfigRecord({"json": json.dumps(facts)})
                else:
                    content[name] = record
            return Message(content, reply_to=message)

        def pull_messages(self, message_ids: Any) -> Any:
            found = list(super().pull_messages(message_ids))
            if lie is None or lie.what != "repeated":
                return found
            return [reply for one in found for reply in ([one, one] if self.lies(one) else [one])]

    sizes = {"train": 10, "validation": 10, "test": 0}
    functions = {"train": train, "evaluate": evaluate, "search": search}
    app = client(ClientApp(), sizes=lambda _: sizes, labels=lambda _: (np.arange(10) % 2, 2), **functions)
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
    if lie is None and not silent:
        return found
    hostile(found, Lie("accuracy", -1.0) if lie is None else lie, share=1 / CLIENTS)
    object.__setattr__(found.adversary, "clients", np.array([LIAR]))
    honest = found.query

    def query(task: Any, clients: Any) -> list[Any]:
        """What a client answers of its own search is forged too."""
        answers = honest(task, [one for one in clients if lie is not None or one != LIAR])
        return [
            one if one.client != LIAR else replace(one, content=lie.answer(one.content)) for one in answers
        ]

    found.query = query
    return found


MAKE: dict[str, Callable[..., Any]] = {"flower": flower, "simulation": simulation}


@cache
def quality(place: str, lr: float) -> float:
    """The accuracy on the seven honest clients after a whole training with this rate."""
    honest = list(range(CLIENTS - 1))
    with MAKE[place](None) as federation:
        federation.start(0, {}, 0)
        for _ in range(ROUNDS):
            federation.round([Work(0, honest, {"lr": lr}, scores=())])
        [scores] = federation.evaluate([0], honest)
    return float(np.nanmean(scores.accuracy))
