"""Who the clients are: nodes say hello, and are numbered in an order that the next run finds again.

By partition id, which then is the client's number; else by the `name` of the node's config; else by node
id, which Flower draws anew for every run. The clients of a run are those that were there when it began. One
whose node has gone is missing until a node with its partition id or name comes back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedhpo.core.digests import read_with_digest, write_with_digest
from fedhpo.core.errors import InputError
from fedhpo.federations.flower.arrays import Rejected
from fedhpo.protocol.federation import Ints, SplitName

SPLITS = get_args(SplitName)
#: A partition id is a client's number: no larger than a federation can be.
MOST_CLIENTS = 1 << 20
#: What a client's training understands: `fedhpo.engine.hyperparameters.Local`, those of
#: `fedhpo.learners.boosted`, or whatever it likes.
SGD, TREES, OWN = TRAININGS = "sgd", "trees", "own"


@dataclass(frozen=True)
class Hello:
    """What a node says of itself."""

    partition: int | None = None
    name: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    classes: int | None = None
    training: str = OWN

    def to_dict(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self) | {"sizes": dict(self.sizes)}

    @classmethod
    def from_dict(cls, given: Any, most_rows: int) -> Hello:
        """What a node said; `Rejected` if it is not valid."""
        if not isinstance(given, dict):
            raise Rejected(f"its answer is {type(given).__name__}, expected an object")
        sizes, shape, name = given.get("sizes"), given.get("shape"), given.get("name")
        if not isinstance(sizes, dict) or not set(sizes) <= set(SPLITS):
            raise Rejected(f"sizes must be an object with {', '.join(SPLITS)}")
        if shape is not None and not isinstance(shape, list):
            raise Rejected("shape must be a list of whole numbers")
        if name is not None and not (isinstance(name, str) and 0 < len(name) <= 200):
            raise Rejected("name must be a text of 1 to 200 characters")
        if given.get("training", OWN) not in TRAININGS:
            raise Rejected(f"training must be one of {', '.join(TRAININGS)}")
        return cls(
            _whole("partition", given.get("partition"), MOST_CLIENTS - 1),
            name,
            {split: _whole(f"sizes.{split}", sizes.get(split, 0), most_rows) or 0 for split in SPLITS},
            None if shape is None else tuple(_whole("shape", n, 1 << 31) or 0 for n in shape),
            _whole("classes", given.get("classes"), 1 << 31),
            given.get("training", OWN),
        )


def _whole(name: str, value: Any, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise Rejected(f"{name} is {str(value)[:30]}, expected a whole number in 0..{most}")
    return value


class Clients:
    """The clients of a run by their numbers, and the node of each that is there now."""

    def __init__(self) -> None:
        self.by: str = ""
        self.hellos: dict[int, Hello] = {}
        self.nodes: dict[int, int] = {}
        self._keys: dict[str, int] = {}

    def settle(self, said: Mapping[int, Hello]) -> list[str]:
        """Number the clients, once, after what the nodes said; returns why some were left out."""
        if all(hello.partition is not None for hello in said.values()):
            self.by = "partition"
        elif all(hello.name is not None for hello in said.values()):
            self.by = "name"
        else:
            self.by = "node"
            warnings.warn(
                "not every node has a partition-id or a name in its config: clients are ordered by node id, "
                "which changes with every run, so that runs do not repeat and cannot be resumed",
                stacklevel=3,
            )
        order = sorted(said, key=lambda node: (self._order(said[node]), node))
        return [why for node in order if (why := self.admit(node, said[node], new=True))]

    def admit(self, node: int, hello: Hello, *, new: bool = False) -> str:
        """Let a node be its client; returns why it cannot be, or nothing."""
        if self.by in ("partition", "name") and getattr(hello, self.by) is None:
            return f"node {node} has no {self.by} in its config, as the others have"
        key = str(node if self.by == "node" else getattr(hello, self.by))
        if not new and key not in self._keys:
            return f"node {node} ({self.by} {key}) was not there when the run began"
        if new and key not in self._keys:
            number = hello.partition if self.by == "partition" else len(self._keys)
            assert number is not None
            self._keys[key], self.hellos[number] = number, hello
        number = self._keys[key]
        if self.nodes.get(number, node) != node:
            return f"node {node} says that it is {self.by} {key}, as node {self.nodes[number]} does"
        self.nodes[number] = node
        return ""

    def keep(self, present: set[int]) -> None:
        """Only these nodes are there now."""
        self.nodes = {number: node for number, node in self.nodes.items() if node in present}

    def _order(self, hello: Hello) -> Any:
        return None if self.by == "node" else getattr(hello, self.by)

    def holders(self, split: SplitName) -> Ints:
        """The clients that hold rows of a split, in ascending order."""
        return np.array(sorted(n for n, h in self.hellos.items() if h.sizes.get(split, 0)), np.int64)

    def common(self, what: str) -> Any:
        """The samples' `shape` or `classes`, which must be the same for all clients that say."""
        found = {
            getattr(h, what): number for number, h in self.hellos.items() if getattr(h, what) is not None
        }
        if len(found) > 1:
            (one, first), (other, second) = list(found.items())[:2]
            raise InputError(
                f"clients disagree: {what} is {one} at client {first}, {other} at client {second}"
            )
        return next(iter(found), None)

    # The file, so that a run that is started again has the same clients

    def save(self, path: Path) -> None:
        """Write the clients down, whole or not at all."""
        facts = {
            "by": self.by,
            "clients": [
                {"key": key, "number": number, **self.hellos[number].to_dict()}
                for key, number in self._keys.items()
            ],
        }
        write_with_digest(path, facts)

    @classmethod
    def load(cls, path: Path, most_rows: int) -> Clients:
        """The clients that `save` wrote down, all of them away."""
        facts = read_with_digest(path, "restore it from a copy, or begin again in another directory")
        try:
            clients = cls()
            clients.by = facts["by"]
            for one in facts["clients"]:
                clients._keys[one["key"]] = one["number"]
                clients.hellos[one["number"]] = Hello.from_dict(one, most_rows)
        except (ValueError, KeyError, TypeError, Rejected) as error:
            raise InputError(f"{path}: the clients of the run cannot be read: {error}") from None
        return clients
