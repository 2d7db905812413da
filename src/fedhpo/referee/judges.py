"""Which validation clients judge: fresh ones where there are any, and some that are kept for the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedhpo.core.streams import stream

#: With fewer fresh clients than these, all clients judge, and fresh seeds must do.
FEW = 10
#: The share that no comparison sees: they judge the last base, once.
KEPT_BACK = 0.2


def deal(clients: Sequence[int], asked: Collection[int] | None, seed: int) -> tuple[list[int], list[int]]:
    """Those that judge comparisons, and those that judge the last base.

    `asked` are clients that the base was tuned on. With too few clients nobody is kept back.

    >>> judges, last = deal(range(50), range(20), seed=0)
    >>> len(judges), len(last), min(judges + last) >= 20, set(judges) & set(last)
    (24, 6, True, set())
    >>> deal([0, 1, 2], None, seed=0)
    ([0, 1, 2], [])
    """
    fresh = [one for one in clients if one not in set(asked or ())]
    pool = fresh if len(fresh) >= FEW else list(clients)
    if len(pool) < FEW:
        return pool, []
    drawn = stream(seed, "kept back").choice(pool, int(KEPT_BACK * len(pool)), replace=False)
    last = sorted(int(one) for one in drawn)
    return [one for one in pool if one not in set(last)], last


def for_the_end(kept_back: Sequence[int] | None, asked: Collection[int]) -> tuple[list[int], str]:
    """Who judges the last base, which was tuned on the clients `asked`; and what is to be said of it.

    >>> for_the_end([3, 5, 8], {8})
    ([3, 5], 'judged at 2 clients that no comparison saw and that the base was not tuned on')
    """
    if not kept_back:
        return [], "there were too few clients to keep some back: only the seeds are fresh"
    fresh = [one for one in kept_back if one not in asked]
    if len(fresh) == len(kept_back):
        return fresh, f"judged at {len(fresh)} clients that no comparison saw"
    if not fresh:
        return list(kept_back), (
            f"judged at {len(kept_back)} clients that no comparison saw, but the base was tuned on them"
        )
    return fresh, (
        f"judged at {len(fresh)} clients that no comparison saw and that the base was not tuned on"
    )


def for_proposal(
    judges: Sequence[int] | None, asked: Sequence[Collection[int] | None]
) -> tuple[list[int] | None, str]:
    """Who judges a proposal, whose sides were tuned on the clients `asked`; and what is to be said of it.

    >>> for_proposal([1, 2, 3], [None, {2}])
    ([1, 2, 3], 'too few judging clients are fresh (2 of 3): only the seeds are')
    """
    if judges is None:
        return None, "clients are not known one by one: only the seeds are fresh"
    seen = set().union(*(one or () for one in asked))
    fresh = [one for one in judges if one not in seen]
    if len(fresh) == len(judges):
        unknown = any(one is None for one in asked)
        return list(judges), (
            "what the sides were tuned on is not known beyond the runs named: judging clients count as fresh"
            if unknown
            else ""
        )
    if len(fresh) < FEW:
        return list(judges), (
            f"too few judging clients are fresh ({len(fresh)} of {len(judges)}): only the seeds are"
        )
    return fresh, f"judged at the {len(fresh)} of {len(judges)} clients that neither side was tuned on"
