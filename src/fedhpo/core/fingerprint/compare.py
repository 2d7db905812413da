"""How two fingerprints differ, in words that name the client, the parameter or the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedhpo.core.fingerprint.arrays import SPLITS, unpack

_ROWS = {"train": "training rows", "validation": "validation rows", "test": "test rows"}
#: How many clients, or parts of code, a message names.
_NAMED = 5


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What is other in `new` ("here") than in `old` ("there"); empty if nothing is.

    >>> differences({"settings": {"server": "fedavg"}}, {"settings": {"server": "fedadam"}})
    ["settings: server is 'fedavg' there, 'fedadam' here"]
    """
    found = []
    for part in sorted({*old, *new}):
        told = _part(old.get(part), new.get(part))
        found += [_joined(part, one) for one in told]
    return found


def _joined(name: str, told: str) -> str:
    return name + told if told.startswith(" ") else f"{name}: {told}"


def _part(old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for mark, compare in _KINDS.items():
            if mark in old and mark in new:
                return compare(old, new)
        return [
            _joined(inner, one)
            for inner in sorted({*old, *new})
            for one in _part(old.get(inner), new.get(inner))
        ]
    return [f" is {_text(old)} there, {_text(new)} here"]


def _data(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Which clients have other rows, or what else is other."""
    plain = [
        f"{what} is {_text(old[key])} there, {_text(new[key])} here"
        for key, what in (
            ("clients", "the number of clients"),
            ("task", "the task"),
            ("classes", "the number of classes"),
            ("sample", "a sample's shape and type"),
            ("label", "a label's shape and type"),
        )
        if old[key] != new[key]
    ]
    if old["scaling"] != new["scaling"]:
        plain.append("samples are scaled otherwise (mean and std)")
    if old["clients"] != new["clients"]:
        return plain
    tags = unpack(old["rows"]), unpack(new["rows"])
    changed = np.flatnonzero(tags[0] != tags[1])
    if len(changed) > 1 and np.array_equal(np.sort(tags[0]), np.sort(tags[1])):
        return [*plain, f"the clients come in another order (client {changed[0]} is the first)"]
    sized = []
    for split in SPLITS:
        sizes = unpack(old["sizes"][split]), unpack(new["sizes"][split])
        for client in np.flatnonzero(sizes[0] != sizes[1])[:1]:
            before, now = (int(size[client]) for size in sizes)
            sized.append(f"client {client} has {before} {_ROWS[split]} there, {now} here")
    if sized:
        plain += sized
    elif len(changed):
        plain.append(f"{_clients(changed)} other rows (features, labels or their order)")
    elif old["digest"] != new["digest"]:
        plain.append("the clients have other rows")
    for key, what in (("names", "the clients have other names"), ("name", "the data set has another name")):
        if not plain and old[key] != new[key]:
            plain.append(what)
    return plain


def _clients(changed: Any) -> str:
    named = [str(int(client)) for client in changed[:_NAMED]]
    more = len(changed) - len(named)
    if len(changed) == 1:
        return f"client {named[0]} has"
    return f"clients {', '.join(named)}{f' and {more} more' if more else ''} have"


def _model(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = [f"the model is {_made(old)} there, {_made(new)} here"] if _made(old) != _made(new) else []
    for key, what in (("tensors", ""), ("modules", "module ")):
        left, right = old.get(key) or {}, new.get(key) or {}
        if not left or not right:
            continue
        other = [name for name in {**left, **right} if left.get(name) != right.get(name)]
        for name in other[:_NAMED]:
            shown = f"{what}{name}" if name else "the module itself"
            found.append(f"{shown} is {left.get(name, 'missing')} there, {right.get(name, 'missing')} here")
        if found:
            break
        if list(left) != list(right):
            found.append("the same parameters come in another order")
    return found or _code(old["code"], new["code"])


def _made(model: Mapping[str, Any]) -> str:
    return str(model["code"]["name"])


def _code(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old["name"] != new["name"]:
        return [f" is `{old['name']}` there, `{new['name']}` here"]
    found = []
    left, right = old["parts"], new["parts"]
    for part in sorted({*left, *right}):
        before, now = left.get(part), right.get(part)
        if before == now or _other_python(before, now):
            continue
        path, _, last = part.rpartition(": ")
        where = f"`{path}`, which `{old['name']}` uses," if path else f"`{old['name']}`"
        if last == "code" or last == "wrapper" or last.startswith("code of "):
            found.append(f"{where} has other code")
        elif before is None or now is None:
            found.append(f"{where} {'no longer uses' if now is None else 'now uses'} {last}")
        elif last == "weights":
            found.append(f"{where} has other weights")
        elif len(before) > 40 or len(now) > 40 or _is_digest(before):
            found.append(f"{last} of {where.rstrip(',')} is another")
        else:
            found.append(f"{last} of {where.rstrip(',')} is {before} there, {now} here")
    # What is used changes with the code: the first says it.
    return found[:1] if found and found[0].endswith("other code") else found[:_NAMED]


def _is_digest(text: str) -> bool:
    return len(text) == 32 and set(text) <= set("0123456789abcdef")


def _other_python(old: str | None, new: str | None) -> bool:
    """Bytecode of different versions of Python cannot be compared."""
    mark = "bytecode of Python "
    if old is None or new is None or not (old.startswith(mark) and new.startswith(mark)):
        return False
    return old.split()[3] != new.split()[3]


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "parts" in value:
        return f"`{value['name']}`"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


#: What a part of a fingerprint is, by a key that only such a part has.
_KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]] = {
    "rows": _data,
    "code": _model,
    "parts": _code,
}
