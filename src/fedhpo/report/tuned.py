"""`fedhpo.tune`: tuning, and the report of a run that is kept."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec

from fedhpo.core.errors import FedhpoError
from fedhpo.report.page import write_report
from fedhpo.tuning import tune as tuning
from fedhpo.tuning.result import Result

P = ParamSpec("P")


def reported(tune: Callable[P, Result]) -> Callable[P, Result]:
    """The same function, which also writes `report.html` into the directory of a run that is kept.

    A report that cannot be written is warned of: the result is there all the same.
    """

    @functools.wraps(tune)
    def with_report(*arguments: P.args, **settings: P.kwargs) -> Result:
        result = tune(*arguments, **settings)
        if result.run is not None:
            try:
                write_report([result.run], result.run / "report.html")
            except FedhpoError as error:
                warnings.warn(f"no report was written: {error}", stacklevel=2)
        return result

    return with_report


tune = reported(tuning.tune)
