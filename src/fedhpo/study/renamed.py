"""Keys of study files that have a new name; the old ones are read with a warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.deprecation import warn_deprecated
from fedhpo.core.errors import InputError

#: Section and old key, the new key, and the version in which the old one goes.
_RENAMED = {("data", "redeal"): ("mixing", "0.5")}


def with_new_keys(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The study with the keys of this version."""
    for (section, old), (new, gone) in _RENAMED.items():
        table = given.get(section)
        if not isinstance(table, Mapping) or old not in table:
            continue
        if new in table:
            raise InputError(
                f"{section}.{old}: is the old name of {section}.{new}, which is given: leave it out"
            )
        warn_deprecated(f"{section}.{old}", f"{section}.{new}", gone, stacklevel=4)
        renamed = {new if key == old else key: value for key, value in table.items()}
        given = {**given, section: renamed}
    return given
