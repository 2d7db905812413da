"""Greets nodes as they come, and knows at which node each client is now."""

from __future__ import annotations

import warnings
from pathlib import Path

from fedhpo.core.errors import InputError
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.clients import Clients, Hello
from fedhpo.federations.remote.mailbox import Item, Post
from fedhpo.federations.remote.replies import read_answer
from fedhpo.federations.remote.transport import Transport
from fedhpo.protocol.federation import Status
from fedhpo.protocol.reasons import Reason

#: Seconds between looks for nodes while none is waited for, and until one that failed is greeted again.
_LOOK, _AGAIN = 0.5, 10.0
#: Clients to wait for where nothing says how many there are, and seconds after which no further one comes.
_USUAL, _SETTLED = 10, 10.0


class Nodes:
    """The nodes behind a transport; after `gather` each is one of the run's clients, or left out."""

    def __init__(self, transport: Transport, post: Post, most_rows: int) -> None:
        self._transport, self._post, self._most_rows = transport, post, most_rows
        self._said: dict[int, Hello | None] = {}
        self._waiting: set[int] = set()
        self._clients: Clients | None = None
        self._told: set[int] = set()  # nodes that know that they are left out
        self._refused = ""  # why the first node could not take part
        self._hopeless: set[int] = set()  # nodes whose client cannot be loaded, or cannot read a greeting

    def gather(self, wanted: int | None, patience: float, file: Path | None) -> Clients:
        """Wait for so many clients and number them; a run that was begun before has its own from `file`.

        None waits for `_USUAL`, or until no further one came for `_SETTLED` seconds.
        """
        settles = wanted is None
        wanted = _USUAL if wanted is None else wanted
        all_there = wanted
        if file is not None and file.exists():
            self._clients, wanted = Clients.load(file, self._most_rows), 1
            all_there = len(self._clients.hellos)
        again, end = self._post.clock() + _AGAIN, self._post.clock() + patience
        known, settled = 0, self._post.clock() + _SETTLED
        while self.look() or self._count < wanted:
            if self._count > known:
                known, settled = self._count, self._post.clock() + _SETTLED
            if settles and known and self._post.clock() > settled:
                break
            if self._post.clock() > end and self._count >= wanted:
                break
            if self._post.clock() > end:
                raise InputError(
                    f"{self._count} of {wanted} clients are there after {patience:g} s (clients = {wanted}, "
                    f"patience = {patience:g}): start more, or ask for fewer clients{self._refused}"
                )
            if self._waiting:
                self._post.collect()
            elif len(self._hopeless) >= all_there and self._hopeless >= self._said.keys():
                raise InputError(f"none of {len(self._hopeless)} clients can take part{self._refused}")
            else:
                self._post.sleep(_LOOK)
                if self._post.clock() > again:
                    again = self._post.clock() + _AGAIN
                    self._said = {node: said for node, said in self._said.items() if said is not None}
        if self._clients is None:
            self._clients = Clients()
            heard = {node: said for node, said in self._said.items() if said is not None}
            for node, why in self._clients.settle(heard).items():
                self._leave_out(node, why)
                warnings.warn(why, stacklevel=2)
            self._post.send()
            if file is not None:
                self._clients.save(file)
        return self._clients

    @property
    def _count(self) -> int:
        if self._clients is not None:
            return len(self._clients.nodes)
        return sum(said is not None for said in self._said.values())

    def look(self) -> bool:
        """See which nodes are there and greet new ones; returns whether some have yet to answer."""
        present = set(self._transport.nodes())
        for gone in self._said.keys() - present:  # one that comes back is greeted again
            del self._said[gone]
            self._waiting.discard(gone)
            self._hopeless.discard(gone)
        if self._clients is not None:
            self._clients.keep(present)
        for node in sorted(present - self._said.keys()):
            self._said[node] = None
            self._waiting.add(node)
            self._post.add(self._hello(node))
        return bool(self._waiting)

    def _hello(self, node: int) -> Item:
        def met(status: Status, why: Reason | None, hello: Hello | None) -> None:
            self._waiting.discard(node)
            if node not in self._said:  # it has gone again
                return
            self._said[node] = hello
            (self._hopeless.add if item.hopeless else self._hopeless.discard)(node)
            if hello is None:
                if not self._refused:  # who starts a run must not wait for clients that cannot come
                    warnings.warn(f"node {node} cannot take part: {why}", stacklevel=2)
                    self._refused = f"; node {node} cannot take part: {why}"
                self._leave_out(node, f"node {node}: {why}")
            elif self._clients is not None and (refused := self._clients.admit(node, hello)):
                self._leave_out(node, refused)

        item = Item(
            client=-1,
            kind=f"{messages.QUERY}.{messages.HELLO}",
            task={},
            model=None,
            read=lambda reply, _: Hello.from_dict(read_answer(reply)[0], self._most_rows),
            done=met,
            node=node,
        )
        return item

    def _leave_out(self, node: int, why: str) -> None:
        """Note it here, and tell the node, once; whether it understands does not matter."""
        self._post.note("nodes left out", why)
        if node in self._told:
            return
        self._told.add(node)
        self._post.add(
            Item(
                client=-1,
                kind=f"{messages.QUERY}.{messages.LEFT_OUT}",
                task={"query": {"why": why}},
                model=None,
                read=lambda reply, _: None,
                done=lambda status, why, _: None,
                node=node,
            )
        )

    def of(self, client: int) -> int | None:
        """Where a client is now; None if it is not there."""
        return None if self._clients is None else self._clients.nodes.get(client)
