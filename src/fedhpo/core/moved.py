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
    before, _, name = kept.rpartition(".")
    return before, name
