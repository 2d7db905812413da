"""Several runs on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo import figures
from fedhpo.core.errors import InputError, NothingToDrawError
from fedhpo.figures.view import RunView
from fedhpo.pages.configs import flat
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.pages.phrasing import rounds_of, test_score
from fedhpo.report.answers import SHARES, Answer
from fedhpo.report.paired import Pair, pairs_of
from fedhpo.search.verdict import verdict_of

_GAINS = "A dot is the gain over your own config, its bar two standard errors; the table has verdicts."
_NOTE = (
    "<p class=note>The leading trial is the best of those trained longest. "
    "A cross marks a score below the previous one.</p>"
)


def comparison(views: Sequence[RunView]) -> list[Section]:
    """Results side by side, incumbents against the budget, and the tuned configs."""
    first = views[0]
    for view in views:
        if view.metric != first.metric:
            raise InputError(
                f"runs to compare must have one objective: {first.name} has {first.metric}, "
                f"{view.name} has {view.metric}"
            )
    curves = drawn(figures.leading(views), "incumbents", "At equal rounds: over all trials of the search.")
    curves += drawn(figures.leading(views, "bytes"), "traffic", "At equal bytes: sent to clients and back.")
    try:
        gained: Section | None = Section("Gains", drawn(figures.gains(views), "gains", _GAINS))
    except NothingToDrawError:
        gained = None
    made = [
        verdict(views),
        Section("Tuned configs", _configs(views)),
        Section("Score of the leading trial", f"<div class=pair>{curves}</div>{_NOTE}"),
        Section("Results", _results(views)),
        gained,
    ]
    return [section for section in made if section is not None]


def _results(views: Sequence[RunView]) -> str:
    metric = f"validation {views[0].metric}"
    columns = [
        "run",
        "method",
        "seed",
        metric,
        f"test {views[0].metric}",
        "gain",
        "verdict",
        "rounds",
        "sent",
        "time",
        "status",
    ]
    rows = []
    for view in views:
        result, best, cost = view.result, view.result["best"] or {}, view.result["cost"]
        value = (best.get("validation") or {}).get("value")
        test = test_score(view.metric, best["test"])[1] if best.get("test") else None
        gain, verdict = result["gain"] or {}, verdict_of(result)
        searched, _ = rounds_of(cost)
        sent = cost["bytes_down"] + cost["bytes_up"]
        seconds = result["times"]["wall_seconds"]
        rows.append(
            [
                Cell(view.name),
                Cell(result["method"]["name"]),
                Cell(str(result["seed"]), result["seed"]),
                Cell(score(value), "" if value is None else value),
                Cell(score(test), "" if test is None else test),
                _gain(gain),
                Cell(verdict.kind if verdict.use == "tuned" else "keep your config"),
                Cell(whole(searched), searched),
                Cell(megabytes(sent), sent),
                Cell(duration(seconds), seconds),
                Cell(result["status"]),
            ]
        )
    note = "Rounds are those of the search; traffic and time are of all that was done."
    return (
        table(columns, rows, numeric=[c for c in columns[2:-1] if c != "verdict"])
        + f"<p class=note>{note}</p>"
    )


def _gain(gain: Mapping[str, Any]) -> Cell:
    value, error = gain.get("value"), gain.get("standard_error")
    if value is None:
        return Cell("–", "")
    return Cell(signed(value) + ("" if error is None else f" ± {score(error)}"), value)


def _configs(views: Sequence[RunView]) -> str:
    """What differs between the tuned configs; what does not is said once."""
    configs = [flat(view.result["best"]["config"]) if view.result["best"] else {} for view in views]
    names = list(dict.fromkeys(name for config in configs for name in config))
    differ = [name for name in names if len({str(config.get(name)) for config in configs}) > 1]
    columns = [view.name for view in views]
    rows = [[Cell(name), *(Cell(number(config.get(name))) for config in configs)] for name in differ]
    same = ", ".join(f"{name} {number(configs[0][name])}" for name in names if name not in differ)
    shown = table(["hyperparameter", *columns], rows, numeric=columns) if rows else ""
    return shown + (f"<p class=note>{text('The same in all: ' + same)}</p>" if same else "")


def verdict(views: Sequence[RunView]) -> Section:
    """Whether one run's winner is better than the others', how surely, what each cost, and which to use."""
    pairs = pairs_of(views)
    best = _best(views, pairs)
    against = [pair for pair in pairs if best in (pair.better, pair.other)]
    closest = min(against, key=lambda pair: (pair.apart, pair.value), default=None)
    apart = best is not None and all(pair.apart and pair.better is best for pair in against)
    said = f"{best.name} is better." if best is not None and apart else "The difference may be chance."
    if closest is None or closest.why:
        said = "They cannot be compared client by client."
    cards = [_which(best, apart, closest), _how_sure(closest, best), _costs(views), _use(views, best, apart)]
    body = f"<p class=answer>{text(said)}</p><div class=cards>{''.join(one.render() for one in cards)}</div>"
    return Section("Verdict", body + (_pairs(pairs) if len(pairs) > 1 else ""))


def _best(views: Sequence[RunView], pairs: Sequence[Pair]) -> RunView | None:
    """The run that no other is ahead of; None where they cannot be compared."""
    behind = [pair.other for pair in pairs if not pair.why]
    ahead = [view for view in views if not any(view is one for one in behind)]
    return ahead[0] if behind and ahead else None


def _which(best: RunView | None, apart: bool, closest: Pair | None) -> Answer:
    question = "Is it better?"
    if best is None or closest is None:
        return Answer(question, "Not known", closest.why if closest else "", known=False)
    if apart:
        return Answer(question, "Yes", f"the winner of {best.name}")
    return Answer(question, "Not surely", f"{best.name} is ahead, by no more than chance may give")


def _how_sure(closest: Pair | None, best: RunView | None) -> Answer:
    question = "How sure?"
    if closest is None or closest.why or best is None:
        return Answer(question, "–", closest.why if closest else "")
    shares = closest.better.metric in SHARES
    unit, scale, digits = (" points", 100, 1) if shares else ("", 1, 4)
    spread = "" if closest.error is None else f" ± {scale * closest.error:.{digits}f}"
    how = "client by client" if closest.paired else "by two scores"
    note = f"{closest.better.name} above {closest.other.name} at {whole(closest.clients)} clients, {how}"
    return Answer(question, f"{scale * closest.value:.{digits}f}{spread}{unit}", note)


def _costs(views: Sequence[RunView]) -> Answer:
    rounds = [rounds_of(view.result["cost"])[0] for view in views]
    sent = [
        megabytes(float(c["bytes_down"] + c["bytes_up"])) for c in (view.result["cost"] for view in views)
    ]
    return Answer("What did it cost?", _each([whole(one) for one in rounds], " rounds"), _each(sent, " sent"))


def _each(values: Sequence[str], of: str) -> str:
    """Figures of several runs; one that all share is said once.

    >>> _each(["400", "400"], " rounds"), _each(["400", "320"], " rounds")
    ('400 rounds each', '400 and 320 rounds')
    """
    return f"{values[0]}{of} each" if len(set(values)) == 1 else f"{' and '.join(values)}{of}"


def _use(views: Sequence[RunView], best: RunView | None, apart: bool) -> Answer:
    question = "Stop now?"
    running = [view.name for view in views if view.result["status"] == "running"]
    if running:
        return Answer(question, "Go on", f"still running: {', '.join(running)}")
    if best is not None and apart:
        return Answer(question, "Yes", f"use the config of {best.name}")
    if best is None:
        return Answer(question, "Not known", "their winners were not scored at the same clients", known=False)
    return Answer(question, "You may", "take either config, or compare them at more clients")


def _pairs(pairs: Sequence[Pair]) -> str:
    columns = ["ahead", "behind", "difference", "clients", "verdict"]
    rows = [
        [
            Cell(pair.better.name),
            Cell(pair.other.name),
            Cell("–", "")
            if pair.why
            else Cell(
                signed(pair.value) + ("" if pair.error is None else f" ± {score(pair.error)}"), pair.value
            ),
            Cell(whole(pair.clients), pair.clients),
            Cell(pair.why or ("better" if pair.apart else "may be chance")),
        ]
        for pair in pairs
    ]
    return table(columns, rows, numeric=["difference", "clients"])
