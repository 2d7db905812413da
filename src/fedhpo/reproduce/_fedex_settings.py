"""The settings of FedEx that the critique compares, and the remedies that it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.policies.fedex_auto import AUTO

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
    "auto": dict(AUTO),
}
#: What `FedEx.auto()` was chosen from, on other arms and other seeds.
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "auto": dict(AUTO),
    **{f"auto, {rule}": {**AUTO, "steps": rule} for rule in ("auto", "constant")},
    **{f"auto, explore {share:g}": {**AUTO, "explore": share} for share in (0.1, 0.4)},
    **{f"auto, gamma {gamma:g}": {**AUTO, "gamma": gamma} for gamma in (0.0, 0.9)},
    **{f"auto, eliminate {delta:g}": {**AUTO, "eliminate": delta} for delta in (0.0, 0.4)},
    "auto, entropy 0.01": {**AUTO, "entropy": 0.01},
    "auto, pretrain": {**AUTO, "baseline": "pretrain"},
    "auto, loss": {**AUTO, "difference": False},
    "auto, landmarks 6 x 5": {**AUTO, "landmarks": 6, "landmark_rounds": 5},
    "auto, landmarks 9 x 10": {**AUTO, "landmarks": 9, "landmark_rounds": 10},
    # What it has to be better than.
    **{plain(rule, 0.0): PLAIN[plain(rule, 0.0)] for rule in ("adaptive", "aggressive")},
    plain("constant", 1.0): PLAIN[plain("constant", 1.0)],
}
