"""`fedhpo verify`: is a candidate better than the base?"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedhpo.cli.arguments import add_output, natural, positive
from fedhpo.cli.output import print_json
from fedhpo.cli.tune import note


def add(one: argparse.ArgumentParser) -> None:
    """The command's options."""
    kinds = 'a study file, a run, a Flower app, an NVFlare job ("job --epochs 2"), or package.module:function'
    one.add_argument("base", metavar="BASE", help=kinds)
    one.add_argument(
        "candidates", metavar="CANDIDATE", nargs="*", help="the same; judged one after the other"
    )
    one.add_argument(
        "--campaign",
        metavar="FILE",
        help="remembers every comparison; called again, it goes on (default: runs/verify-BASE.campaign)",
    )
    one.add_argument(
        "--proposals",
        type=positive,
        metavar="M",
        help="proposals of the whole campaign (default: without end)",
    )
    one.add_argument(
        "--alpha", type=float, metavar="A", help="chance of any false keep in the campaign (default: 0.05)"
    )
    one.add_argument(
        "--least",
        type=float,
        metavar="D",
        help="improvement worth having, in the metric's unit (default: 0.01)",
    )
    one.add_argument("--pairs", type=positive, metavar="N", help="pairs at most for a proposal (default: 24)")
    one.add_argument("--after", type=positive, metavar="N", help="pairs after a keep (default: 6)")
    one.add_argument("--seed", type=natural, metavar="S", help="from which all seeds follow (default: 0)")
    one.add_argument(
        "--equal", choices=["bytes"], help="refuse a candidate that moves over 1.02 times the bytes"
    )
    one.add_argument(
        "--control",
        nargs="?",
        const="spent",
        metavar="ROUNDS",
        help="compare with the base tuned for so many rounds too; without a number, for those of the "
        "candidate's run",
    )
    one.add_argument(
        "--tuned", action="append", default=[], metavar="RUN", help="a run whose clients have been tuned on"
    )
    one.add_argument("--final", action="store_true", help="judge the last base once, and end the campaign")
    one.add_argument("--metric", metavar="NAME", help="of apps, jobs and functions (default: accuracy)")
    one.add_argument("--direction", choices=["maximize", "minimize"], help="of that metric")
    one.add_argument("--clients", type=positive, metavar="N", help="of apps and jobs that do not say it")
    one.add_argument("--rounds", type=positive, metavar="N", help="of apps and jobs that do not say it")
    one.add_argument("--cohort", type=positive, metavar="N", help="of apps that do not say it")
    one.add_argument("--setup", metavar="NAME", help="package.module:function, called before an app or job")
    one.add_argument(
        "--from",
        dest="source",
        choices=["clients", "server", "training"],
        help="whose score of an app or job",
    )
    one.add_argument(
        "--trained",
        action="store_true",
        help="a job's replies score what a site trained, not what it received",
    )
    add_output(one, "FILE", help="the campaign's page (default: the campaign's name, with .html)")
    one.add_argument("--workers", type=natural, metavar="N", help="worker processes (default: one per core)")
    one.add_argument("--checked", action="append", default=[], help=argparse.SUPPRESS)
    one.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Verify, write the page, say what came of it."""
    from fedhpo.core.errors import InputError
    from fedhpo.pages.numbers import finite
    from fedhpo.referee.verify import verify
    from fedhpo.study.unchanged import Checked

    control = options.control
    if control not in (None, "spent"):
        if not control.isascii() or not control.isdigit() or int(control) < 1:
            raise InputError(f"--control {control}: must be a number of rounds; put it behind the candidates")
        control = int(control)
    plain = "-".join(options.base.replace(":", "-").split())
    stem = Path(plain).name.removesuffix(".toml").removesuffix(".py")
    campaign = Path(options.campaign or Path("runs") / f"verify-{stem}.campaign")
    page = Path(options.output or campaign.with_suffix(".html"))
    names = ("proposals", "alpha", "least", "pairs", "after", "seed", "equal", "tuned", "final", "metric")
    more = ("direction", "clients", "rounds", "cohort", "setup", "source", "trained", "workers")
    sides: list[Any] = [options.base, *options.candidates]
    if options.checked:
        sides = [Checked(*pair) for pair in zip(sides, options.checked, strict=True)]
    with _terminated():
        found = verify(
            *sides,
            campaign=campaign,
            control=control,
            report=page,
            say=(lambda text: None) if options.quiet else note,
            **{name: getattr(options, name) for name in (*names, *more)},
        )
    if options.json:
        print_json(finite({**found.to_dict(), "report": str(page), "code": found.code}))
    else:
        print(found)
        print(page)
    return found.code


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends the sides' processes too, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
