"""What the referee says of a proposal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.notebook import facts_as_html
from fedhpo.pages.numbers import megabytes, whole
from fedhpo.referee.evidence import evidence, mean_and_interval
from fedhpo.referee.rules import DROP, KEEP, UNDECIDED

#: Exit codes of the command, beside those that all commands have.
CODES = {KEEP: 0, DROP: 3, UNDECIDED: 4}
#: The difference where no pair has one.
NOTHING: Mapping[str, Any] = {"mean": None, "interval": [None, None], "pairs": 0}


@dataclass(frozen=True)
class Verdict:
    """Keep, drop or undecided, with all that was seen; `facts` is JSON-able."""

    facts: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """keep, drop or undecided."""
        return str(self.facts["verdict"])

    @property
    def kept(self) -> bool:
        """Whether the candidate is the base from here on."""
        return self.verdict == KEEP

    @property
    def difference(self) -> float:
        """How much better the candidate is, in the metric's unit; negative where it is worse."""
        value = self.facts["difference"]["mean"]
        return math.nan if value is None else float(value)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the difference."""
        low, high = self.facts["difference"]["interval"]
        return (math.nan if low is None else low, math.nan if high is None else high)

    def __str__(self) -> str:
        f = self.facts
        lines = [f"{f['verdict']}: {f['candidate']['name']} against {f['base']['name']}"]
        if f.get("failed"):
            lines.append(f"  a training of the candidate failed: {f['failed']}")
        shown = _shown(f["difference"])
        lines.append(f"  {f['metric']}: {shown} ({f['difference']['from']})")
        if f.get("tail"):
            lines.append(f"  worst tenth of clients: {_shown(f['tail'])}")
        lines.append(
            f"  evidence {f['evidence']:.3g}, kept at {f['threshold']:.4g}; {f['pairs']} pairs, "
            f"{f['trainings']} trainings"
        )
        lines += [f"  {line}" for line in _costs(f["cost"])]
        if control := f.get("control"):
            shown = _shown(control["difference"])
            lines.append(
                f"  against the base tuned for {control['rounds']} rounds: {shown}, evidence "
                f"{control['evidence']:.3g}"
            )
        lines += [f"  note: {note}" for note in f["notes"]]
        names = f["digests"]
        lines.append(
            f"  digests: base {names['base'][:12]}, candidate {names['candidate'][:12]}, data "
            f"{(names['data'] or 'unknown')[:12]}"
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return facts_as_html(str(self).splitlines()[0], {"details": str(self)})


@dataclass(frozen=True)
class Verification:
    """What `fedhpo.verify` gives: a verdict for each candidate, in order, and the campaign's state."""

    verdicts: Sequence[Verdict]
    base: Mapping[str, Any]
    campaign: Path | None
    final: Mapping[str, Any] | None = None

    @property
    def kept(self) -> bool:
        """Whether any candidate was kept."""
        return any(one.kept for one in self.verdicts)

    @property
    def code(self) -> int:
        """The exit code: 0 if a candidate was kept, 4 if one is undecided and none was kept, else 3."""
        said = {one.verdict for one in self.verdicts}
        if KEEP in said or not said:
            return CODES[KEEP]
        return CODES[UNDECIDED] if UNDECIDED in said else CODES[DROP]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "verdicts": [dict(one.facts) for one in self.verdicts],
            "base": dict(self.base),
            "campaign": None if self.campaign is None else str(self.campaign),
            "final": None if self.final is None else dict(self.final),
        }

    def __str__(self) -> str:
        lines = [str(one) for one in self.verdicts]
        if self.final is not None:
            lines.append(final_in_words(self.final))
        return "\n".join(lines)


def difference_of(
    pairs: Sequence[Mapping[str, Any]], key: str, maximise: bool, base: str = "base"
) -> dict[str, Any] | None:
    """Mean and interval of candidate minus base over pairs, signed so that more is better."""
    values = differences(pairs, key, maximise, base)
    if not values:
        return None
    mean, low, high = mean_and_interval(values)
    return {
        "mean": mean,
        "interval": [low if math.isfinite(low) else None, high if math.isfinite(high) else None],
        "pairs": len(values),
    }


def differences(
    pairs: Sequence[Mapping[str, Any]], key: str, maximise: bool, base: str = "base"
) -> list[float]:
    """Candidate minus base of each pair that has both."""
    sign = 1 if maximise else -1
    return [
        sign * (one["candidate"][key] - one[base][key])
        for one in pairs
        if one["candidate"].get(key) is not None and one.get(base, {}).get(key) is not None
    ]


def control_of(pairs: Sequence[Mapping[str, Any]], rounds: int, maximise: bool) -> dict[str, Any]:
    """How the candidate stands against the base that was tuned."""
    return {
        "rounds": rounds,
        "difference": difference_of(pairs, "score", maximise, "control") or NOTHING,
        "evidence": evidence(differences(pairs, "score", maximise, "control")),
    }


def costs_of(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of what a training moved and saw, at either side, and the candidate's share of the base's."""
    found: dict[str, Any] = {}
    for key in ("bytes", "samples"):
        sums = {}
        for side in ("base", "candidate"):
            told = [one[side][key] for one in pairs if one[side].get(key) is not None]
            sums[side] = sum(told) / len(told) if told else None
        ratio = sums["candidate"] / sums["base"] if sums["base"] and sums["candidate"] is not None else None
        found[key] = {**sums, "ratio": ratio}
    return found


def final_in_words(final: Mapping[str, Any]) -> str:
    """How the last base was judged."""
    low, high = final["interval"]
    shown = f"{final['mean']:.4f} [{low:.4f}, {high:.4f}]"
    tail = "" if final["tail"] is None else f", worst tenth of clients {final['tail']:.4f}"
    text = f"final: {final['name']} has {final['metric']} {shown} over {final['trainings']} trainings{tail}"
    return f"{text}; {final['where']}"


def _shown(difference: Mapping[str, Any]) -> str:
    low, high = difference["interval"]
    mean = difference["mean"]
    if mean is None or not math.isfinite(mean):
        return "no difference is known"
    inside = "" if low is None else f" [{low:+.4f}, {high:+.4f}]"
    return f"{mean:+.4f}{inside}, {difference['pairs']} pairs"


def _costs(cost: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, shown in (("bytes", megabytes), ("samples", whole)):
        one = cost[key]
        if one["base"] is None or one["candidate"] is None:
            lines.append(f"{key}: not told by both")
            continue
        ratio = "" if one["ratio"] is None else f", {one['ratio']:.3f} times the base's"
        cheaper = " (cheaper)" if one["ratio"] is not None and one["ratio"] < 0.995 else ""
        lines.append(f"{key} a training: {shown(one['candidate'])}{ratio}{cheaper}")
    return lines
