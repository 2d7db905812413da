"""What privacy was promised, what it cost, and what it does not cover."""

from __future__ import annotations

from fedhpo.pages.html import Section, facts, text
from fedhpo.pages.numbers import number, whole
from fedhpo.report.view import RunView


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
    ]
    if rounds := found.get("rounds"):
        heard = f"one client in at most {whole(rounds['most'])} of {whole(rounds['planned'])}"
        rows.insert(
            2, ("inside rounds", f"noisy sums by arm in {whole(rounds['releases'])} releases; {heard}")
        )
    covers = f"Epsilon covers {found['covers']}."
    return Section("Privacy", f"{facts(rows)}<p class=note>{text(covers)}</p>")
