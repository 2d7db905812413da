"""What the arguments of commands may be; our own commands share it with those of other packages."""

from __future__ import annotations

import argparse
from typing import Any


def add_output(one: argparse.ArgumentParser, kind: str, **more: Any) -> None:
    """Where a command writes what it makes: one word everywhere. `--out` is what it was called before."""
    one.add_argument("--output", metavar=kind, **more)
    one.add_argument("--out", dest="output", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def clients(text: str) -> int | float:
    """A number of clients, or a share of them."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"must be a number of clients or a share in (0, 1], not {text!r}")
    return share


def epsilon(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return value


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, not {text!r}")
    return value
