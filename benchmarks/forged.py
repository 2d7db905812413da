"""One of eight clients forges numbers: every method x 50 forged values, over Flower and in simulation.

    python benchmarks/forged.py [--methods sha,fedex] [--values 50] [--places flower] [--done FILE]

Flower's clients run in this process. Each run is stopped midway and resumed. Limits: no exception but
fedhpo's own, every run ends after it was resumed, and in 95% of the cases the config that was chosen is at
most one point of accuracy worse, on the seven honest clients, than what these choose alone. Prints a table in
Markdown; exits with 1 where a limit is missed. With `--done` each case is a line of FILE and is not done
again. Arrays are honest here: see `benchmarks/hostile.py` for those.

FedTune asks its clients for their cells only to fill a table, and trains one trial by it: here that trial is
compared with the user's own config, and its table holds the same rate in every cell.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import fedhpo as fh
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.methods.registry import METHODS as KINDS
from forging.lies import VALUES, Lie
from forging.places import CLIENTS, MAKE, ROUNDS, quality

TOTAL, WITHIN, SHARE = 40, 1.0, 0.95
SPACE = {"client": {"lr": {"low": 0.001, "high": 3.0, "log": True}}}
#: The rate in every cell of FedTune's table.
TABLE_RATE = 0.7


@cache
def _table() -> str:
    path = Path(tempfile.mkdtemp(prefix="forged-")) / "table.json"
    cells = Cells((0.2, 0.8), (30,))
    ReferenceTable(cells, ({"lr": TABLE_RATE},) * 2, fh.Space.from_dict(SPACE)).save(path)
    return str(path)


def method_of(name: str) -> Any:
    """The method, with few configs where clients search by themselves."""
    few = {"configs": 8, "sampler": "random", "regressor": "gp", "diagnose": False}
    quick = {"flora": few, "fts": {"configs": 8}, "fedpop-auto": {"trials": 6}, "fedex-auto": {"trials": 6}}
    settings: dict[str, Any] = {"table": _table()} if name.startswith("fedtune") else quick.get(name, {})
    return KINDS[name](**settings)


class Stopper:
    """Stops a run after a few events of its own."""

    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self, event: Any) -> bool:
        self.left -= not event.replayed
        return self.left <= 0


def tuned(place: str, name: str, lie: tuple[str, Any] | None, folder: Path | None) -> float:
    """The rate that a run chooses; stopped midway and resumed where it has a folder.

    Without a lie the eighth client is silent.
    """
    arguments: dict[str, Any] = {"rounds": ROUNDS, "total": TOTAL, "cohort": CLIENTS, "seed": 3}
    space, method = fh.Space.from_dict(SPACE), method_of(name)
    if name.startswith("fedtune"):
        arguments |= {"baseline": True}
    if method.trains_once:
        arguments |= {"total": None}
    if folder is not None:
        with _place(place, lie) as federation:
            fh.tune(federation, space, method, run=folder, callbacks=[Stopper(3)], **arguments)
    with _place(place, lie) as federation:
        found = fh.tune(federation, space, method, run=folder, **arguments)
    return float(found.best_config.client.get("lr", TABLE_RATE))  # without one clients look it up


def _place(place: str, lie: tuple[str, Any] | None) -> Any:
    return MAKE[place](None if lie is None else Lie(*lie), silent=lie is None)


@dataclass(frozen=True)
class Found:
    """What came of one case: the honest clients' accuracy in points, or what was raised."""

    place: str
    method: str
    number: int | None
    points: float | None = None
    refused: str = ""
    bare: str = ""
    seconds: float = 0.0

    @property
    def lie(self) -> str:
        """What was forged, and with what."""
        if self.number is None:
            return "honest"
        what, value = VALUES[self.number]
        return what if value is None else f"{what} {value:.6g}" if value != 10**400 else f"{what} 1e400"


def case(place: str, name: str, number: int | None) -> Found:
    """One method at one place with one forged value; None asks the seven honest ones alone."""
    begun = time.monotonic()
    lie = None if number is None else VALUES[number]
    points, refused, bare = None, "", ""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            with tempfile.TemporaryDirectory(prefix="forged-") as folder:
                rate = tuned(place, name, lie, None if lie is None else Path(folder) / "run")
            points = 100 * quality(place, round(rate, 12))
        except fh.FedhpoError as error:
            refused = f"{type(error).__name__}: {error}"[:200]
        except Exception:
            bare = traceback.format_exc().strip().splitlines()[-1][:200]
    return Found(place, name, number, points, refused, bare, round(time.monotonic() - begun, 2))


def cases(
    places: Sequence[str], methods: Sequence[str], numbers: Sequence[int], done: Path | None
) -> Iterator[Found]:
    """All cases, those that `done` holds as they are there."""
    lines = done.read_text().splitlines() if done is not None and done.exists() else []
    known = {(f.place, f.method, f.number): f for f in (Found(**json.loads(line)) for line in lines)}
    for place in places:
        for method in methods:
            for number in (None, *numbers):
                found = known.get((place, method, number))
                if found is None:
                    found = case(place, method, number)
                    if done is not None:
                        with done.open("a") as file:
                            print(json.dumps(asdict(found)), file=file)
                yield found


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", default=",".join(KINDS))
    parser.add_argument("--places", default=",".join(MAKE))
    parser.add_argument("--values", type=int, default=len(VALUES), help="forged values to try, spread evenly")
    parser.add_argument("--done", type=Path, help="a file that keeps what is done")
    options = parser.parse_args()
    numbers = np.unique(np.linspace(0, len(VALUES) - 1, options.values).round().astype(int)).tolist()
    found: list[Found] = []
    for one in cases(options.places.split(","), options.methods.split(","), numbers, options.done):
        found.append(one)
        if one.number == numbers[-1]:
            spent = sum(o.seconds for o in found if (o.place, o.method) == (one.place, one.method))
            print(f"{one.place} {one.method}: {spent:.0f} s", file=sys.stderr, flush=True)
    return judged(found)


def judged(found: Sequence[Found]) -> int:
    """Print what was found; 1 where a limit is missed."""
    alone = {(one.place, one.method): one for one in found if one.number is None}
    forged = [one for one in found if one.number is not None]
    lost = {
        one: honest.points - one.points
        for one in forged
        if (honest := alone[one.place, one.method]).points is not None and one.points is not None
    }
    print("| place | method | cases | within a point | worst | did not end | bare |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (place, method), honest in alone.items():
        own = [one for one in forged if (one.place, one.method) == (place, method)]
        if honest.points is None:
            print(f"| {place} | {method} | the honest alone: {honest.refused or honest.bare} | | | | |")
            continue
        worst = max((lost[one] for one in own if one in lost), default=math.nan)
        inside = sum(lost.get(one, math.inf) <= WITHIN for one in own)
        ended, bare = (sum(bool(getattr(one, name)) for one in own) for name in ("refused", "bare"))
        print(f"| {place} | {method} | {len(own)} | {inside} | {worst:.1f} | {ended} | {bare} |")
    for one in sorted(forged, key=lambda one: -lost.get(one, math.inf)):
        said = one.bare or one.refused or f"{lost[one]:.2f} points"
        if lost.get(one, math.inf) > WITHIN:
            print(f"- {one.place} {one.method} {one.lie}: {said}")
    bare, ended = (sum(bool(getattr(one, name)) for one in found) for name in ("bare", "refused"))
    near = sum(points <= WITHIN for points in lost.values())
    share, minutes = near / max(1, len(forged)), sum(one.seconds for one in found) / 60
    print(
        f"\n{len(forged)} cases in {minutes:.1f} min: {bare} bare exceptions, {ended} that did not end, "
        f"{share:.1%} within {WITHIN:g} point of the honest clients' choice (at least {SHARE:.0%})"
    )
    return int(bare > 0 or ended > 0 or share < SHARE)


if __name__ == "__main__":
    sys.exit(main())
