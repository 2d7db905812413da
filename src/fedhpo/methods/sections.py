"""The sections that a method adds to the report, as result.json keeps them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.core.user_code import in_words
from fedhpo.methods.fedex.section import policy_sections
from fedhpo.methods.fedpop.section import lineage_sections
from fedhpo.methods.fedtune.section import table_sections
from fedhpo.methods.flora.section import party_sections
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


def sections_told(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sections that a result holds, and those that methods of ours make of its other facts.

    A run under way has none yet, and 0.2.0 kept none of its own methods': facts of theirs are in the result.
    """
    held = [dict(one) for one in result.get("sections") or ()]
    titles = {one.get("title") for one in held}
    best = result.get("best")
    winner = None if best is None else int(best["trial"])
    made = [
        *policy_sections(result.get("policies"), winner),
        *(lineage_sections(result["trials"], winner, result["space"]) if "space" in result else ()),
        *table_sections(result.get("table")),
        *party_sections(result.get("flora")),
    ]
    return [*held, *(one for one in made if one["title"] not in titles)]
