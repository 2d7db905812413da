"""Whether tuning was worth it: the one answer that result, terminal, report, page and comparison give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedhpo.core.significance import level_of, p_value

Kind = Literal["improved", "not certain", "no improvement", "not known"]


@dataclass(frozen=True)
class Verdict:
    """What came of tuning, against the user's own config (trial 0).

    `kind` is "improved" only where a one-sided test at 5% says so. `use` is the config to deploy: "own" where
    the own config was trained as long as the winner and is at least as good, or is the winner itself; "tuned"
    otherwise. `text` says it in a sentence.
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
    'not certain: +0.0100 ± 0.0200 over your own config (trial 0), both at round 40 (p = 0.31)'
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
    kept = _keeps_more(result)
    value = _number(gain and gain["value"])
    if gain is None or value is None:
        why = "your own config (trial 0) was not scored beside the winner"
        text = f"not known: {why}; baseline = true has it trained and scored"
        return Verdict("not known", "tuned", f"{kept}{text}")
    error = _number(gain["standard_error"])
    figures = f"{_signed(value)}{'' if error is None else f' ± {error:.4f}'}"
    where = f"both at round {gain['round']}"
    if value <= 0 and not kept:
        text = f"no improvement: keep your config (trial 0); the tuned one gains {figures}, {where}"
        if gain["round"] == best["rounds"]:
            return Verdict("no improvement", "own", text)
        return Verdict(
            "no improvement", "tuned", f"{text} of {best['rounds']}; baseline = true trains yours too"
        )
    over = f"{figures} over your own config (trial 0), {where}"
    p, level = _tested(result, gain)
    if p is not None and p <= level:
        return Verdict("improved", "tuned", f"{kept}{over}{_same_clients(gain)}")
    doubt = _doubt(gain, error, p, level)
    return Verdict("not certain", "tuned", f"{kept}not certain: {over}{doubt}")


def _keeps_more(result: Mapping[str, Any]) -> str:
    """That the tuned config keeps constraints which the own one breaks: a reason to use it, and no test."""
    broken = result["trials"] and result["trials"][0].get("violation")
    if not broken or result["best"].get("violation"):
        return ""
    return "your own config (trial 0) breaks a constraint, the tuned one keeps them all; "


def _tested(result: Mapping[str, Any], gain: Mapping[str, Any]) -> tuple[float | None, float]:
    """The p-value of a gain and what it must not exceed.

    Results of versions that had no test are tested here; private ones of that time cannot be, as the noise
    that chose the winner is part of its score.
    """
    if "level" in gain:
        return _number(gain["p_value"]), gain["level"]
    counts = [len(result["trials"]), *(result.get("tried") or {}).values()]
    level, error = level_of(max(counts) - 1), _number(gain["standard_error"])
    if result.get("privacy") is not None or error is None:
        return None, level
    return p_value(gain["value"], error, gain["clients"]), level


def _doubt(gain: Mapping[str, Any], error: float | None, p: float | None, level: float) -> str:
    """Why a gain is not certain."""
    if error is None:
        return "; its standard error is not known"
    if p is None:
        why = "too few clients" if gain["clients"] < 2 else "the scores that chose the winner cannot"
        return f"; {why} test it"
    if gain.get("fresh", True) or gain.get("rivals", 1) < 2:
        return f" (p = {p:.2g}){_same_clients(gain)}"
    said = f"as the same clients chose the winner from {gain['rivals']} configs"
    return f" (p = {p:.2g}; certain up to {level:.2g}, {said})"


def _same_clients(gain: Mapping[str, Any]) -> str:
    """Said of private runs, whose clients are otherwise held out of the search."""
    private = gain.get("clip") is not None
    return "; the choice used the same clients" if private and not gain["fresh"] else ""


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
