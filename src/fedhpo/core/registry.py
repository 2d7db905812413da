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
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fedhpo.core.deprecation import warn_deprecated
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.objects import call_own, import_object, is_own
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
    "partition",
    "model",
    "aggregation",
    "optimiser",
    "privacy",
    "metric",
    "trainee",
    "place",
    "command",
    "tables",
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
    #: The kind under which entry points brought such things in earlier versions.
    formerly: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, KINDS)

    def names(self) -> list[str]:
        """All names: ours, then those that installed packages bring. None of these is imported."""
        return [*self.ours, *(name for name in self._installed() if name not in self.ours)]

    def _installed(self) -> dict[str, list[EntryPoint]]:
        before = installed(self.formerly) if self.formerly else {}
        return before | installed(self.kind)

    def brings(self, name: str) -> bool:
        """Whether the name is of a user's own or of an installed package, so that finding it imports it."""
        return name not in self.ours and (is_own(name) or name in self._installed())

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
        points = self._installed().get(name)
        if points is None:
            raise self.unknown(name, key)
        if name not in installed(self.kind):
            before, now = (f"the entry point {kind}.{name}" for kind in (self.formerly, self.kind))
            warn_deprecated(before, now, gone="0.4")
        found = _loaded(points, f"{key or self.kind} = {name!r}")
        return found  # type: ignore[no-any-return]

    def build(self, given: str | Mapping[str, Any], key: str, word: str = "name") -> T:
        """A part from its name, or from a table of its name and its settings: the fields of a dataclass.

        >>> from fedhpo.aggregation.server import optimisers
        >>> optimisers.build({"name": "fedavg", "lr": 0.5}, "server.optimiser").lr
        0.5
        >>> optimisers.build({"name": "fedavg", "rl": 0.5}, "server.optimiser")
        Traceback (most recent call last):
        ...
        fedhpo.InputError: server.optimiser: unknown setting of 'fedavg' 'rl' (did you mean 'lr'?); known: \
lr, lr_decay
        """
        values: dict[str, Any] = {word: given} if isinstance(given, str) else dict(given)
        if word not in values:
            raise InputError(f"{key}.{word} is missing: which of {', '.join(self.names())}, or your own")
        name = values.pop(word)
        kind: Any = self.find(name, key if isinstance(given, str) else f"{key}.{word}")
        if not isinstance(kind, type) or not is_dataclass(kind):
            raise InputError(f"{key} = {name!r}: must be a dataclass, whose fields are its settings")
        known = [one for one in fields(kind) if one.init]
        for setting in values:
            if setting not in {one.name for one in known}:
                error = unknown_name(f"setting of {name!r}", setting, (one.name for one in known))
                raise InputError(f"{key}: {error}")
        for one in known:
            if one.name not in values and one.default is MISSING and one.default_factory is MISSING:
                raise InputError(f"{key}: {name!r} needs the setting {one.name!r}")
        made: T = call_own(kind, values, f"{key} = {name!r}")
        return made

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
