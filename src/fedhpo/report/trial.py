"""One trial of a run: its config, its curves, its clients' scores, where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo import figures
from fedhpo.core.errors import InputError, NothingToDrawError
from fedhpo.figures.clients import known_clients
from fedhpo.figures.view import RunView
from fedhpo.pages.configs import flat
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, facts, table, text
from fedhpo.pages.numbers import number, score, whole

_CURVE = "Points are evaluations of this trial; the thin line is what the cohort of each round saw."
_CLIENTS = "Read it as: this share of the clients has at most this score, at the trial's last evaluation."


def trial_sections(view: RunView, number: int) -> list[Section]:
    """The parts of the page of one trial."""
    found = [trial for trial in view.result["trials"] if trial["trial"] == number]
    if not found:
        raise InputError(f"trial = {number}: run {view.name} has no such trial")
    trial = found[0]
    made = [_summary(view, trial), _curve(view, number), _clients(view, number), _lineage(view, trial)]
    return [section for section in made if section is not None]


def _summary(view: RunView, trial: Mapping[str, Any]) -> Section:
    roles = [
        word
        for word, of in (("leads the run", view.winner), ("your own config", view.own))
        if of == trial["trial"]
    ]
    value, error = trial["score"], trial["standard_error"]
    spread_of = f" ± {score(error)}" if error else ""
    said = f"{view.metric} {score(value)}{spread_of} after {whole(trial['rounds'])} rounds"
    said = ", ".join([said, str(trial["status"]), *roles])
    why = f"<p class=verdict>{text(trial['reason'])}</p>" if trial["reason"] else ""
    rows = [(name, number(value)) for name, value in flat(trial["config"]).items()]
    body = f"<p class=answer>{text(said[:1].upper() + said[1:])}.</p>{why}<h3>Config</h3>{facts(rows)}"
    return Section("Summary", body)


def _curve(view: RunView, number: int) -> Section | None:
    try:
        return Section("Learning curve", drawn(figures.trial_curve(view, number), "trial-curve", _CURVE))
    except NothingToDrawError:
        return None


def _clients(view: RunView, number: int) -> Section | None:
    found = known_clients(view, number)
    if found is None:
        return None
    names = view.result.get("client_names")
    columns = ["client", view.metric]
    rows = [
        [Cell(names[client] if names else str(client), client), Cell(score(value), value)]
        for client, value in zip(found[0].tolist(), found[1].tolist(), strict=True)
    ]
    shown = drawn(figures.clients(view, [number]), "trial-clients", _CLIENTS)
    listed = table(columns, rows[:200], numeric=columns, filtered=len(rows) > 20)
    return Section("Clients' scores", f"<div class=pair>{shown}<div class=low>{listed}</div></div>")


def _lineage(view: RunView, trial: Mapping[str, Any]) -> Section | None:
    path = trial.get("path") or []
    if len(path) < 2:
        return None
    names = list(dict.fromkeys(name for step in path for name in flat(step["config"])))
    columns = ["from round", "copied from", *names]
    rows = [
        [
            Cell(str(step["round"]), step["round"]),
            Cell("began here" if step["source"] is None else f"trial {step['source']}"),
            *(Cell(number(flat(step["config"]).get(name))) for name in names),
        ]
        for step in path
    ]
    return Section("Lineage", table(columns, rows, numeric=["from round", *names]))
