"""Full disks, kills, changed ledgers, copied runs: is every private release paid for?

    python benchmarks/ledger.py [--faults 1000] [--seed 0] [--only WORD]

Each fault gets a world of its own: a ledger, a private run of four releases, a witness. An oracle outside of
it notes every draw of noise. Afterwards no more releases may have been drawn than the ledger has lines for,
no client may have given more epsilon than the ledger says, and nobody more than the total. A run that an
honest user may have (after a full disk, a kill, a move) must go on. Exit code 1 if a release was not charged,
a run is stuck, a process ended in anything but an error of fedhpo, or Ctrl-C came before the last fault. At
the end stands what cannot be noticed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from ledger_parts.faults import FAULTS, Broken
from ledger_parts.world import FINISHED, Oracle, World, place, started

NOT_NOTICED = (
    "the ledger, its witness and the run put back together to one earlier moment (shown below)",
    "the ledger and its witness both gone or put back, where only new runs begin: their runs would notice",
    "copies of a run that draws on no ledger: such a run says so",
    "copies of a run of 0.2.0 from before it or its ledger was used with this version",
    "a second computer or user with a copy of the ledger from before, until a run comes back from there",
)


def main() -> int:
    """Do so many faults, and print what came of them."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--faults", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="faults whose name has this word")
    given = options.parse_args()
    names = [name for name, (_, times) in FAULTS.items() for _ in range(times) if given.only in name]
    Oracle.watch()
    begun = time.monotonic()
    found: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    drawn = charged = 0
    with place() as folder:
        worlds = started(folder)
        turns: Counter[str] = Counter()
        for number in range(given.faults):
            if number % 50 == 0:
                print(f"{number} faults, {len(wrong)} wrong", *wrong[:3], file=sys.stderr, flush=True)
            name = names[number % len(names)]
            fault, rng = FAULTS[name][0], Random(f"{given.seed} {number}")
            world = worlds[turns[name] % len(worlds)].copy(folder / f"w{number}")
            try:
                end = fault(world, rng, turns[name])
            except Broken as error:
                end = f"stuck: {error}"
            except KeyboardInterrupt:
                wrong.append(f"interrupted after {number} faults")
                break
            turns[name] += 1
            found[name][end.split(":")[0]] += 1
            uncharged = world.uncharged()
            found[name]["uncharged"] += len(uncharged)
            wrong += [f"fault {number}, {name}: {one}" for one in uncharged]
            wrong += [f"fault {number}, {name}: {end}"] if end.startswith("stuck") else []
            drawn += world.drawn()
            charged += sum("release" in line for line in world.lines())
            world.remove()
        unnoticed = put_back_together(folder, worlds[1])
    _print(found, drawn, charged, time.monotonic() - begun)
    for line in wrong[:20]:
        print(f"  {line}")
    print("\nWhat cannot be noticed:")
    for line in NOT_NOTICED:
        print(f"- {line}")
    print(f"  ledger, witness and run put back together: {unnoticed} releases drawn again without a word")
    return 1 if wrong else 0


def put_back_together(folder: Path, base: World) -> int:
    """The one thing that nobody can notice: how many releases are then drawn a second time."""
    world = base.copy(folder / "honest")
    kept = world.copy(folder / "kept")
    world.run()
    before = world.drawn()
    for here, there in ((kept.folder, world.folder), (kept.state, world.state)):
        shutil.rmtree(there)
        shutil.copytree(here, there)
    return world.drawn() - before if world.run().end == FINISHED else 0


def _print(found: dict[str, Counter[str]], drawn: int, charged: int, seconds: float) -> None:
    columns = ("went on", "repaid", "refused", "not permitted here", "stuck", "uncharged")
    heads = ("went on", "repaid", "refused", "not run", "stuck", "uncharged")
    print(f"{'fault':54} {'tried':>6} " + " ".join(f"{head:>9}" for head in heads))
    total: Counter[str] = Counter()
    for name, counts in found.items():
        tried = sum(counts.values()) - counts["uncharged"]
        total.update({**counts, "tried": tried})
        print(f"{name:54} {tried:6} " + " ".join(f"{counts[column]:9}" for column in columns))
    print(f"{'in all':54} {total['tried']:6} " + " ".join(f"{total[column]:9}" for column in columns))
    print(
        f"releases drawn {drawn}, charged {charged}, uncharged {total['uncharged']}, "
        f"refused {total['refused']}, repaid {total['repaid']}; {seconds / 60:.1f} minutes"
    )


if __name__ == "__main__":
    sys.exit(main())
