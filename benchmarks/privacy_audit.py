"""Whether private mechanisms keep what they state: a lower bound of epsilon from their own draws.

    python benchmarks/privacy_audit.py [--draws 100000] [--log FILE] [--seconds N] [--only PART OF A NAME ...]

Each mechanism is run as the library runs it, so many times in either of two worlds that differ in one
client's scores as much as they may. The event that tells the worlds apart best is chosen on one half of the
draws and counted on the other; see `auditing.bound`. What was done is kept in the log and not done again.

Prints a table in Markdown. Exits with 1 if a bound is above what is stated, if a tight mechanism stays
below 0.8 of it (the audit would then be blind), or if a planted fault is not caught; with 2 while something
is left.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from auditing.bound import epsilon_at_least
from auditing.channels import CHANNELS
from auditing.faults import FAULTS as OLDER_FAULTS
from auditing.gaps import GAP_FAULTS, GAPS
from auditing.mechanisms import EPSILON, Mechanism, source
from auditing.mechanisms import MECHANISMS as OLDER

MECHANISMS, FAULTS = (*OLDER, *GAPS), (*OLDER_FAULTS, *GAP_FAULTS)

#: Of its epsilon a tight mechanism must show so much.
SEEN = 0.8


def audited(mechanism: Mechanism, draws: int, seed: int = 0) -> float:
    """What the epsilon of a mechanism is at least."""
    world, neighbour = (
        mechanism.draw(number, source(mechanism.exact, 2 * seed + number), draws) for number in (0, 1)
    )
    return epsilon_at_least(world, neighbour, mechanism.delta)


def verdict(mechanism: Mechanism, found: float) -> str:
    """ "ok", or what is wrong."""
    if mechanism in FAULTS:
        return "caught" if found > EPSILON else "NOT CAUGHT"
    if found > EPSILON:
        return "ABOVE what is stated"
    return f"BELOW {SEEN:g} of it" if mechanism.tight and found < SEEN * EPSILON else "ok"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000, help="in either world")
    parser.add_argument("--log", type=Path, default=Path("privacy_audit.jsonl"))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after so long")
    parser.add_argument("--only", nargs="+", default=[""], help="mechanisms whose names hold one of these")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    lines = options.log.read_text().splitlines() if options.log.exists() else []
    known = {(one["name"], one["draws"]): one["bound"] for one in map(json.loads, lines)}
    rows, left, wrong = [], 0, False
    for mechanism in (*MECHANISMS, *CHANNELS, *FAULTS):
        if not any(part in mechanism.name for part in options.only):
            continue
        place = mechanism.name, options.draws
        if place not in known and time.monotonic() > end:
            left += 1
            continue
        if place not in known:
            known[place] = audited(mechanism, options.draws)
            with options.log.open("a") as file:
                one = {"name": mechanism.name, "draws": options.draws, "bound": known[place]}
                file.write(json.dumps(one) + "\n")
        said = verdict(mechanism, known[place])
        wrong = wrong or said not in ("ok", "caught")
        kind = "planted fault" if mechanism in FAULTS else "tight" if mechanism.tight else ""
        rows.append(f"| {mechanism.name} | {kind} | {EPSILON:g} | {known[place]:.3f} | {said} |")
        print(rows[-1], file=sys.stderr, flush=True)
    print("| mechanism | | stated epsilon | at least | |\n| --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    if left:
        print(f"{left} mechanisms are left: call again")
    sys.exit(1 if wrong else 2 if left else 0)


if __name__ == "__main__":
    main()
