"""What privacy was promised, what it cost, and what it does not cover."""

from __future__ import annotations

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section, facts, text
from fedhpo.pages.numbers import number, whole


def privacy(view: RunView) -> Section | None:
    """The guarantee in figures and words; None where scores were not private."""
    found = view.result.get("privacy")
    if not found:
        return None
    rows = [
        ("epsilon", f"{number(found['epsilon_spent'])} of {number(found['epsilon'])}"),
        ("releases planned", whole(found["evaluations"])),
        ("mechanism", found["mechanism"]),
        ("noise", found["noise"]),
        ("accounting", found["accounting"]),
        *_by_client(view),
        *_compared(view),
    ]
    if rounds := found.get("rounds"):
        heard = f"one client in at most {whole(rounds['most'])} of {whole(rounds['planned'])}"
        rows.insert(
            2, ("inside rounds", f"noisy sums by arm in {whole(rounds['releases'])} releases; {heard}")
        )
    notes = [f"Epsilon covers {found['covers']}."]
    if copies := found.get("copies"):
        notes.append(f"Copies: {copies}.")
    said = "".join(f"<p class=note>{text(note)}</p>" for note in notes)
    return Section("Privacy", facts(rows) + said)


def _compared(view: RunView) -> list[tuple[str, str]]:
    """Who compared the winner with the user's own config, and what of epsilon that took."""
    plan = view.result["privacy"].get("comparison")
    if not plan:
        return []
    count = whole(len(plan["clients"]))
    if not plan["released"]:
        kept = f"{count} clients" if plan["held_out"] else f"epsilon {number(plan['epsilon'])}"
        return [("comparison", f"none: {kept} kept for it, and the winner had nothing to be compared with")]
    who = "held out of the search" if plan["held_out"] else "the same that chose the winner"
    figures = f"epsilon {number(plan['epsilon'])}, differences clipped to ±{number(plan['clip'])}"
    return [("comparison", f"{count} clients, {who}; {figures}")]


def _by_client(view: RunView) -> list[tuple[str, str]]:
    """The client that spent most, in this run and, where a budget is shared, in all of them."""
    found = view.result["privacy"]
    rows: list[tuple[str, str]] = []
    if clients := found.get("clients"):
        most, planned = clients["most"], max(1, clients["planned"] or 1)
        compared = found.get("comparison") or {}
        spent = compared.get("search_epsilon", found["epsilon"]) * most / planned
        share = "" if found["accounting"] == "pld" else f", epsilon {number(spent)}"
        parts = f"{whole(most)} of at most {whole(planned)}"
        if clients["client"] is not None:
            names = view.result.get("client_names")
            who = names[clients["client"]] if names else clients["client"]
            rows.append(("most asked", f"client {who}: part of {parts} releases{share}"))
    if over := found.get("over_runs"):
        who = "every client" if over["client"] is None else f"client {over['client']}"
        spent = f"{number(over['spent'])} of {number(over['total'])}"
        if again := over.get("paid_again"):
            spent += f" ({number(again)} for releases of this run that were paid again)"
        rows.append(("over all runs", f"{who} has spent {spent}, in {whole(over['runs'])} runs"))
    return rows
