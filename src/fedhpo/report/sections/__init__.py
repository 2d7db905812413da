"""The parts of a run's report, in order.

Each is a function from a `RunView` to a `Section`, to several, or to None. What a method brings along is
drawn by `own`, for our methods and a stranger's alike: no method is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section
from fedhpo.report.sections.clients import clients
from fedhpo.report.sections.cost import cost
from fedhpo.report.sections.curves import curves, progress
from fedhpo.report.sections.failures import failures
from fedhpo.report.sections.headline import headline
from fedhpo.report.sections.importance import importance
from fedhpo.report.sections.outliers import outliers
from fedhpo.report.sections.own import own
from fedhpo.report.sections.pareto import pareto
from fedhpo.report.sections.personal import personal
from fedhpo.report.sections.privacy import privacy
from fedhpo.report.sections.process import process
from fedhpo.report.sections.ranking import ranking
from fedhpo.report.sections.space import across, hyperparameters
from fedhpo.report.sections.timeline import timeline
from fedhpo.report.sections.trials import trials

SECTIONS: tuple[Callable[[RunView], Section | Sequence[Section] | None], ...] = (
    headline,
    pareto,
    progress,
    curves,
    across,
    importance,
    hyperparameters,
    own,
    ranking,
    clients,
    personal,
    trials,
    failures,
    outliers,
    cost,
    timeline,
    privacy,
    process,
)


def sections(view: RunView) -> list[Section]:
    """All that there is to show of a run."""
    return [one for make in SECTIONS for one in listed(make(view))]


def listed(made: Section | Sequence[Section] | None) -> list[Section]:
    """What a function of `SECTIONS` returned, as a list."""
    return [made] if isinstance(made, Section) else list(made or ())
