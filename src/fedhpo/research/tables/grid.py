"""What a table holds: which configs, and at which rounds they are scored."""

from __future__ import annotations

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.samplers.untried import finite_size
from fedhpo.schedules import Hyperband
from fedhpo.space import Space
from fedhpo.space.config import Config

#: The seed of every table's configs: tables of one space hold the same ones, so that they can be compared.
_SEED = 0


def table_configs(space: Space, count: int) -> list[Config]:
    """The first `count` configs of the space's fixed list, all of them different.

    They depend on the space and nothing else, and a longer list begins with the shorter one.

    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True)})
    >>> table_configs(space, 2) == table_configs(space, 3)[:2]
    True
    """
    size = finite_size(space)
    if count < 1 or (size is not None and count > size):
        most = "" if size is None else f" and at most {size}, the size of the space"
        raise InputError(f"configs must be at least 1{most}, not {count}")
    rng = stream(_SEED, "table")
    found: dict[Config, None] = {}
    while len(found) < count:
        found.setdefault(space.sample(rng))
    return list(found)


def score_rounds(rounds: int, unit: int | None = None, every: int | None = None) -> list[int]:
    """The rounds at which a table's configs are scored: wherever a rung of Hyperband may end.

    These are the ends of its rungs, and every multiple of `every`: by default of the second of them (of the
    first, where there are only two). `unit` is Hyperband's, by default one for at most five brackets.

    >>> score_rounds(405)[:4], score_rounds(405)[-1], len(score_rounds(405))
    ([5, 15, 30, 45], 405, 28)
    >>> score_rounds(9)
    [1, 3, 6, 9]
    >>> score_rounds(81, every=27)
    [1, 3, 9, 27, 54, 81]
    """
    if every is not None and every < 1:
        raise InputError(f"every must be at least 1, not {every}")
    ends = Hyperband(unit=unit).brackets(rounds)[0].ends
    step = every or (ends[1] if len(ends) > 2 else ends[0])
    return sorted({*ends, *range(step, rounds + 1, step)})
