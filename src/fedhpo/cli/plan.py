"""`fedhpo plan`: how long a study will take, before it is run."""

from __future__ import annotations

import argparse

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Go through the study on its clients' clock, without training."""
    from fedhpo.pages.numbers import duration, megabytes, whole
    from fedhpo.study import Study
    from fedhpo.study.outlook import CLOCK

    study = Study.load(options.study)
    plan = study.plan(options.draws)
    if options.json:
        unknown = {} if study.fleet is not None else dict.fromkeys(CLOCK)
        print_json({**plan.to_dict(), **unknown})
        return OK
    least, most = min(plan.seconds), max(plan.seconds)
    others = [f"{share:.1%} {kind}" for kind, share in plan.replies.items() if kind != "ok"]
    clock = study.fleet is not None
    nobody = "not known: [federation] says how fast clients are; time on this machine: fedhpo check"
    range_ = f"{duration(plan.mean)} ({duration(least)} to {duration(most)} in {options.draws} draws)"
    rows = [
        ("wall time", range_ if clock else nobody),
        ("rounds", whole(plan.rounds) + (f", {duration(plan.round_seconds)} each" if clock else "")),
        ("client-rounds", whole(plan.client_rounds)),
        ("replies", ", ".join([f"{plan.replies.get('ok', 0):.1%} in time", *others])),
        ("sent to clients", megabytes(plan.bytes_down)),
        ("sent to the server", megabytes(plan.bytes_up)),
    ]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {words}" for name, words in rows))
    return OK
