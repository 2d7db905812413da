"""What a study does with proxy data: a search whose result is trained once, or FedTune's reference table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.methods import METHODS, FedTune, RandomSearch
from fedhpo.protocol.method import Method
from fedhpo.study.methods import method_in
from fedhpo.study.sections import ProxyBudget
from fedhpo.tuning.proxy import ProxySearch

if TYPE_CHECKING:
    from fedhpo.study.study import Study


class Proxied:
    """A search on the proxy data; the config it finds is trained."""

    fills_table: ClassVar[bool] = False
    #: What the budget on proxy data has, whatever the file says.
    budget: ClassVar[Mapping[str, Any]] = {}

    def check(self, method: Mapping[str, Any], proxy: Mapping[str, Any]) -> None:
        """Refuse what belongs elsewhere."""
        if method:
            raise InputError("method: leave it out; what searches the proxy data stands in proxy.method")

    def tables(self, study: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
        """The tables of the search on proxy data, as a study of its own."""
        given = study["proxy"]
        self.check(method, given)
        same = ("client", "model", "server", "space", "seed")
        budget = {key: value for key, value in study["budget"].items() if key in ProxyBudget.model_fields}
        return {
            **{key: table for key, table in study.items() if key in same},
            "data": given["data"],
            "method": {"name": RandomSearch.name, **given.get("method", {})},
            "objective": study.get("objective", {}),
            "budget": {**budget, **given.get("budget", {}), **self.budget},
        }

    def method(
        self, settings: Mapping[str, Any], proxy: Study, workers: int | None, callbacks: Sequence[Any]
    ) -> Method:
        """The method of the whole study, given its section and the study of the proxy data."""
        budget = proxy.file.budget
        return ProxySearch(
            lambda: proxy.federation(workers),
            proxy.method,
            budget.rounds,
            budget.total,
            budget.cohort,
            callbacks=callbacks,
        )


class TableProxied(Proxied):
    """FedTune: its table is filled with simulated clients that train as the study says."""

    fills_table: ClassVar[bool] = True
    budget: ClassVar[Mapping[str, Any]] = {"cohort": 1}

    def check(self, method: Mapping[str, Any], proxy: Mapping[str, Any]) -> None:
        """Refuse what belongs elsewhere."""
        for key in ("method", "budget"):
            if key in proxy:
                raise InputError(f"proxy.{key}: leave it out; how fedtune fills its table stands in [method]")
        refuse(
            f"proxy.data.{key}: has no effect with fedtune, which deals all rows to clients of its own: "
            "leave it out"
            for key in ("partition", "split")
            if key in proxy.get("data", {})
        )

    def method(
        self, settings: Mapping[str, Any], proxy: Study, workers: int | None, callbacks: Sequence[Any]
    ) -> Method:
        """FedTune with the proxy set of the study."""
        found = method_in(settings)
        assert isinstance(found, FedTune)
        if found.table is not None:
            raise InputError("method.table: leave it out where there is [proxy], or leave out [proxy]")
        return replace(
            found, proxy=proxy.load_data, simulate=lambda data: proxy.federation(workers, data=data)
        )


def proxied_by(method: Mapping[str, Any]) -> Proxied:
    """By the section [method]."""
    found = METHODS.get(str(method.get("name")))
    return TableProxied() if found is not None and issubclass(found, FedTune) else Proxied()
