"""Who the clients are: nodes say hello, and are numbered in an order that the next run finds again.

By partition id, which then is the client's number, or by the `name` of the node's config. Where some have
the one and some the other, those that have only a name come after the others, in the order of their names. A
node that has neither is left out, unless most are so: then all are ordered by node id, which Flower draws
anew for every run. A node whose samples or training are unlike those of most others is left out too.

The clients of a run are those that were there when it began. One whose node has gone is missing until a node
with its partition id or name comes back.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedhpo.core.digests import read_with_digest, write_with_digest
from fedhpo.core.errors import InputError
from fedhpo.federations.remote.layout import Rejected
from fedhpo.protocol.federation import Ints, SplitName

SPLITS = get_args(SplitName)
#: A partition id is a client's number: no larger than a federation can be.
MOST_CLIENTS = 1 << 20
#: What a client's training understands: `fedhpo.engine.hyperparameters.Local`, those of
#: `fedhpo.learners.boosted`, of another learner, whatever it likes, or what its Flower app reads.
SGD, TREES, OWN, APP, PLAIN, LEARNER = TRAININGS = "sgd", "trees", "own", "app", "plain app", "learner"
#: What clients are known by.
PARTITION, NAME, NODE, EITHER = "partition", "name", "node", "partition or name"


@dataclass(frozen=True)
class Hello:
    """A node's description of itself."""

    partition: int | None = None
    name: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    classes: int | None = None
    training: str = OWN
    #: The names that its own training takes, if it says.
    hyperparameters: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it travels."""
        found = asdict(self) | {"sizes": dict(self.sizes)}
        names = found.pop("hyperparameters")
        return found if names is None else found | {"hyperparameters": list(names)}

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
            {
                split: _whole(f"sizes.{split}", sizes.get(split, 0), most_rows, "most_rows") or 0
                for split in SPLITS
            },
            None if shape is None else tuple(_whole("shape", n, 1 << 31) or 0 for n in shape),
            _whole("classes", given.get("classes"), 1 << 31),
            given.get("training", OWN),
            _names(given.get("hyperparameters")),
        )


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise Rejected("hyperparameters must be a list of names")
    return tuple(sorted(name[:200] for name in value[:1000]))


def _whole(name: str, value: Any, most: int, limit: str = "") -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        of = f" ({limit} = {most})" if limit else ""
        raise Rejected(f"{name} is {str(value)[:30]}, expected a whole number in 0..{most}{of}")
    return value


def deviating(said: Mapping[int, Hello]) -> dict[int, str]:
    """The nodes whose samples or training are unlike those of most others, and why; ties are left alone.

    >>> shapes = {1: (6,), 2: (6,), 3: (9,)}
    >>> deviating({node: Hello(node, shape=shape) for node, shape in shapes.items()})
    {3: 'node 3 (partition 3) is left out: its shape is (9,), that of most others (6,)'}
    """
    found: dict[int, str] = {}
    for what in ("shape", "classes", "training", "hyperparameters"):
        values = {node: getattr(hello, what) for node, hello in said.items() if node not in found}
        counts = Counter(value for value in values.values() if value is not None).most_common(2)
        if len(counts) < 2 or counts[0][1] == counts[1][1]:
            continue
        for node, value in values.items():
            if value not in (None, counts[0][0]):
                hello = said[node]
                known = f"name {hello.name}" if hello.partition is None else f"partition {hello.partition}"
                found[node] = (
                    f"node {node} ({known}) is left out: its {what} is {value}, that of most others "
                    f"{counts[0][0]}"
                )
    return found


class Clients:
    """The clients of a run by their numbers, and the node of each that is there now."""

    def __init__(self) -> None:
        self.by: str = ""
        self.hellos: dict[int, Hello] = {}
        self.nodes: dict[int, int] = {}
        self._keys: dict[str, int] = {}
        self._next = 0

    def settle(self, said: Mapping[int, Hello]) -> dict[int, str]:
        """Number the clients, once, after what the nodes said; returns which were left out, and why."""
        left_out = deviating(said)
        said = {node: hello for node, hello in said.items() if node not in left_out}
        nameless = [node for node, hello in said.items() if hello.partition is None and hello.name is None]
        if said and 2 * len(nameless) > len(said):
            self.by = NODE
            warnings.warn(
                "most nodes have neither a partition-id nor a name in their config: clients are ordered by "
                "node id, which changes with every run, so that runs do not repeat and cannot be resumed",
                stacklevel=3,
            )
        elif all(hello.partition is not None for hello in said.values()):
            self.by = PARTITION
        elif all(hello.name is not None for hello in said.values()):
            self.by = NAME
        else:
            self.by = EITHER
        order = sorted(said, key=lambda node: (self._order(said[node]), node))
        self._next = max((h.partition + 1 for h in said.values() if h.partition is not None), default=0)
        refused = {node: why for node in order if (why := self.admit(node, said[node], new=True))}
        return left_out | refused

    def admit(self, node: int, hello: Hello, *, new: bool = False) -> str:
        """Let a node be its client; returns why it cannot be, or nothing."""
        key = self._key(node, hello)
        if key is None:
            return (
                f"node {node} has no {self.by} in its config, as the others have: start it with "
                "--node-config 'name=\"...\"' or partition-id=..."
            )
        if not new and key not in self._keys:
            return f"node {node} ({self._kind(hello)} {key}) was not there when the run began"
        if new and key not in self._keys:
            number = self._number(hello)
            self._keys[key], self.hellos[number] = number, hello
        number = self._keys[key]
        if self.nodes.get(number, node) != node:
            return f"node {node} says that it is {self._kind(hello)} {key}, as node {self.nodes[number]} does"
        self.nodes[number] = node
        return ""

    def keep(self, present: set[int]) -> None:
        """Only these nodes are there now."""
        self.nodes = {number: node for number, node in self.nodes.items() if node in present}

    def _kind(self, hello: Hello) -> str:
        """What a node is known by."""
        if self.by != EITHER:
            return self.by
        return NAME if hello.partition is None else PARTITION

    def _key(self, node: int, hello: Hello) -> str | None:
        """What a client is found again by; None where its node does not say."""
        if self.by == NODE:
            return str(node)
        found = getattr(hello, self._kind(hello))
        if found is None:
            return None
        return str(found) if self.by != EITHER else f"{self._kind(hello)} {found}"

    def _number(self, hello: Hello) -> int:
        """The number of a client that is new."""
        if self._kind(hello) == PARTITION and hello.partition is not None:
            return hello.partition
        if self.by != EITHER:
            return len(self._keys)
        self._next += 1
        return self._next - 1

    def _order(self, hello: Hello) -> Any:
        if self.by == NODE:
            return ()
        if self.by == EITHER:
            return hello.partition is None, hello.partition or 0, hello.name or ""
        return (getattr(hello, self.by),)

    def stable_name(self, number: int) -> str | None:
        """What a client is called in every run; None where node ids are all that is known."""
        hello = self.hellos.get(number)
        if hello is None or self.by == NODE:
            return None
        kind = NAME if hello.partition is None else PARTITION
        return f"{kind} {getattr(hello, kind)}"

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
