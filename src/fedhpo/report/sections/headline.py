"""The result: what was found, what it is worth, what it cost."""

from __future__ import annotations

from fedhpo.report.html import Section, facts, text
from fedhpo.report.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.report.sections.cost import tuning_rounds
from fedhpo.report.view import RunView
from fedhpo.report.words import gain_in_words, test_score


def headline(view: RunView) -> Section:
    """Four figures, and the tuned config."""
    result, best = view.result, view.result["best"]
    if best is None:
        return Section("Result", "<p>No trial was scored yet.</p>")
    cards = [_card(f"Validation {view.metric}", score(best["validation"]["value"]), _validated(view))]
    if best["test"] is not None:
        name, value = test_score(view.metric, best["test"])
        note = f"at {best['test']['clients']} clients; never selected on"
        cards.append(_card(f"Test {name}", score(value), note))
    gain = result["gain"]
    known = gain is not None and gain["value"] is not None and best["trial"] != view.own
    cards.append(_card("Gain over your config", signed(gain["value"]) if known else "–", _gained(view)))
    cost = result["cost"]
    traffic = f"{megabytes(cost['bytes_down'])} down, {megabytes(cost['bytes_up'])} up"
    spent = f"of {whole(cost['budget']['rounds'])}; {traffic}; {duration(result['times']['wall_seconds'])}"
    cards.append(_card("Rounds spent", whole(tuning_rounds(cost)), spent))
    rows = [
        (f"{scope}.{k}", number(v)) for scope, values in best["config"].items() for k, v in values.items()
    ]
    config = f"<h3>Tuned config <span>trial {best['trial']}, {best['rounds']} rounds</span></h3>{facts(rows)}"
    return Section("Result", f"<div class=cards>{''.join(cards)}</div>\n{config}")


def _card(name: str, value: str, note: str) -> str:
    inner = f"<div>{text(name)}</div><strong>{text(value)}</strong><small>{text(note)}</small>"
    return f"<div class=card>{inner}</div>"


def _validated(view: RunView) -> str:
    validation = view.result["best"]["validation"]
    error, clients = validation["standard_error"], validation["clients"]
    spread = f"± {score(error)} " if error else ""
    return (
        f"{spread}at {clients} clients, round {validation['round']}"
        if clients
        else f"round {validation['round']}"
    )


def _gained(view: RunView) -> str:
    gain = view.result["gain"]
    if gain is None or gain["value"] is None or view.winner == view.own:
        return gain_in_words(view.result)
    error = gain["standard_error"]
    spread = f"± {score(error)} standard error, " if error is not None else ""
    return f"{spread}both at round {gain['round']}, same {gain['clients']} clients"
