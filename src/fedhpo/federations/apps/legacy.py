"""Apps of Flower's older API: `server_fn`, or `ServerApp(config=, strategy=)`, and its strategies.

`OlderStrategy` makes a strategy of `flwr.server.strategy` one of today's: what it hands to clients, and what
it gets from them, are the records that Flower's own compatibility layer writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import (
    evaluateins_to_recorddict,
    fitins_to_recorddict,
    recorddict_to_fitres,
)
from flwr.server import ServerApp
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.federations.flower.identity import assume_identity


def is_older(server: ServerApp) -> bool:
    """Whether a `ServerApp` has components in place of a `main`."""
    return server._main is None and (server._server_fn is not None or server._strategy is not None)


class _Proxy(ClientProxy):
    """A client as an older strategy knows it: a number, which cannot be asked anything."""

    def __init__(self, node: int) -> None:
        super().__init__(str(node))
        self.node_id = node

    def _refused(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("a strategy may not ask clients by itself in a tuning run")

    get_properties = get_parameters = fit = evaluate = reconnect = _refused


class _Cohort(ClientManager):
    """The clients of one round, all of which are taken whenever some are drawn."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._proxies: dict[str, ClientProxy] = {str(node): _Proxy(node) for node in nodes}

    def num_available(self) -> int:
        """All of them."""
        return len(self._proxies)

    def register(self, client: ClientProxy) -> bool:
        """Nobody comes."""
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Nobody goes."""

    def all(self) -> dict[str, ClientProxy]:
        """The cohort."""
        return dict(self._proxies)

    def wait_for(self, num_clients: int, timeout: int = 0) -> bool:
        """They are there."""
        return num_clients <= len(self._proxies)

    def sample(self, num_clients: int, min_num_clients: Any = None, criterion: Any = None) -> list[Any]:
        """As many as asked for, in order."""
        found = [one for one in self._proxies.values() if criterion is None or criterion.select(one)]
        return found[:num_clients]


class OlderStrategy(Strategy):
    """A strategy of `flwr.server.strategy` as one of `flwr.serverapp.strategy`."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy  # where fedhpo.federations.strategies looks for what is inside

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """`configure_fit`; values that a study tunes go before those of the strategy's own config."""
        cohort = _Cohort(grid.get_node_ids())
        pairs = self.strategy.configure_fit(server_round, _parameters(arrays), cohort)
        found = []
        for proxy, instructions in pairs:
            content = fitins_to_recorddict(instructions, keep_input=True)
            told = {**content.config_records["fitins.config"], **config}
            content.config_records["fitins.config"] = ConfigRecord(told)
            found.append(Message(content, int(proxy.cid), "train"))
        return found

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """`aggregate_fit`."""
        results = []
        for reply in replies:
            result = recorddict_to_fitres(reply.content, keep_input=True)
            results.append((_Proxy(reply.metadata.src_node_id), result))
        made, _ = self.strategy.aggregate_fit(server_round, results, [])
        return (None if made is None else arrays_of_parameters(made)), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy says."""
        cohort = _Cohort(grid.get_node_ids())
        pairs = self.strategy.configure_evaluate(server_round, _parameters(arrays), cohort)
        return [
            Message(evaluateins_to_recorddict(told, keep_input=True), int(proxy.cid), "evaluate")
            for proxy, told in pairs
        ]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Not used: scores go to the search."""
        return None

    def summary(self) -> None:
        """Nothing to say."""

    def server_metrics(self, server_round: int, arrays: ArrayRecord) -> Mapping[str, Any] | None:
        """`evaluate`, by which the server scores a model: its loss and its metrics."""
        found = self.strategy.evaluate(server_round, _parameters(arrays))
        if found is None:
            return None
        loss, metrics = found
        return {"loss": loss, **metrics}


def components_of(server: ServerApp, context: Any) -> tuple[Any, int]:
    """The strategy that the app would start with, and its number of rounds; refuses an own loop."""
    from flwr.server import Server

    one: Any = server
    if one._server_fn is not None:
        found = one._server_fn(context)
        own, config, strategy, manager = found.server, found.config, found.strategy, found.client_manager
    else:
        own, config, strategy, manager = one._server, one._config, one._strategy, one._client_manager
    if own is not None and type(own) is not Server:
        raise InputError(
            f"the app's server is a class of its own ({type(own).__module__}.{type(own).__name__}, a "
            f"subclass "
            "of flwr.server.Server), which drives the rounds by itself: what it does between rounds would be "
            "lost. Return ServerAppComponents(strategy=..., config=...) without server=, then tune again"
        )
    if manager is not None and own is None and type(manager).__module__.partition(".")[0] != "flwr":
        raise InputError(
            f"the app's client manager is a class of its own ({type(manager).__name__}), which draws the "
            "clients of a round: in a tuning run the search draws them. Leave client_manager= out"
        )
    strategy = own.strategy if own is not None else strategy
    if strategy is None:
        from flwr.server.strategy import FedAvg

        strategy = FedAvg()
    return strategy, int(config.num_rounds) if config is not None else 1


def first_arrays(strategy: Any, nodes: int) -> dict[str, NDArray[Any]]:
    """What the strategy would begin with."""
    found = strategy.initialize_parameters(_Cohort(range(1, nodes + 1)))
    if found is None:
        raise InputError(
            f"{type(strategy).__name__} has no initial_parameters: the app's server would begin with those "
            f"of "
            "a random client, so that no two trials begin alike. Give it initial_parameters"
        )
    return {str(place): array for place, array in enumerate(parameters_to_ndarrays(found))}


def fit_config(strategy: Any, arrays: Mapping[str, NDArray[Any]], round: int) -> dict[str, Any]:
    """The config that clients get in a round."""
    assume_identity(1, 1)
    pairs = strategy.configure_fit(round, ndarrays_to_parameters(list(arrays.values())), _Cohort([1]))
    return dict(pairs[0][1].config) if pairs else {}


def _parameters(arrays: ArrayRecord) -> Any:
    return ndarrays_to_parameters([array.numpy() for array in arrays.values()])


def arrays_of_parameters(parameters: Any) -> ArrayRecord:
    """Parameters as Flower's record, named by their places."""
    from flwr.app import Array

    found: Sequence[NDArray[Any]] = parameters_to_ndarrays(parameters)
    return ArrayRecord({str(i): Array(np.asarray(one, order="C")) for i, one in enumerate(found)})
