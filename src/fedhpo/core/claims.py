"""Which settings have an effect: a part claims the keys that it honours, and a setting says when it counts.

A setting that counts only beside others is declared so where it is: in the dataclass, or the section of a
study file, that holds it.

>>> @dataclass(frozen=True)
... class Aim:
...     over: str = "mean"
...     tail: float = setting(0.1, over="tail")
>>> [str(one) for one in unhonoured(Aim(tail=0.2))]
["tail = 0.2: counts only where over = 'tail', and over is 'mean': leave it out, or change that"]
>>> list(unhonoured(Aim("tail", 0.2)))
[]

Across sections it is parts that claim keys: see `Part`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown

#: The key of a field's metadata, and of a section's schema, that says where a setting counts.
COUNTS = "counts_where"
#: The key of a field's metadata that says that it is filled in here, and is no setting.
FILLED_IN = "filled_in"
#: Stands for any value but None, false and 0.
GIVEN = "<given>"
#: Stands for None, false and 0.
LEFT_OUT = "<left out>"


@dataclass(frozen=True)
class AllBut:
    """Stands for any value but these."""

    values: tuple[Any, ...]


_REFUSES: ContextVar[bool] = ContextVar("refuses settings without effect", default=True)
_LATER: ContextVar[bool] = ContextVar("settings are looked at later", default=False)

#: By setting, the value that it must have, or several; all of them must hold.
Where = Mapping[str, Any]


def setting(default: Any, *either: Where, **where: Any) -> Any:
    """A field of a dataclass that counts only where other fields have these values.

    A tuple allows any of its values, `GIVEN` all but None, false and 0. With several mappings in place of
    names, one of them must hold.
    """
    return field(default=default, metadata={COUNTS: counts_where(*either, **where)})


def filled_in(default: Any) -> Any:
    """A field of a dataclass that the library fills in: no study file may set it."""
    return field(default=default, metadata={FILLED_IN: True})


def counts_where(*either: Where, **where: Any) -> tuple[Where, ...]:
    """What `setting` keeps, for sections of a study file."""
    return either if either else (where,)


@dataclass(frozen=True)
class Unhonoured:
    """A setting that was set and that nobody honours: its key, its value, and why."""

    key: str
    value: Any
    why: str

    def __str__(self) -> str:
        return f"{self.key} = {shown(self.value)}: {self.why}"


def declared(kind: type[Any]) -> dict[str, tuple[Where, ...]]:
    """The settings of a dataclass that count only somewhere, and where."""
    return {f.name: f.metadata[COUNTS] for f in fields(kind) if COUNTS in f.metadata}


def unhonoured(
    part: Any, given: Iterable[str] | None = None, names: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Unhonoured]:
    """The settings of a dataclass that do not count beside its others.

    `given` are those that were set. Without it they are those whose value is not the default: a default
    that was written out cannot be told from one that was left out. `names` are what users call fields.
    """
    found = set(_changed(part) if given is None else given)
    for name, either in declared(type(part)).items():
        if name in found and (why := why_not(vars(part), either, names)):
            yield Unhonoured(names.get(name, name.rstrip("_")), getattr(part, name), why)


def why_not(
    values: Mapping[str, Any], either: Sequence[Where], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Why a setting does not count beside these values; empty where it does."""
    if any(all(_holds(values.get(key), wanted) for key, wanted in where.items()) for where in either):
        return ""
    missed = {
        key: values.get(key)
        for where in either
        for key, wanted in where.items()
        if not _holds(values.get(key), wanted)
    }
    needs = " or ".join(
        " and ".join(f"{names.get(key, key.rstrip('_'))} {_wanted(value)}" for key, value in where.items())
        for where in either
    )
    found = " and ".join(
        f"{names.get(key, key.rstrip('_'))} is {_found(value)}" for key, value in missed.items()
    )
    return f"counts only where {needs}, and {found}: leave it out, or change that"


def uncounted(kind: type[Any], values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """The settings of a dataclass that count beside none of the values that others can take, and why.

    `values` are, by setting, all that it can be, as in a search space; those left out have their defaults.

    >>> @dataclass(frozen=True)
    ... class Local:
    ...     optimiser: str = "sgd"
    ...     momentum: float = setting(0.0, optimiser="sgd")
    >>> list(uncounted(Local, {"optimiser": ["sgd", "adam"], "momentum": [0.0, 0.9]}))
    []
    >>> list(uncounted(Local, {"optimiser": ["adam"], "momentum": [0.9]}))
    [('momentum', "counts only where optimiser = 'sgd', and optimiser is 'adam': leave it out, or change \
that")]
    """
    default = {f.name: [f.default] for f in fields(kind)}
    possible = default | {key: list(found) for key, found in values.items()}
    for name, either in declared(kind).items():
        if name not in values:
            continue
        if not any(
            all(any(_holds(one, wanted) for one in possible[key]) for key, wanted in where.items())
            for where in either
        ):
            yield name, why_not({key: found[0] for key, found in possible.items()}, either)


def refuse_unhonoured(
    part: Any,
    where: str = "",
    given: Iterable[str] | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse a dataclass of which a setting does not count; `where` is the section that it came from."""
    if not _LATER.get():
        refuse(f"{where}.{one}" if where else str(one) for one in unhonoured(part, given, names))


def refuse(lines: Iterable[str]) -> None:
    """Refuse settings without effect; inside `warning_only` warn of them."""
    found = list(lines)
    if found and _REFUSES.get():
        raise InputError("\n".join(found))
    for line in found:
        warnings.warn(f"{line} (the run was begun with it, and goes on as without it)", stacklevel=3)


@contextmanager
def refusing_later() -> Iterator[None]:
    """For those who make a part and call `refuse_unhonoured` themselves, with the section's name."""
    before = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(before)


@contextmanager
def warning_only() -> Iterator[None]:
    """For runs that an older version began with settings which it ignored: they go on as they were."""
    before = _REFUSES.set(False)
    try:
        yield
    finally:
        _REFUSES.reset(before)


def _changed(part: Any) -> Iterator[str]:
    for f in fields(part):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if f.init and getattr(part, f.name) != default:
            yield f.name


def _holds(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return value is None
    if isinstance(wanted, AllBut):
        return value not in wanted.values
    if _is_mark(wanted):
        nothing = value is None or (isinstance(value, bool | int | float) and not value)
        return bool(nothing == (wanted == LEFT_OUT))
    return value in wanted if isinstance(wanted, tuple) else bool(value == wanted)


def _is_mark(wanted: Any) -> bool:
    return isinstance(wanted, str) and wanted in (GIVEN, LEFT_OUT)


def _wanted(wanted: Any) -> str:
    if _is_mark(wanted):
        return "is given" if wanted == GIVEN else "is left out"
    if isinstance(wanted, AllBut):
        return f"is not {' or '.join(map(repr, wanted.values))}"
    if isinstance(wanted, tuple):
        return f"is {', '.join(map(repr, wanted[:-1]))} or {wanted[-1]!r}"
    return "is left out" if wanted is None else f"= {shown(wanted)}"


def _found(value: Any) -> str:
    return "left out" if value is None else shown(value)


@dataclass(frozen=True)
class Part:
    """Something that honours settings: what trains, where it trains, or what searches.

    `who` names it in messages, `claims` are the keys that it honours, such as "server.trim", or whole
    sections, such as "federation".

    >>> torch = Part("torch models", {"server.optimiser", "device"})
    >>> torch.honours("server.optimiser"), torch.honours("server.trim")
    (True, False)
    """

    who: str
    claims: Collection[str]

    def honours(self, key: str) -> bool:
        """Whether the part claims a key, or the section that it stands in."""
        return key in self.claims or key.partition(".")[0] in self.claims


def refuse_unclaimed(
    given: Mapping[str, Any], here: Sequence[Part], everybody: Sequence[Part], combination: str
) -> None:
    """Refuse the keys that were set, with their values, and that no part which is `here` claims.

    The message names the parts of `everybody` that would.

    >>> torch, trees = Part("torch models", ["server.trim"]), Part("pooled learners", [])
    >>> refuse_unclaimed({"server.trim": 0.2}, [trees], [torch, trees], "model.name = 'hgb'")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: server.trim = 0.2: has no effect with model.name = 'hgb'; torch models would honour \
it: leave it out
    """
    lines = []
    for key, value in given.items():
        if any(part.honours(key) for part in here):
            continue
        others = list(dict.fromkeys(part.who for part in everybody if part.honours(key)))
        who = f"; {' and '.join(others)} would honour it" if others else ""
        lines.append(f"{key} = {shown(value)}: has no effect with {combination}{who}: leave it out")
    refuse(lines)
