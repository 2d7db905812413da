"""`simulate`: one call from a model and clients' data to a federation on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fedhpo.aggregation.aggregation import Aggregation, refuse_beside
from fedhpo.aggregation.own_rule import Rule, rule_of
from fedhpo.core.claims import refuse_unhonoured
from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.data import FederatedData, from_clients, without_missing
from fedhpo.engine.context import TrainFunction
from fedhpo.engine.device import chosen
from fedhpo.engine.executor import Setup
from fedhpo.engine.factory import model_factory
from fedhpo.engine.flat import ModelFactory
from fedhpo.engine.loss import LossFunction
from fedhpo.engine.outputs import Collate
from fedhpo.federations.fleet import Fleet
from fedhpo.federations.simulated import SimulatedFederation


def _check(loss: Any, train: Any, device: Any, stacking: Any) -> None:
    for name, function in (("loss", loss), ("train", train)):
        if function is not None and not callable(function):
            raise InputError(f"{name} must be a function, not {shown(function)}")
    if not isinstance(stacking, bool):
        raise InputError(f"stacking must be True or False, not {shown(stacking)}")
    if not isinstance(device, str | torch.device):
        raise InputError(
            f"device must be the name of a torch device, such as 'cpu' or 'cuda', not {shown(device)}"
        )
    try:
        torch.empty(1, device=chosen(str(device)))
    except (
        Exception
    ) as error:  # torch raises what it likes: AssertionError, RuntimeError, NotImplementedError
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"device = {str(device)!r} cannot be used here ({why}): write device='cpu'"
        ) from None


def simulate(
    model: str | nn.Module | ModelFactory,
    data: Any,
    *,
    server: str = "fedavg",
    strategy: str | None = None,
    weighting: str = "size",
    aggregation: str | Mapping[str, Any] | Rule = "mean",
    trim: float = 0.1,
    clip_norm: float | None = None,
    weight_cap: float | None = None,
    loss: LossFunction | None = None,
    train: TrainFunction | None = None,
    collate: Collate | None = None,
    workers: int | None = None,
    device: str = "cpu",
    stacking: bool = True,
    missing: float = 0.0,
    fleet: Fleet | None = None,
    ray: str | None = None,
) -> SimulatedFederation:
    """A federation on this machine, or on those of a Ray cluster.

    Parameters
    ----------
    model
        A name from `fedhpo.models`, a callable that builds a `torch.nn.Module` (a class, say) and takes
        the model's hyperparameters, if there are any, as keywords, or a module, whose weights are then
        every trial's first.
    data
        A `fedhpo.data.FederatedData`, or what `fedhpo.data.from_clients` takes: for each client a pair of
        arrays, or a `torch.utils.data.Dataset`.
    server
        The server optimiser: fedavg, fedavgm, fedadagrad, fedadam, fedyogi, or fedexp, which has no
        learning rate. A server hyperparameter named `optimiser` takes precedence.
    strategy
        In place of server optimiser and aggregation, one of Flower's strategies by name ("Krum"), or
        "package.module:Name"; server hyperparameters are then the arguments of its constructor.
    weighting, aggregation, trim, clip_norm, weight_cap
        How updates are put together; see `fedhpo.aggregation.aggregation.Aggregation`. A rule of your own is
        given as an object, or by "package.module:Name".
    loss
        `loss(output, target)` gives one loss per sample, in place of cross-entropy (of squared error for
        float targets).
    train
        `train(model, data, hyperparameters, context)` trains the module in place, instead of SGD; `data.x`
        and `data.y` are the client's training tensors, and the context is a `fedhpo.TrainContext`. A last
        parameter of another name is given a `torch.Generator`.
    collate
        `collate(rows)` makes a batch, in training and scoring: of dicts, such as the data collators of
        transformers take, a dict of tensors with "labels"; of pairs `(x, y)` a pair of tensors.
    workers
        Worker processes; None for one per core, 0 to train in this process.
    device
        "cpu", a torch device such as "cuda" or "mps", or "auto" for a GPU where there is one. On a GPU
        training runs in this process. No real GPU was tried.
    stacking
        Whether trainings of tiny models may be stacked.
    missing
        The probability that a client does not reply in a round.
    fleet
        When clients are there, how fast they are and how they fail: then rounds take simulated time; see
        `fedhpo.Fleet`.
    ray
        The address of a Ray cluster that trains, "auto" for one that was started on this machine;
        `workers` are then the cluster's, by default one for each of its cores.

    Examples
    --------
    >>> import fedhpo as fh
    >>> federation = fh.simulate("mlp", fh.load("digits", clients=10), workers=0)
    >>> federation.start(0, model={}, seed=0)
    >>> [report] = federation.round([fh.Work(trial=0, cohort=[1, 4, 7], client={"lr": 0.5})])
    >>> report.round, report.status.tolist()
    (1, [0, 0, 0])
    """
    if not isinstance(data, FederatedData):
        data = from_clients(data)
    data = without_missing(data)
    _check(loss, train, device, stacking)
    if collate is not None and not callable(collate):
        raise InputError(f"collate must be a function, not {shown(collate)}")
    if collate is not None and train is not None:
        raise InputError("collate: has no effect beside train, which makes its own batches: leave it out")
    if fleet is not None and not isinstance(fleet, Fleet):
        raise InputError(f"fleet must be a fedhpo.Fleet, not {shown(fleet)}")
    rule, own = rule_of(aggregation, Aggregation.RULES)
    how = Aggregation(weighting, rule, trim, clip_norm, weight_cap, own)
    refuse_beside(strategy, server, how, usual=Aggregation())
    if fleet is not None:
        refuse_unhonoured(fleet, "fleet")
    setup = Setup(model_factory(model, data), data, loss, train, chosen(str(device)), collate=collate)
    settings: dict[str, Any] = {
        "server": server,
        "strategy": strategy,
        "aggregation": how,
        "workers": workers,
        "stacking": stacking,
        "missing": missing,
        "fleet": fleet,
    }
    if ray is not None:
        from fedhpo.federations.ray import on_ray

        settings |= {"runtime": "ray", "pool": on_ray(setup, ray, workers)}
    return SimulatedFederation(setup, **settings)
