"""The parts of a run's report, in order: each is a function from a `RunView` to a `Section`, or None."""

from __future__ import annotations

from collections.abc import Callable

from fedhpo.methods.fedex.section import policy, ranking
from fedhpo.methods.fedpop.section import lineage
from fedhpo.methods.fedtune.section import table
from fedhpo.methods.flora.section import flora
from fedhpo.pages.html import Section
from fedhpo.report.sections.cost import cost
from fedhpo.report.sections.curves import curves
from fedhpo.report.sections.failures import failures
from fedhpo.report.sections.headline import headline
from fedhpo.report.sections.hyperparameters import hyperparameters
from fedhpo.report.sections.outliers import outliers
from fedhpo.report.sections.personal import personal
from fedhpo.report.sections.privacy import privacy
from fedhpo.report.sections.process import process
from fedhpo.report.sections.trials import trials
from fedhpo.report.view import RunView

SECTIONS: tuple[Callable[[RunView], Section | None], ...] = (
    headline,
    curves,
    personal,
    trials,
    lineage,
    policy,
    table,
    flora,
    ranking,
    hyperparameters,
    failures,
    outliers,
    cost,
    privacy,
    process,
)
