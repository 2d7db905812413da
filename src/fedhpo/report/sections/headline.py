"""The result: what was found, what it is worth, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section, facts, text
from fedhpo.pages.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.pages.phrasing import best_of_noisy, metric_in_words, rounds_of, test_score
from fedhpo.protocol.objective import scored_as
from fedhpo.search.verdict import verdict_of


def headline(view: RunView) -> Section:
    """The verdict in words, four figures, and the tuned config."""
    result, best = view.result, view.result["best"]
    if best is None:
        return Section("Result", f"<p class=answer>{text(answer(view))}</p>")
    metric = metric_in_words(result["objective"])
    cards = [
        _card(
            f"{scored_as(result['objective']).capitalize()} {metric}",
            score(best["validation"]["value"]),
            _validated(view),
        )
    ]
    if best["test"] is not None:
        name, value = test_score(view.metric, best["test"])
        note = f"at {best['test']['clients']} clients; never selected on"
        cards.append(_card(f"Test {name}", score(value), note))
    gain, verdict = result["gain"], verdict_of(result)
    known = gain is not None and gain["value"] is not None and best["trial"] != view.own
    cards.append(_card("Gain over your config", signed(gain["value"]) if known else "–", _gained(view)))
    cost = result["cost"]
    searched, own = rounds_of(cost)
    traffic = f"{megabytes(cost['bytes_down'])} down, {megabytes(cost['bytes_up'])} up"
    more = f"; {whole(own)} more for your own config" if own else ""
    spent = f"of {whole(cost['budget']['rounds'])}{more}; {traffic}; "
    spent += duration(result["times"]["wall_seconds"])
    cards.append(_card("Rounds spent", whole(searched), spent))
    said = f"<p class=answer>{text(answer(view))}</p>"
    more = verdict.text.removeprefix("no improvement: keep your config (trial 0)").lstrip(";, ")
    if verdict.kind != "improved" and more and result["status"] != "running":
        said += f"<p class=verdict>{text(more[:1].upper() + more[1:])}.</p>"
    config = _config("Tuned config", f"trial {best['trial']}, {best['rounds']} rounds", best["config"])
    if verdict.use == "own" and result.get("baseline") and best["trial"] != view.own:
        config = _config("Config to use", "your own", result["baseline"]["config"]) + config
    return Section("Result", f"{said}<div class=cards>{''.join(cards)}</div>\n{config}")


def answer(view: RunView) -> str:
    """What came of it in one sentence: the gain, how certain it is, and what it took."""
    result = view.result
    searched, own = rounds_of(result["cost"])
    spent = f"{whole(searched + own)} rounds, {megabytes(_traffic(result['cost']))}"
    if result["best"] is None:
        return f"No trial was scored yet; {spent}."
    verdict, gain = verdict_of(result), (result["gain"] or {}).get("value")
    if verdict.kind == "no improvement":
        return f"No improvement: keep your config; {spent}."
    if verdict.kind == "not known" or gain is None:
        leading = f"Trial {result['best']['trial']} leads with {score(result['best']['validation']['value'])}"
        if result["status"] == "running":
            return f"{leading} so far; {spent}."
        return f"{leading}; what it gains over your own config is not known; {spent}."
    certain = "certain" if verdict.kind == "improved" else "not certain"
    return f"{gained(gain, view.metric)} over your own config, {certain}; {spent}."


def gained(value: float, metric: str) -> str:
    """A gain as people say it: shares in points of a hundred, losses as they are.

    >>> gained(0.271, "accuracy"), gained(0.02, "loss")
    ('+27.1 points', '0.0200 less loss')
    """
    if metric == "loss":
        return f"{abs(value):.4f} {'less' if value >= 0 else 'more'} loss"
    points = f"{100 * value:+.1f}".replace("-", "−")
    return f"{points} points"


def _traffic(cost: Mapping[str, Any]) -> float:
    return float(cost["bytes_down"] + cost["bytes_up"])


def _config(title: str, note: str, config: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(f"{scope}.{k}", number(v)) for scope, values in config.items() for k, v in values.items()]
    return f"<h3>{title} <span>{note}</span></h3>{facts(rows)}"


def _card(name: str, value: str, note: str) -> str:
    inner = f"<div>{text(name)}</div><strong>{text(value)}</strong><small>{text(note)}</small>"
    return f"<div class=card>{inner}</div>"


def _validated(view: RunView) -> str:
    validation = view.result["best"]["validation"]
    error, clients = validation["standard_error"], validation["clients"]
    spread = f"± {score(error)} " if error else ""
    if "from" in view.result["objective"]:
        return f"round {validation['round']}; {view.result['objective']['metric_is']}"
    where = f"{spread}at {clients} clients, " if clients else ""
    flattered = "; the best of noisy scores" if best_of_noisy(view.result, view.result["best"]) else ""
    return f"{where}round {validation['round']}{flattered}"


def _gained(view: RunView) -> str:
    gain, kind = view.result["gain"], verdict_of(view.result).kind
    if gain is None or gain["value"] is None or view.winner == view.own:
        return kind
    error = gain["standard_error"]
    spread = f"± {score(error)} standard error, " if error is not None else ""
    doubt = f"{kind}; " if kind != "improved" else ""
    return f"{doubt}{spread}both at round {gain['round']}, {gain['clients']} clients"
