"""Things that are known by a name: ours, a user's own, or one that an installed package brings.

A name is one of ours ("sha"), `package.module:Name`, or what a package calls its entry point in the group
`fedhpo`: the kind, a dot and the name. Such a package has in its pyproject.toml, say:

    [project.entry-points.fedhpo]
    "method.pbt" = "my_package.pbt:PBT"

Then `pbt` is the name of a method. Nothing is imported before its name is asked for, and a name of ours is
always ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.objects import import_object, is_own
from fedhpo.core.phrasing import shown
from fedhpo.core.user_code import in_words

#: The group of entry points. Their names begin with one of `KINDS` and a dot.
GROUP = "fedhpo"
KINDS = (
    "method",
    "sampler",
    "schedule",
    "policy",
    "data",
    "model",
    "aggregation",
    "command",
    "tables",
    "trainee",
    "place",
)

T = TypeVar("T")


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The names of one kind of things.

    `word` is what messages call the kind, `written` how a user's own is written.

    >>> methods = Registry("method", {"sha": 1, "tpe": 2})
    >>> methods.find("sha")
    1
    >>> methods.find("math:sqrt")(4)
    2.0
    >>> methods.find("hsa", "method.name")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: method.name: unknown method 'hsa' (did you mean 'sha'?); known: sha, tpe; \
your own is written 'package.module:Name'
    """

    kind: str
    ours: Mapping[str, T]
    word: str = ""
    written: str = "package.module:Name"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, KINDS)

    def names(self) -> list[str]:
        """All names: ours, then those that installed packages bring. None of these is imported."""
        return [*self.ours, *(name for name in installed(self.kind) if name not in self.ours)]

    def brings(self, name: str) -> bool:
        """Whether the name is of a user's own or of an installed package, so that finding it imports it."""
        return name not in self.ours and (is_own(name) or name in installed(self.kind))

    def find(self, name: Any, key: str = "") -> T:
        """What has this name; an `InputError` names the `key` that it was given by."""
        if not isinstance(name, str):
            raise InputError(f"{key or self.kind} = {shown(name)}: must be a string")
        if name in self.ours:
            return self.ours[name]
        found: Any
        if is_own(name):
            found = import_object(name, key or self.kind)
            return found  # type: ignore[no-any-return]
        points = installed(self.kind).get(name)
        if points is None:
            raise self.unknown(name, key)
        found = _loaded(points, f"{key or self.kind} = {name!r}")
        return found  # type: ignore[no-any-return]

    def unknown(self, name: Any, key: str = "") -> InputError:
        """The error for a name that nothing has."""
        error = unknown_name(self.word or self.kind, name, self.names())
        return InputError(f"{key + ': ' if key else ''}{error}; your own is written {self.written!r}")


def installed(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of this kind that installed packages bring, by name; none is loaded."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        before, _, name = point.name.partition(".")
        if before == kind and name:
            found.setdefault(name, []).append(point)
    return found


def _loaded(points: list[EntryPoint], prefix: str) -> Any:
    """What the entry point refers to."""
    if len({point.value for point in points}) > 1:
        values = " and ".join(point.value for point in points)
        raise InputError(f"{prefix}: several installed packages bring it: {values}; write one of these")
    point = points[0]
    why = ""
    try:
        found = point.load()
        why = "" if callable(found) else f"it is an {type(found).__name__}, neither a function nor a class"
    except Exception as error:
        why = str(error) if isinstance(error, InputError) else in_words(error)
    if why:
        raise InputError(f"{prefix}: the entry point {point.name!r} ({point.value}) cannot be loaded: {why}")
    return found
