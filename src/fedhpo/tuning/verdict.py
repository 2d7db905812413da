"""Whether tuning was worth it: the one answer that result, terminal, report and comparison give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: A gain of so many standard errors is called certain; chance alone reaches it about once in 40 times.
CERTAIN = 2.0

Kind = Literal["improved", "not certain", "no improvement", "not known"]


@dataclass(frozen=True)
class Verdict:
    """What came of tuning, against the user's own config (trial 0).

    `use` is the config to deploy: "own" where the own config was trained as long as the winner and is at
    least as good, or is the winner itself; "tuned" otherwise. `text` says it in a sentence.
    """

    kind: Kind
    use: Literal["own", "tuned"]
    text: str

    @property
    def improved(self) -> bool | None:
        """True or False where that is certain, else None."""
        return {"improved": True, "no improvement": False}.get(self.kind)

    def to_dict(self) -> dict[str, Any]:
        """For result.json."""
        return {"kind": self.kind, "improved": self.improved, "use": self.use, "text": self.text}


def verdict_of(result: Mapping[str, Any]) -> Verdict:
    """The verdict on what result.json holds.

    >>> trials = [{"trial": 0}, {"trial": 1}]
    >>> best = {"trial": 1, "rounds": 40}
    >>> gain = {"value": 0.01, "standard_error": 0.02, "clients": 50, "round": 40}
    >>> verdict_of({"best": best, "gain": gain, "trials": trials}).text
    'not certain: +0.0100 ± 0.0200 over your own config (trial 0), both at round 40'
    >>> gain["value"] = -0.0233
    >>> verdict_of({"best": best, "gain": gain, "trials": trials}).text
    'no improvement: keep your config (trial 0); the tuned one gains −0.0233 ± 0.0200, both at round 40'
    """
    gain, best = result["gain"], result["best"]
    if best is None:
        return Verdict("not known", "tuned", "not known: no trial was scored yet")
    replaced = bool(result["trials"] and result["trials"][0].get("path"))
    if best["trial"] == 0 and not replaced:
        return Verdict("no improvement", "own", "no improvement: keep your config (trial 0), the best found")
    if result["trials"] and result["trials"][0].get("violation") and not best.get("violation"):
        text = "your own config (trial 0) breaks a constraint, the tuned one keeps them all"
        return Verdict("improved", "tuned", text)
    value = _number(gain and gain["value"])
    if gain is None or value is None:
        why = "your own config (trial 0) was not scored beside the winner"
        return Verdict("not known", "tuned", f"not known: {why}; baseline = true has it trained and scored")
    error = _number(gain["standard_error"])
    figures = f"{_signed(value)}{'' if error is None else f' ± {error:.4f}'}"
    where = f"both at round {gain['round']}"
    if value <= 0:
        text = f"no improvement: keep your config (trial 0); the tuned one gains {figures}, {where}"
        if gain["round"] == best["rounds"]:
            return Verdict("no improvement", "own", text)
        return Verdict(
            "no improvement", "tuned", f"{text} of {best['rounds']}; baseline = true trains yours too"
        )
    over = f"{figures} over your own config (trial 0), {where}"
    if error is None:
        return Verdict("not certain", "tuned", f"not certain: {over}; its standard error is not known")
    if value < CERTAIN * error:
        return Verdict("not certain", "tuned", f"not certain: {over}")
    return Verdict("improved", "tuned", over)


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
