"""The four questions that a page answers first: is it better, how sure, what did it cost, stop now?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.html import text
from fedhpo.pages.numbers import duration, megabytes, whole
from fedhpo.pages.phrasing import rounds_of
from fedhpo.report.outlook import Outlook, outlook
from fedhpo.search.verdict import verdict_of

#: A gain that is less than this part of its own standard error is not worth the rest of a budget.
_WORTH = 1.0
#: Metrics whose differences are given in percentage points.
SHARES = ("accuracy", "error", "balanced_accuracy")


@dataclass(frozen=True)
class Answer:
    """A question, the answer in a word or a figure, and what stands behind it."""

    question: str
    answer: str
    note: str
    #: Whether it is answered: one that is not is drawn without emphasis.
    known: bool = True

    def render(self) -> str:
        """As a card."""
        inner = f"<div>{text(self.question)}</div><strong>{text(self.answer)}</strong>"
        kind = "card" if self.known else '"card unknown"'
        return f"<div class={kind}>{inner}<small>{text(self.note)}</small></div>"


def answers(view: RunView) -> list[Answer]:
    """All four, in order."""
    return [_better(view), _sure(view), _cost(view), _stop(view)]


def gained(value: float, metric: str, *, maximise: bool) -> str:
    """A gain as people say it: shares in points of a hundred, others as they are.

    >>> gained(0.271, "accuracy", maximise=True), gained(0.02, "loss", maximise=False)
    ('+27.1 points', '0.0200 less loss')
    """
    if metric in SHARES:
        return f"{100 * value:+.1f} points".replace("-", "−")
    return f"{abs(value):.4f} {'more' if (value >= 0) == maximise else 'less'} {metric}"


def _spread(error: float, metric: str) -> str:
    return f"± {100 * error:.1f} points" if metric in SHARES else f"± {error:.4f}"


def _known(view: RunView) -> dict[str, Any] | None:
    gain = view.result["gain"]
    return gain if gain and gain["value"] is not None and view.winner != view.own else None


def _better(view: RunView) -> Answer:
    question, verdict, gain = "Is it better?", verdict_of(view.result), _known(view)
    if view.result["best"] is None:
        return Answer(question, "Not known yet", "no trial is scored yet", known=False)
    if view.winner == view.own:
        leads = "leads so far" if _running(view) else "is the best found: keep it"
        return Answer(question, "No" if not _running(view) else "Not yet", f"your own config {leads}")
    if gain is None:
        why = (
            "compared at the end, with noise" if _private(view) else "no score in common with your config yet"
        )
        if not _running(view):
            why = "your own config was not scored beside the winner; baseline = true has it trained"
        return Answer(question, "Not known", why, known=False)
    value = gained(gain["value"], view.metric, maximise=view.maximise)
    if verdict.kind == "no improvement":
        return Answer(question, "No", f"keep your config: the tuned one has {value}")
    so_far = ", so far" if _running(view) else ""
    return Answer(question, value, f"over your own config{so_far}")


def _sure(view: RunView) -> Answer:
    question, kind, gain = "How sure?", verdict_of(view.result).kind, _known(view)
    if gain is None:
        return Answer(question, "–", "nothing to compare yet" if _running(view) else "there is no comparison")
    error, best = gain["standard_error"], view.result["best"]
    words = {"improved": "Beyond chance", "not certain": "Not certain", "no improvement": "No gain seen"}
    where = _at(view, gain)
    if gain["round"] != best["rounds"]:
        where += f", both at round {gain['round']}"
    spread = (
        "its standard error is not known"
        if error is None
        else f"{_spread(error, view.metric)} (standard error)"
    )
    level = ""
    if kind != "no improvement" and gain.get("p_value") is not None:
        level = "; p < 0.001" if gain["p_value"] < 1e-3 else f"; p = {gain['p_value']:.2g}"
    return Answer(question, words.get(kind, "–"), f"{spread}{where}{level}")


def _at(view: RunView, gain: dict[str, Any]) -> str:
    known = (view.facts.get("federation") or {}).get("clients")
    return " at all clients" if gain["clients"] == known else f" at {whole(gain['clients'])} clients"


def _cost(view: RunView) -> Answer:
    cost = view.result["cost"]
    searched, own = rounds_of(cost)
    total = float(cost["budget"]["rounds"])
    spent = whole(searched) if searched == total else f"{whole(searched)} of {whole(total)}"
    traffic = megabytes(float(cost["bytes_down"] + cost["bytes_up"]))
    more = [f"{whole(own)} more for your config"] if own else []
    trials = f"{whole(len(view.trials))} trials"
    seconds = duration(view.result["times"]["wall_seconds"])
    return Answer("What did it cost?", f"{spent} rounds", "; ".join([*more, trials, traffic, seconds]))


def _stop(view: RunView) -> Answer:
    question = "Stop now?"
    if not _running(view):
        return Answer(question, *_over(view, outlook(view, more=1.0)))
    if view.result["best"] is None:
        return Answer(question, "Too early", "no trial is scored yet")
    return Answer(question, *_decided(view, outlook(view)))


def _decided(view: RunView, seen: Outlook) -> tuple[str, str]:
    """Whether to go on, and what speaks for it."""
    gain, full = _known(view), view.asked["budget"]["rounds"]
    if view.result["best"]["rounds"] < full:
        return "Go on", "the leader is not trained to the end"
    if seen.chance is None:
        if seen.rivals:
            return "Go on", f"trials that still train and are as good: {seen.rivals}"
        return "You may", "no trial that still trains is as good as the leader"
    said = f"a better config may come with a chance of {seen.chance:.0%}"
    if seen.gain is None:
        return ("Go on" if seen.chance > 0.1 else "You may"), said
    error = (gain or {}).get("standard_error") or 0.0
    worth = seen.gain > _WORTH * error if error else seen.chance > 0.1
    more = f"{said}; about {gained(seen.gain, view.metric, maximise=view.maximise)} more"
    return ("Go on" if worth else "You may"), more


def _over(view: RunView, seen: Outlook) -> tuple[str, str]:
    """Of a run that is over: what as much search again may bring."""
    word = "Stopped" if view.result["status"] == "stopped" else "Finished"
    if seen.gain is None:
        return word, "what more search would bring cannot be told from these scores"
    return word, f"as much search again: about {gained(seen.gain, view.metric, maximise=view.maximise)} more"


def _running(view: RunView) -> bool:
    return bool(view.result["status"] == "running")


def _private(view: RunView) -> bool:
    return bool((view.result.get("evaluation") or {}).get("privacy"))
