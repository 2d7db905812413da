"""What a study says to the federation of its Flower app, and what the run says of it."""

from __future__ import annotations

from typing import Any

from fedhpo.federations.apps.app_file import read_app
from fedhpo.protocol.federation import SCORES_IN_ROUND
from fedhpo.space import Space
from fedhpo.study.sections import StudyFile


def app_options(file: StudyFile, space: Space, method: Any) -> dict[str, Any]:
    """Options of the app's federation: its number of rounds, and whether clients score before training."""
    assert file.app is not None
    followed = _followed(file, space)
    return {
        "rounds": None if followed is None else file.budget.rounds,
        "learning_curve": file.app.learning_curve or SCORES_IN_ROUND in method.needs,
    }


def said_of_app(file: StudyFile, space: Space) -> list[str]:
    """What is not as the app has it: its number of rounds, and values that trial 0 has."""
    if file.app is None:
        return []
    return [*_said_of_rounds(file, space), *_said_of_own(space)]


def _said_of_own(space: Space) -> list[str]:
    """Which of the app's own values lie outside their ranges, and which are not known."""
    outside = {name: one.own for name, one in space.hyperparameters.items() if one.own is not None}
    unknown = [
        name
        for name, one in space.hyperparameters.items()
        if one.own is None and one.default is None and not name.startswith("policy.")
    ]
    lines = [
        f"space.{name}: the app's own value, {value!r}, lies outside the range; trial 0 is trained with it"
        for name, value in outside.items()
    ]
    if unknown:
        lines.append(
            f"the app's own value of {', '.join(unknown)} is not known: trial 0 has the middle of the range "
            "there (write default = ... in the range to set it)"
        )
    return lines


def _said_of_rounds(file: StudyFile, space: Space) -> list[str]:
    assert file.app is not None
    key = _followed(file, space)
    own = None if key is None else read_app(file.app.path).config[key]
    if key is None or own == file.budget.rounds:
        return []
    return [
        f"the app's {key} is {file.budget.rounds}, as budget.rounds, in place of {own}: its schedules end "
        f"there"
    ]


def _followed(file: StudyFile, space: Space) -> str | None:
    """The key of the app's run config that holds its number of rounds, unless the study sets it itself."""
    assert file.app is not None
    key = read_app(file.app.path).rounds_key
    default = space.default()
    return None if key in default.client or key in default.model else key
