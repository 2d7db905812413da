"""`fedhpo mcp`: tools for coding agents, on standard input and output."""

from __future__ import annotations

import argparse

from fedhpo.cli.arguments import positive, seconds


def add(one: argparse.ArgumentParser) -> None:
    """The command's options: the limits, which no tool can raise."""
    one.add_argument(
        "--root", metavar="DIR", required=True, help="all files that tools read or write lie below it"
    )
    one.add_argument(
        "--rounds",
        type=positive,
        metavar="N",
        default=2_000,
        help="rounds of the whole session (default: 2000)",
    )
    one.add_argument(
        "--epsilon",
        type=float,
        metavar="E",
        default=0.0,
        help="privacy budget of the whole session (default: 0)",
    )
    one.add_argument(
        "--allow-code", action="store_true", help="let studies name code: package.module:Name, apps"
    )
    one.add_argument(
        "--seconds", type=seconds, metavar="S", default=3_600.0, help="of one job at most (default: 3600)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until standard input ends."""
    import math

    from fedhpo.agents.limits import Limits
    from fedhpo.agents.server import checked_root, serve
    from fedhpo.core.errors import InputError

    if options.json:
        raise InputError("--json: leave it out, standard output belongs to the protocol")
    if not 0 <= options.epsilon < math.inf:
        raise InputError(f"--epsilon {options.epsilon}: must be a number of at least 0")
    root = checked_root(options.root)
    serve(Limits(root, options.rounds, options.epsilon, options.allow_code, options.seconds))
    return 0
