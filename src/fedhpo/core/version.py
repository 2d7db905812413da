"""The version of this package, the numbers of what it computes, and the commits that computed otherwise.

A change that alters results raises a number: one of `NUMBERS`, where a kind of run comes to other states or
scores whatever its method; a method's `number`, where the method makes other calls; `FORMAT` in
`fedhpo.run.record`, where the record is written otherwise. A run keeps the numbers that it was begun with. A
source with other numbers reads the run, but refuses to resume it, and names the last commit that has the
numbers of the run. So whoever raises one adds a line to `RAISED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

VERSION = "0.3.0"
#: What runs of a kind are computed by, besides their method; a run that keeps no number of these has 1.
NUMBERS: Mapping[str, int] = {
    "engine": 1,  # training, aggregation, scores, samplers: all runs
    "privacy": 1,  # what is released, and how: runs with private scores
    "remote": 1,  # what is made of the replies of clients asked by messages: Flower, NVFlare
    "fold": 2,  # the order of sums of 32 updates, or of large ones: of the same, where they can repeat
    "cuts": 2,  # tasks are cut by cost, convolutions laid out by rule: simulations of torch modules
    "rows": 2,  # large embeddings train and are summed by touched rows: simulations of models that have some
}
#: The last commit of each version.
COMMITS: Mapping[str, str] = {"0.1.0": "0a59939", "0.2.0": "6a36d7f"}


class Raised(NamedTuple):
    """A number was raised: of what, its old value, and the last commit that has that.

    `what` is a key of `NUMBERS`, the name of a method, or "record" for the record's format.
    """

    what: str
    number: int
    commit: str


#: Every number that was raised since 0.2.0, the first one first.
RAISED: tuple[Raised, ...] = (
    Raised("fold", 1, "7b86ea6"),
    Raised("rows", 1, "46e2936"),
    Raised("cuts", 1, "d523535"),
)


def commit_of(version: str | None, numbers: Mapping[str, int]) -> str | None:
    """The last commit whose numbers are these, as far as they differ from today's; None if it is not known.

    Numbers only rise, so the first of them to be raised says how far one has to go back.

    >>> commit_of("0.1.0", {"record": 1})
    '0a59939'
    """
    for raised in RAISED:
        if numbers.get(raised.what) == raised.number:
            return raised.commit
    return None if version in (None, VERSION) else COMMITS.get(version)


def way_back(run: Path, version: str | None, numbers: Mapping[str, int]) -> str:
    """How to go on with a run that another source began: what a refusal advises.

    >>> way_back(Path("runs/a"), "0.1.0", {})
    'to resume it, in a clone of fedhpo: git checkout 0a59939 && pip install -e . ; then: fedhpo resume ...'
    >>> way_back(Path("runs/a"), "9.0.0", {})
    'to resume it, take the source that it was begun with (fedhpo 9.0.0, or a method of your own)'
    """
    commit = commit_of(version, numbers)
    if commit is None:
        whose = f"fedhpo {version}" if version else "another version of fedhpo"
        return f"to resume it, take the source that it was begun with ({whose}, or a method of your own)"
    return (
        f"to resume it, in a clone of fedhpo: git checkout {commit} && pip install -e . ; "
        f"then: fedhpo resume {run}"
    )
