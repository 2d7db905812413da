"""The settings of FedEx that the critique compares, and the remedies that it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.methods.fedex.auto import AUTO

RULES = ("constant", "adaptive", "aggressive")
GAMMAS = (0.0, 0.5, 1.0)


def plain(rule: str, gamma: float) -> str:
    """The name of a plain setting."""
    return f"{rule} gamma {gamma:g}"


#: The nine plain settings: the first baseline is zero, as in FedEx itself.
PLAIN: Mapping[str, Mapping[str, Any]] = {
    plain(rule, gamma): {"steps": rule, "gamma": gamma, "baseline": "zero"}
    for rule in RULES
    for gamma in GAMMAS
}
#: What setting the first baseline to the loss before training changes.
PRETRAIN: Mapping[str, Mapping[str, Any]] = {
    "adaptive pretrain": {"steps": "adaptive", "gamma": 0.0, "baseline": "pretrain"}
}
_BASE = PRETRAIN["adaptive pretrain"]
#: Each remedy by itself on top of that, and all choices of `FedEx.auto()`.
REMEDIES: Mapping[str, Mapping[str, Any]] = {
    "entropy 0.01": {**_BASE, "entropy": 0.01},
    "explore 0.1": {**_BASE, "explore": 0.1},
    "eliminate 0.1": {**_BASE, "eliminate": 0.1},
    "landmarks 6 x 5": {**_BASE, "landmarks": 6, "landmark_rounds": 5},
    "until 0.3": {**_BASE, "until": 0.3},
    "auto": dict(AUTO),
}
#: What `FedEx.auto()` was chosen from, on other arms and other seeds: one change at a time to what was best
#: on handwritten digits, then to what came of that.
_FIRST: Mapping[str, Any] = {
    "steps": "adaptive",
    "difference": True,
    "gamma": 1.0,
    "baseline": "skip",
    "explore": "auto",
    "eliminate": 0.1,
    "clip": 10.0,
}
_THEN: Mapping[str, Any] = {**_FIRST, "steps": "auto", "until": 0.3}
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "first": _FIRST,
    **{f"first, {rule}": {**_FIRST, "steps": rule} for rule in ("auto", "constant")},
    **{f"first, explore {share:g}": {**_FIRST, "explore": share} for share in (0.1, 0.4)},
    **{f"first, gamma {gamma:g}": {**_FIRST, "gamma": gamma} for gamma in (0.0, 0.9)},
    **{f"first, eliminate {delta:g}": {**_FIRST, "eliminate": delta} for delta in (0.0, 0.4)},
    "first, entropy 0.01": {**_FIRST, "entropy": 0.01},
    "first, pretrain": {**_FIRST, "baseline": "pretrain"},
    "first, loss": {**_FIRST, "difference": False},
    "first, landmarks 6 x 5": {**_FIRST, "landmarks": 6, "landmark_rounds": 5},
    "first, landmarks 9 x 10": {**_FIRST, "landmarks": 9, "landmark_rounds": 10},
    "then": _THEN,
    "then, until 0.2": {**_THEN, "until": 0.2},
    "then, eliminate 0": {**_THEN, "eliminate": 0.0},
    "then, landmarks 9 x 10": {**_THEN, "landmarks": 9, "landmark_rounds": 10},
    # What it has to be better than.
    **{plain(rule, 0.0): PLAIN[plain(rule, 0.0)] for rule in ("adaptive", "aggressive")},
    plain("constant", 1.0): PLAIN[plain("constant", 1.0)],
}
