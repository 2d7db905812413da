"""A client whose training is a script of NVFlare's Client API (`flare.init`, `receive`, `send`), as it is."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from fedhpo.core.errors import InputError
from fedhpo.core.objects import import_object
from fedhpo.core.streams import derive
from fedhpo.core.vectors import named_parts
from fedhpo.engine.flat import FlatModel, build
from fedhpo.federations.remote.messages import NamedArrays, Scored, Task, Trained
from fedhpo.federations.remote.replies import TaskFailed
from fedhpo.nvflare.client import Client, Site
from fedhpo.nvflare.hosted import TRAIN, VALIDATE, Call, run_script
from fedhpo.parties.answers import Answers
from fedhpo.parties.trainee import Rows

FRAMEWORKS = ("pytorch", "numpy")


class ScriptClient(Client):
    """Trains by a script; names in `[space.client]` are its own.

    A name is given to the script as an option of its `argparse` parser (`--epochs`) if it has one, else to
    its torch optimiser (`lr`, `momentum`), in place of what the script says; else it must look it up in the
    `meta` of the model. A name that the script has nowhere fails, with the reason.

    `script` is a file of the job's: add it by `recipe.add_client_file(...)`. `arguments` are further ones for
    it. `metric` is the name in `FLModel.metrics` by which configs are compared, a share of 1 once it is
    multiplied by `scale` if it is `maximise`d, else a loss; as NVFlare has it, the metrics of a reply are
    those of the model that was received. `framework` is what the script takes models to be made of.
    """

    def __init__(
        self,
        script: str,
        arguments: Sequence[str] = (),
        metric: str = "accuracy",
        maximise: bool = True,
        scale: float = 1.0,
        framework: str = "pytorch",
    ) -> None:
        super().__init__()
        if framework not in FRAMEWORKS:
            raise InputError(f"framework = {framework!r}: must be one of {', '.join(FRAMEWORKS)}")
        self.script, self.arguments = script, [str(one) for one in arguments]
        self.metric, self.maximise, self.scale, self.framework = metric, maximise, scale, framework

    def answers(self) -> Answers:
        """What this client answers; nothing without its script."""
        found(self.script)
        return super().answers()

    def train(self, arrays: NamedArrays, task: Task, site: Site) -> Trained:
        """One run of the script."""
        sent = self._run(TRAIN, arrays, task, site, task.config)
        if not sent.params:
            raise TaskFailed(f"{Path(self.script).name} sent no params after training")
        after = {name: _array(value) for name, value in sent.params.items()}
        if sent.params_type == ParamsType.DIFF:
            after = {name: arrays[name] + change for name, change in after.items()}
        before = Scored(1, *self._scores(sent)) if "before" in task.scores else Scored(1)
        later = self.evaluate(after, task, site) if "after" in task.scores else Scored(1)
        rows = self._rows(site)
        return Trained(
            after,
            rows["train"],
            rows["validation"],
            before.loss,
            later.loss,
            before.accuracy,
            later.accuracy,
        )

    def evaluate(self, arrays: NamedArrays, task: Task, site: Site) -> Scored:
        """The script's metrics of a model. One that never asks `flare.is_evaluate()` trains too."""
        sent = self._run(VALIDATE, arrays, task, site, {})
        loss, accuracy = self._scores(sent)
        if math.isnan(loss):
            told = ", ".join(sorted(sent.metrics or {})) or "none"
            raise TaskFailed(f"{Path(self.script).name} sent no metric {self.metric!r}; it sent {told}")
        size = self._rows(site).get(task.split, 0)
        return Scored(size, loss, accuracy, {name: sent.metrics.get(name) for name in task.metrics})

    def _run(
        self, kind: str, arrays: NamedArrays, task: Task, site: Site, config: Mapping[str, Any]
    ) -> FLModel:
        call = Call(
            kind,
            {name: self._given(array) for name, array in arrays.items()},
            task.round,
            site.name,
            config,
            self.arguments,
            derive(*task.seed, task.client) if task.seed else derive(0, kind),
        )
        return run_script(found(self.script), call)

    def _rows(self, site: Site) -> Mapping[str, int]:
        """The rows that a subclass tells; without, one of each, so that all clients weigh the same."""
        return {"train": 1, "validation": 1} if self.sizes is None else self.sizes(site)

    def _given(self, array: Any) -> Any:
        if self.framework == "numpy":
            return np.array(array)
        import torch

        return torch.from_numpy(np.array(array))

    def _scores(self, sent: FLModel) -> tuple[float, float]:
        """Loss and accuracy, the script's metric in the place of both; NaN where it sent none."""
        value = (sent.metrics or {}).get(self.metric)
        if value is None:
            return math.nan, math.nan
        value = float(value) * self.scale
        if not self.maximise:
            return value, math.nan
        if not 0 <= value <= 1:
            raise TaskFailed(
                f"{self.metric} = {value:g} is no share of 1: set scale, say scale = 0.01 for a percentage"
            )
        return 1 - value, value


@dataclass(frozen=True)
class Script:
    """A script of NVFlare's Client API as a trainee, which runs wherever parties are asked.

    `[model] name = "fedhpo.nvflare:Script"` in a study, with these fields as keys: the script's `path`, the
    `network` that the server begins with (`package.module:Name`, a torch module), the rest as of
    `ScriptClient`. A client is called `site-1`, `site-2` and so on where it has no name.
    """

    path: str
    network: str
    arguments: tuple[str, ...] = ()
    metric: str = "accuracy"
    maximise: bool = True
    scale: float = 1.0

    #: The script's own: see `ScriptClient`.
    hyperparameters: ClassVar[Sequence[str] | None] = None

    def first(self, seed: int, **model: Any) -> Mapping[str, NDArray[Any]]:
        """The network's weights, named as in its state."""
        built = FlatModel(build(import_object(self.network, "model.network"), model, seed))
        return named_parts(built.shapes, built.vector())

    def train(self, arrays: NamedArrays, task: Task, rows: Rows) -> Trained:
        """One run of the script."""
        return _client(self).train(arrays, task, _site(rows))

    def evaluate(self, arrays: NamedArrays, task: Task, rows: Rows) -> Scored:
        """The script's metrics of a model."""
        return _client(self).evaluate(arrays, task, _site(rows))


@cache
def _client(script: Script) -> ScriptClient:
    return ScriptClient(script.path, script.arguments, script.metric, script.maximise, script.scale)


def _site(rows: Rows) -> Site:
    return Site({"name": rows.name or f"site-{rows.client + 1}"})


def found(script: str) -> Path:
    """Where a file of the job's lies: NVFlare puts the directory of such files on Python's path."""
    for place in ("", *sys.path):
        path = Path(place) / script
        if path.is_file():
            return path
    raise InputError(
        f"script = {script!r}: not found; add it to the job by recipe.add_client_file({script!r})"
    )


def _array(value: Any) -> Any:
    """A tensor or array as an array of ours."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, np.float32)
