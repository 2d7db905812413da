"""What a client policy learned, for the report: its weights over the rounds, and the use of its arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedhpo.figures.policy import (
    Policies,
    arm_in_words,
    arm_use,
    largest_weight,
    of_arms,
    policy,
    shown_policy,
)
from fedhpo.protocol.policy import LearningState
from fedhpo.protocol.sections import figure, section

if TYPE_CHECKING:
    from fedhpo.search.trial import Trial


def policies_of(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Of each trial whose client policy learns: its arms, and the policy after every round."""
    learning = [(trial.number, trial.policy) for trial in trials if isinstance(trial.policy, LearningState)]
    return [{"trial": number, **state.history()} for number, state in learning]


def policy_sections(policies: Policies | None, winner: int | None) -> list[dict[str, Any]]:
    """Of the winner (or the last trial): heat map, use of the arms, and the largest weight of all trials."""
    if not of_arms(policies):
        return []
    shown = shown_policy(policies, winner)
    figures = [policy(policies, winner), arm_use(shown), largest_weight(policies, winner)]
    deployed = arm_in_words(shown["arms"][shown["best"]])
    note = f"Trial {shown['trial']}; arm 0 is its own config. Most weight: arm {shown['best']} ({deployed})."
    if "tried" in shown:
        note += f" {shown['tried']} of {len(shown['arms'])} arms were ever given to a client."
    if shown["eliminated"]:
        note += f" Eliminated: {', '.join(f'arm {arm}' for arm in sorted(shown['eliminated']))}."
    return [section("Client policy", *(figure(one["data"], one["layout"]) for one in figures), note)]
