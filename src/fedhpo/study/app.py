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
    """That the app's number of rounds follows the study, where it is another one."""
    if file.app is None:
        return []
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
