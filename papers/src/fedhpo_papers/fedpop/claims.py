"""The claims of the FedPop paper, judged by what was measured: accuracies in percent, seed against seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo_papers.fedpop.sets import FULL, JUDGED, OPTIMISERS, THIN, THIN_ROWS
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import Verdict, above, all_of, any_of, opposite

Key = tuple[str, str, str, str]  # set, wrapper, tuning, optimiser
_BOTH = ("rs", "sha")


class Rows:
    """What was measured, by set, wrapper, tuning and server optimiser; parts that share a run share a row."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows: dict[Key, dict[int, Mapping[str, Any]]] = {}
        for row in rows:
            key = row["set"], row["wrapper"], row["tuning"], row["optimiser"]
            self._rows.setdefault(key, {})[row["seed"]] = row

    @property
    def sets(self) -> list[str]:
        """The sets of the benchmarks that were run."""
        return list(dict.fromkeys(s for s, *_ in self._rows if s not in ("pacs", "figure5", THIN)))

    def has(self, set: str, wrapper: str, *tunings: str, optimiser: str = "fedavgm") -> bool:
        """Whether all of these were run."""
        return all((set, wrapper, tuning, optimiser) in self._rows for tuning in tunings)

    def values(
        self, set: str, wrapper: str, tuning: str, what: str = "accuracy", optimiser: str = "fedavgm"
    ) -> dict[int, Any]:
        """One value by seed."""
        found = self._rows.get((set, wrapper, tuning, optimiser), {})
        return {seed: row[what] for seed, row in found.items()}

    def gap(self, set: str, wrapper: str, tuning: str, other: str, **which: str) -> Mean:
        """How much better one tuning is than another, seed by seed."""
        a, b = (self.values(set, wrapper, name, **which) for name in (tuning, other))
        return Mean.of(a[seed] - b[seed] for seed in sorted(a.keys() & b.keys()))


def judge(rows: Rows) -> list[Verdict]:
    """All claims that what was run can speak to."""
    found = [*_benchmarks(rows), *_pacs(rows), *_ablation(rows), *_tried(rows)]
    return [*found, *_curves(rows), *_optimisers(rows), *_thin(rows), *_judged(rows)]


def _claim(claim: str, paper: str, gaps: Mapping[str, Mean], verdict: str | None = None) -> Verdict:
    here = "; ".join(f"{name} {_signed(gap)}" for name, gap in gaps.items())
    return Verdict(claim, paper, here, verdict or all_of([above(gap, 0) for gap in gaps.values()]))


def _signed(gap: Mean) -> str:
    return f"{gap.value:+.2f}" + (f" ± {gap.error:.2f}" if gap.count > 1 else "")


def _benchmarks(rows: Rows) -> list[Verdict]:
    """Table 2."""
    found: list[Verdict] = []
    for what, words in (("accuracy", "global"), ("fine_tuned", "fine-tuned")):
        for other, name in (("none", "no tuning on the way"), ("fedex", "FedEx")):
            gaps = {
                f"{s} {w.upper()}": rows.gap(s, w, "fedpop", other, what=what)
                for s in rows.sets
                for w in _BOTH
                if rows.has(s, w, "fedpop", other)
            }
            if gaps:
                claim = f"FedPop's {words} accuracy is above that of {name}, on every set and wrapper"
                found.append(_claim(claim, "all 14 of 14", gaps))
    steady = _steadier(rows)
    return [*found, *([steady] if steady else [])]


def _steadier(rows: Rows) -> Verdict | None:
    """Whether FedPop's accuracies spread less over seeds, over all sets and wrappers."""
    cases = [(s, w) for s in rows.sets for w in _BOTH if rows.has(s, w, "none", "fedex", "fedpop")]
    if not cases or len(rows.values(*cases[0], "fedpop")) < 2:
        return None
    gaps = {}
    for other in ("none", "fedex"):
        less = [_spread(rows, *case, other) - _spread(rows, *case, "fedpop") for case in cases]
        gaps[f"less than {other} by"] = Mean.of(less)
    return _claim("FedPop's accuracies deviate less over seeds", "in most of 14 cases", gaps)


def _spread(rows: Rows, set: str, wrapper: str, tuning: str) -> float:
    return float(np.std(list(rows.values(set, wrapper, tuning).values()), ddof=1))


def _pacs(rows: Rows) -> list[Verdict]:
    """Table 3."""
    if not rows.has("pacs", "sha", "none", "fedex", "fedpop"):
        return []
    gaps = {f"over {other}": rows.gap("pacs", "sha", "fedpop", other) for other in ("none", "fedex")}
    return [_claim("On PACS FedPop is above SHA alone and FedEx", "+6.46; +1.70", gaps)]


def _ablation(rows: Rows) -> list[Verdict]:
    """Table 4."""
    sets = [s for s in rows.sets if rows.has(s, "rs", "none", "fedpop-g", "fedpop-l", "fedpop")]
    if not sets:
        return []
    found = []
    for half in ("fedpop-g", "fedpop-l"):
        gaps = {s: rows.gap(s, "rs", half, "none") for s in sets}
        found.append(_claim(f"{half} alone is above random search", "on all three", gaps))
    gaps = {
        f"{s} over {half}": rows.gap(s, "rs", "fedpop", half)
        for s in sets
        for half in ("fedpop-g", "fedpop-l")
    }
    found.append(_claim("Both together are above either half", "on all three", gaps))
    return found


def _tried(rows: Rows) -> list[Verdict]:
    """Table 1, on the first set."""
    found = []
    for s in rows.sets[:1]:
        if not rows.has(s, "rs", "none", "fedex", "fedpop"):
            continue
        for what in ("server", "client"):
            gaps = {f"{what} over {o}": rows.gap(s, "rs", "fedpop", o, what=what) for o in ("none", "fedex")}
            found.append(_claim(f"FedPop tries the most {what} vectors", "45 and more than 1000", gaps))
    return found


def _curves(rows: Rows) -> list[Verdict]:
    """Figure 5."""
    if not rows.has("figure5", "rs", "none", "fedex", "fedpop", "central"):
        return []
    early = {name: _early(rows, name) for name in ("none", "fedex", "fedpop")}
    gaps = {f"over {o}": _paired(early["fedpop"], early[o]) for o in ("none", "fedex")}
    first = _claim("FedPop is ahead of the others in the first tenth of the rounds", "yes", gaps)
    end = rows.gap("figure5", "rs", "fedpop", "central")
    # Comparable: not more than two points below.
    verdict = opposite(above(Mean(-end.value, end.error, end.count), 2.0))
    second = _claim(
        "FedPop comes within two points of centralised training", "comparable", {"": end}, verdict
    )
    return [first, second]


def _early(rows: Rows, tuning: str) -> dict[int, float]:
    curves = {seed: c for seed, c in rows.values("figure5", "rs", tuning, what="curve").items() if c}
    return {seed: float(np.mean([y for _, y in c[: max(1, len(c) // 10)]])) for seed, c in curves.items()}


def _paired(a: Mapping[int, float], b: Mapping[int, float]) -> Mean:
    return Mean.of(a[seed] - b[seed] for seed in sorted(a.keys() & b.keys()))


def _optimisers(rows: Rows) -> list[Verdict]:
    """FedPop with other server optimisers: better than the same one with random search on some set."""
    found = []
    for optimiser in OPTIMISERS:
        sets = [s for s in rows.sets if rows.has(s, "rs", "none", "fedpop", optimiser=optimiser)]
        for what, words in (("accuracy", "global"), ("fine_tuned", "fine-tuned")):
            gaps = {s: rows.gap(s, "rs", "fedpop", "none", what=what, optimiser=optimiser) for s in sets}
            if gaps:
                verdict = any_of([above(gap, 0) for gap in gaps.values()])
                claim = f"With {optimiser} FedPop's {words} accuracy is above random search's on some set"
                found.append(_claim(claim, "yes", gaps, verdict))
    return found


def _thin(rows: Rows) -> list[Verdict]:
    """Whether FedPop needs rows: its lead over no tuning on the way, with all of them and with few."""
    gaps = {}
    for wrapper in _BOTH:
        if rows.has(THIN, wrapper, "none", "fedpop") and rows.has(FULL, wrapper, "none", "fedpop"):
            full, thin = (
                {
                    seed: value - rows.values(s, wrapper, "none")[seed]
                    for seed, value in rows.values(s, wrapper, "fedpop").items()
                }
                for s in (FULL, THIN)
            )
            gaps[wrapper.upper()] = _paired(full, thin)
    claim = f"With all rows FedPop leads by more than with {THIN_ROWS} a client ({FULL})"
    return [_claim(claim, "not asked", gaps)] if gaps else []


def _judged(rows: Rows) -> list[Verdict]:
    """Whether fresh evaluations tell trials apart better than the clients' own losses do."""
    found = []
    for other, name in (("fedpop", "FedPop by the clients' losses"), ("none", "no tuning on the way")):
        gaps = {
            f"{s} {w.upper()}": rows.gap(s, w, "fedpop-judged", other)
            for s in JUDGED
            for w in _BOTH
            if rows.has(s, w, "fedpop-judged", other)
        }
        if gaps:
            found.append(_claim(f"Judged by fresh evaluations FedPop is above {name}", "not asked", gaps))
    return found
