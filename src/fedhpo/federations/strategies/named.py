"""Strategies by name: one of Flower's, a wrapper around one, or a user's own class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import strategy as flowers
from flwr.serverapp.strategy import FedAvg, Strategy

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.objects import import_object, is_own

KEY = "server.strategy"
#: What a study cannot say: who takes part is the search's affair, and functions are no scalars.
_NOT_TUNED = {
    "strategy",
    "accountant",
    "fraction_train",
    "fraction_evaluate",
    "min_train_nodes",
    "min_evaluate_nodes",
    "min_available_nodes",
    "weighted_by_key",
    "arrayrecord_key",
    "configrecord_key",
    "train_metrics_aggr_fn",
    "evaluate_metrics_aggr_fn",
}
#: Strategies that need more of a client than fedhpo's own training does, and what to take instead.
_NEED_AN_APP = {
    "FedProx": "our clients have FedProx's term as space.client.prox: use 'FedAvg'",
    "QFedAvg": "it needs the loss over training rows, which our clients do not send",
    "FedXgbBagging": "it joins trees of an app's own clients; see [app], or model.name = 'xgboost'",
    "FedXgbCyclic": "it hands on trees of an app's own clients; see [app], or model.name = 'xgboost'",
    "DifferentialPrivacyClientSideFixedClipping": "it needs a mod at clients; use the server-side one",
    "DifferentialPrivacyClientSideAdaptiveClipping": "it needs a mod at clients; use the server-side one",
}


@dataclass(frozen=True)
class NamedStrategy:
    """A strategy's class, inside others that wrap it, and how it is built."""

    name: str
    classes: tuple[type[Strategy], ...]

    @property
    def names(self) -> list[str]:
        """The constructor arguments that a study may fix or tune."""
        return sorted({name for kind in self.classes for name in arguments_of(kind)} - _NOT_TUNED)

    def build(self, values: Mapping[str, Any], cohort: int) -> Strategy:
        """A new one; arguments that nothing is said of keep their defaults."""
        found: Strategy | None = None
        for kind in reversed(self.classes):
            taken = arguments_of(kind)
            given = {name: value for name, value in values.items() if name in taken}
            if "num_sampled_clients" in taken:
                given.setdefault("num_sampled_clients", cohort)
            if found is not None:
                given["strategy"] = found
            try:
                found = kind(**given)
            except (TypeError, ValueError) as error:
                raise InputError(f"{KEY} = {self.name!r} cannot be built with {given}: {error}") from error
        assert found is not None
        return found

    def check(self, name: str) -> None:
        """Refuse a hyperparameter that is no argument of its constructors."""
        if name not in self.names:
            raise unknown_name(f"argument of {KEY} = {self.name!r},", name, self.names)


def arguments_of(kind: type[Any]) -> set[str]:
    """The arguments of a class' constructor; where it takes any, those of the classes above too."""
    found: set[str] = set()
    for one in inspect.getmro(kind):
        if "__init__" not in vars(one) or one is object:
            continue
        parameters = list(inspect.signature(one.__init__).parameters.values())[1:]  # type: ignore[misc]
        found |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def named_strategy(name: str, *, own_clients: bool = True) -> NamedStrategy:
    """The strategy meant by `Krum`, `DifferentialPrivacyServerSideFixedClipping(FedAdam)`, `my.module:Mine`.

    A wrapper without another inside has FedAvg there. With `own_clients`, fedhpo's, those are refused that
    need more of a client.

    >>> named_strategy("FedAdam").names
    ['beta_1', 'beta_2', 'eta', 'eta_l', 'tau']
    >>> [kind.__name__ for kind in named_strategy("DifferentialPrivacyServerSideFixedClipping").classes]
    ['DifferentialPrivacyServerSideFixedClipping', 'FedAvg']
    """
    classes: list[type[Strategy]] = []
    rest = name
    while rest:
        outer, bracket, inner = rest.partition("(")
        if bool(bracket) != inner.endswith(")"):
            raise InputError(f"{KEY} = {name!r}: must be a name, or 'Wrapper(Name)'")
        classes.append(_class(outer.strip(), name, own_clients))
        rest = inner.removesuffix(")")
    while "strategy" in arguments_of(classes[-1]):
        classes.append(FedAvg)
    for kind in classes[:-1]:
        if "strategy" not in arguments_of(kind):
            raise InputError(f"{KEY} = {name!r}: {kind.__name__} wraps no other strategy")
    return NamedStrategy(name, tuple(classes))


def _class(name: str, whole: str, own_clients: bool) -> type[Strategy]:
    if own_clients and name in _NEED_AN_APP:
        raise InputError(f"{KEY} = {whole!r}: {_NEED_AN_APP[name]}")
    known = [one for one in flowers.__all__ if one not in ("Strategy", "Result")]
    if not is_own(name) and name not in known:
        error = unknown_name("strategy", name, known)
        raise InputError(f"{KEY} = {whole!r}: {error}; your own is written 'package.module:Name'")
    found: Callable[..., Any] = import_object(name, KEY) if is_own(name) else getattr(flowers, name)
    if not isinstance(found, type) or not issubclass(found, Strategy):
        raise InputError(f"{KEY} = {whole!r}: must be a class that inherits from Flower's Strategy")
    return found
