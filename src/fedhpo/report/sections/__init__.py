"""The parts of a run's report, in order.

Each is a function from a `RunView` to a `Section`, to several, or to None. What a method brings along is
drawn by `own`: no method but those of the papers we ship is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedhpo.methods.fedex.section import policy, ranking
from fedhpo.methods.fedpop.section import lineage
from fedhpo.methods.fedtune.section import table
from fedhpo.methods.flora.section import flora
from fedhpo.pages.html import Section
from fedhpo.report.sections.clients import clients
from fedhpo.report.sections.cost import cost
from fedhpo.report.sections.curves import curves, progress
from fedhpo.report.sections.failures import failures
from fedhpo.report.sections.headline import headline
from fedhpo.report.sections.hyperparameters import hyperparameters
from fedhpo.report.sections.importance import across, importance
from fedhpo.report.sections.outliers import outliers
from fedhpo.report.sections.own import own
from fedhpo.report.sections.pareto import pareto
from fedhpo.report.sections.personal import personal
from fedhpo.report.sections.privacy import privacy
from fedhpo.report.sections.process import process
from fedhpo.report.sections.time import time
from fedhpo.report.sections.trials import trials
from fedhpo.report.view import RunView

SECTIONS: tuple[Callable[[RunView], Section | Sequence[Section] | None], ...] = (
    headline,
    pareto,
    progress,
    curves,
    across,
    importance,
    hyperparameters,
    policy,
    lineage,
    table,
    flora,
    ranking,
    own,
    clients,
    personal,
    trials,
    failures,
    outliers,
    cost,
    time,
    privacy,
    process,
)


def sections(view: RunView) -> list[Section]:
    """All that there is to show of a run."""
    return [one for make in SECTIONS for one in listed(make(view))]


def listed(made: Section | Sequence[Section] | None) -> list[Section]:
    """What a function of `SECTIONS` returned, as a list."""
    return [made] if isinstance(made, Section) else list(made or ())
