"""The sections that a method adds to the report, as result.json keeps them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.core.user_code import in_words
from fedhpo.protocol.sections import check_section, section

if TYPE_CHECKING:
    from fedhpo.methods.tuner import Tuner
    from fedhpo.protocol.method import Method
    from fedhpo.search.search import Search


def sections_of(method: Method | Tuner, search: Search) -> dict[str, Any]:
    """`{"sections": [...]}`, or nothing where the method adds none.

    The search is over by now: a mistake in what describes it must not cost its result. It is warned of, and
    told in the report.
    """
    try:
        found = list(method.sections(search))
        for one in found:
            check_section(one)
    except Exception as error:
        why = str(error) if isinstance(error, InputError) else in_words(error)
        warnings.warn(f"{method.name}: its sections of the report could not be made: {why}", stacklevel=2)
        found = [section(f"What {method.name} tells", f"This section could not be made: {why}")]
    return {"sections": found} if found else {}
