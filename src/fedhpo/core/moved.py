"""Classes that have another name, or lie in another module, than in earlier versions.

A run keeps the names of its sampler, schedule, policy and method, and is resumed only with the same ones:
these classes keep the names that runs hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: From module and name as they are to those that runs hold.
MOVED: Mapping[str, str] = {
    "fedhpo.methods.fedex.policy.FedExPolicy": "fedhpo.methods.fedex.policy.FedEx",
    "fedhpo.study.proxied.Proxied.method.<locals>.<lambda>": (
        "fedhpo.study.study.Study._proxy.<locals>.<lambda>"
    ),
    "fedhpo.study.proxied.TableProxied.method.<locals>.<lambda>": (
        "fedhpo.study.study.Study._on_proxy_data.<locals>.<lambda>"
    ),
}


def kept_name(thing: Any) -> tuple[str, str]:
    """The module and the qualified name of a class or function, as runs hold them.

    >>> from fedhpo.methods.fedex import FedExPolicy
    >>> kept_name(FedExPolicy), kept_name(int)
    (('fedhpo.methods.fedex.policy', 'FedEx'), ('builtins', 'int'))
    """
    module, own = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    module = module if isinstance(module, str) else ""
    own = own if isinstance(own, str) else ""
    kept = MOVED.get(f"{module}.{own}")
    if kept is None:
        return module, own
    before = module if kept.startswith(f"{module}.") else _module_of(kept)
    return before, kept.removeprefix(f"{before}.")


def _module_of(name: str) -> str:
    """The module in a full name: up to the first part that begins with a capital letter.

    >>> _module_of("fedhpo.study.study.Study._proxy.<locals>.<lambda>")
    'fedhpo.study.study'
    """
    parts = name.split(".")
    return ".".join(parts[: next(i for i, part in enumerate(parts) if part[:1].isupper())])
