"""A first study file for an app: what was found in it, with ranges that fit names and values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.inspection import Inspected, Tunable, direction_of

#: Tuned in a first study; others stand there as comments.
_FIRST = 5
_RATES = re.compile(r"(^|[-_.])(lr|eta|learning[-_]rate)([-_.]|$)|learning[-_]?rate|\blr\b", re.I)
_SIZES = re.compile(r"batch|rank|(^|[-_])r$|alpha|hidden|width|dim|filters|latent", re.I)
_BOUNDED = {
    "momentum": (0.0, 0.99),
    "dropout": (0.0, 0.5),
    "smoothing": (0.0, 0.3),
    "beta": (0.5, 0.999),
    "subsample": (0.5, 1.0),
    "gamma": (0.5, 1.0),
}


def range_for(name: str, value: Any) -> str | None:
    """A range as a table of TOML; None where none is sensible.

    >>> range_for("learning-rate", 0.1)
    '{ low = 0.001, high = 1.0, log = true }'
    >>> range_for("local-epochs", 1), range_for("batch-size", 32)
    ('{ low = 1, high = 4 }', '{ choices = [8, 16, 32, 64, 128] }')
    >>> range_for("momentum", 0.9), range_for("weight_decay", 1e-4)
    ('{ low = 0.0, high = 0.99 }', '{ low = 1e-06, high = 0.01, log = true }')
    """
    last = re.split(r"[.:]", name)[-1]
    if isinstance(value, bool):
        return "{ choices = [true, false] }"
    if _RATES.search(last) and isinstance(value, int | float):
        return _log(value or 0.01, 100, 10 if value >= 0.05 else 100)
    for word, (low, high) in _BOUNDED.items():
        if word in last.lower() and isinstance(value, int | float) and low <= value <= high:
            return f"{{ low = {low!r}, high = {high!r} }}"
    if re.search(r"decay|mu|lambda|alpha$", last, re.I) and isinstance(value, float):
        return _log(value or 1e-4, 100, 100)
    if isinstance(value, int) and value > 0:
        if _SIZES.search(last) and value >= 2:
            sizes = sorted({max(1, value // 4), max(1, value // 2), value, value * 2, value * 4})
            return f"{{ choices = {json.dumps(sizes)} }}"
        return f"{{ low = {max(1, value // 4)}, high = {value * 4} }}"
    return _log(value, 10, 10) if isinstance(value, float) and value > 0 else None


def _log(value: float, below: float, above: float) -> str:
    low, high = (float(f"{one:.3g}") for one in (value / below, value * above))
    return f"{{ low = {low!r}, high = {high!r}, log = true }}"


def first_study(app: AppFile, found: Inspected, path: str) -> str:
    """The study file of an app as a text."""
    rounds = app.config.get(app.rounds_key, 10) if app.rounds_key else 10
    head = ["[app]", f"path = {json.dumps(path)}", "clients = 10"]
    return study_text(
        "fedhpo flower inspect", head, found, [f"rounds = {min(int(rounds), 10)}", "cohort = 5"]
    )


def study_text(by: str, head: Sequence[str], found: Inspected, budget: Sequence[str]) -> str:
    """A study file as a text: at most five hyperparameters are tuned, the most telling ones."""
    ranged = [(one, table) for one in found.tunables if (table := range_for(one.name, one.value))]
    chosen = sorted(
        (pair for pair in ranged if not isinstance(pair[0].value, bool)), key=lambda pair: _order(pair[0])
    )[:_FIRST]
    lines = [f"# Written by {by}: check ranges, objective and budget before you tune.", "", *head, ""]
    for scope in ("client", "server", "model"):
        here = [(one, table) for one, table in ranged if one.scope == scope]
        if not here:
            continue
        lines.append(f"[space.{scope}]" if any(one in chosen for one in here) else f"# [space.{scope}]")
        for pair in here:
            one, table = pair
            mark = "" if pair in chosen else "# "
            lines.append(f"{mark}{_key(one.name)} = {table}  # {one.value!r} in {one.where}")
        lines.append("")
    return "\n".join([*lines, *_objective(found), "", "[budget]", *budget]) + "\n"


def _order(one: Tunable) -> tuple[int, str]:
    """Learning rates first, then local work, then the rest; the server's last."""
    words = ((_RATES, 0), (re.compile(r"epoch|step|batch", re.I), 1), (re.compile(r"decay|momentum|mu"), 2))
    place = next((rank for pattern, rank in words if pattern.search(re.split(r"[.:]", one.name)[-1])), 3)
    return (place + (4 if one.scope == "server" else 0), one.name)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else json.dumps(name)


def _objective(found: Inspected) -> Iterator[str]:
    source, metric = best_metric(found)
    yield "[objective]"
    if source is None:
        yield '# metric = "…"  # no metric was found in the app: which number does its evaluate return?'
        return
    yield f"metric = {json.dumps(metric)}  # {source}: {', '.join(found.metrics[source])}"
    yield f"direction = {json.dumps(direction_of(metric) or 'minimize')}"
    if source != "clients":
        yield f"from = {json.dumps(source)}"
    for other, names in found.metrics.items():
        if other != source:
            yield f"# from = {json.dumps(other)} has {', '.join(names)}"


def best_metric(found: Inspected) -> tuple[str | None, str]:
    """Where scores should come from: clients, else the server, else training; and a metric."""
    for source in ("clients", "server", "training"):
        names: Sequence[str] = found.metrics.get(source, ())
        known = [name for name in names if direction_of(name)]
        if known:
            losses = [name for name in known if direction_of(name) == "minimize"]
            name = (losses or known)[0].replace("*_", "val_").replace("*", "")
            return source, name
    return None, ""
