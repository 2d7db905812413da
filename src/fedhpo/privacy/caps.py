"""What the releases of a run weigh for each client, and the cap that no client gets above."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fedhpo.core.run_errors import BudgetError


class ClientCaps:
    """Each client's part in the releases so far, against the most that was planned for it.

    Every release is taken in here before a score of it is read. A client that is asked has taken part,
    whether it replies or not. `most` is the cap of every client for which `caps` names none.

    >>> caps = ClientCaps(2)
    >>> caps.take({7: 1, 8: 2})
    2
    >>> caps.able([7, 8, 9]), caps.able([7], weight=2)
    ([7, 9], [])
    >>> caps.take({8: 1})
    Traceback (most recent call last):
    ...
    fedhpo.errors.BudgetError: privacy: client 8 took part 2 times, the most allowed is 2
    """

    def __init__(self, most: int, caps: Mapping[int, int] | None = None) -> None:
        self.most = most
        self._caps = caps
        self.taken: Counter[int] = Counter()
        #: What the releases weigh for the client that took part most.
        self.largest = 0

    def cap(self, client: int) -> int:
        """The most that all releases may weigh for this client."""
        return self.most if self._caps is None else self._caps.get(client, 0)

    def able(self, clients: Iterable[int], weight: int = 1) -> list[int]:
        """Those of the clients that a release of this weight does not bring above their caps."""
        asked = (int(client) for client in clients)
        return [client for client in asked if self.taken[client] + weight <= self.cap(client)]

    def take(self, weights: Mapping[int, int]) -> int:
        """Count a release; returns by how much the largest sum of a client rose. Raises beyond a cap."""
        for client, weight in weights.items():
            if self.taken[client] + weight > self.cap(client):
                raise BudgetError(
                    f"privacy: client {client} took part {self.taken[client]} times, "
                    f"the most allowed is {self.cap(client)}"
                )
        before = self.largest
        self.taken.update(weights)
        self.largest = max((before, *(self.taken[client] for client in weights)))
        return self.largest - before

    @property
    def heaviest(self) -> int | None:
        """The client that took part most, the first of several; None where nobody did."""
        return min((c for c, weight in self.taken.items() if weight == self.largest), default=None)
