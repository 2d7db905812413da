"""Runs a script of NVFlare's Client API, unchanged, for one task: its model, its task's name, its options.

The script asks `nvflare.client` for a model and sends one back; here both ends are ours. Hyperparameters
reach it as options of its `argparse` parser, as arguments of its torch optimiser, or in the `meta` of the
model, wherever it has them. All that is replaced for that is put back afterwards. Internals of NVFlare
(2.9) are touched in `_client_api` alone.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.client import api as client_api
from nvflare.client.api_spec import APISpec

from fedhpo.core.reads import ReadConfig
from fedhpo.core.streams import seeded
from fedhpo.federations.remote.replies import TaskFailed
from fedhpo.protocol.reasons import raised

TRAIN, VALIDATE = "train", "validate"
#: What is replaced is replaced for the whole process.
_ALONE = threading.Lock()


@dataclass
class Call:
    """One run of a script: what it is given, and what it sent."""

    task: str
    params: Mapping[str, Any]
    round: int
    site: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    seed: int | None = None
    used: set[str] = field(default_factory=set)
    sent: FLModel | None = None

    def __post_init__(self) -> None:
        self.meta = ReadConfig(self.hyperparameters)
        self.model = FLModel(params=dict(self.params), current_round=self.round)
        self.model.meta = self.meta  # given to FLModel it would be another dict

    @property
    def unused(self) -> list[str]:
        """Hyperparameters that the script has nowhere."""
        if self.meta.everything:
            return []
        return [name for name in self.hyperparameters if name not in self.used | self.meta.seen]


class _Api(APISpec):  # type: ignore[misc]  # NVFlare's classes are untyped
    """The Client API for one task: there is one model, and the script ends when it asks for another."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call, self._given = call, False

    def init(self, rank: str | None = None) -> None:
        """Nothing to do."""

    def receive(self, timeout: float | None = None) -> FLModel | None:
        """The task's model, once."""
        if self._given:
            return None
        self._given = True
        return self._call.model

    def send(self, model: FLModel, clear_cache: bool = True) -> None:
        """Take the script's reply."""
        if self._call.sent is not None:
            raise RuntimeError("flare.send was called twice for one flare.receive")
        self._call.sent = model

    def is_running(self) -> bool:
        """Whether there is something left to receive."""
        return not self._given

    def system_info(self) -> dict[str, Any]:
        """Where the script runs."""
        return {"site_name": self._call.site, "job_id": "fedhpo"}

    def get_config(self) -> dict[str, Any]:
        """There is none."""
        return {}

    def get_job_id(self) -> str:
        """A name for the job."""
        return "fedhpo"

    def get_site_name(self) -> str:
        """The site's name."""
        return self._call.site

    def get_task_name(self) -> str:
        """The task's name."""
        return self._call.task

    def is_train(self) -> bool:
        """Whether to train."""
        return self._call.task == TRAIN

    def is_evaluate(self) -> bool:
        """Whether to score only."""
        return self._call.task == VALIDATE

    def is_submit_model(self) -> bool:
        """Never asked for."""
        return False

    def log(self, key: str, value: Any, data_type: Any, **options: Any) -> bool:
        """What the script logs stays here."""
        return True

    def clear(self) -> None:
        """Nothing to do."""

    def shutdown(self) -> None:
        """Nothing to do."""


def run_script(script: Path, call: Call) -> FLModel:
    """Run a script to its end; what it sent. `TaskFailed` says what went wrong."""
    with (
        _ALONE,
        _client_api(call),
        _options(script, call),
        _optimisers(call),
        _own_modules(script),
        seeded(call.seed),
    ):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise TaskFailed(f"{script.name} ended with {end.code!r}") from None
        except Exception as error:
            raise TaskFailed(raised(error)) from error
    if call.sent is None:
        raise TaskFailed(f"{script.name} ended without flare.send")
    if call.unused:
        raise TaskFailed(
            f"{script.name} has no {call.unused[0]!r}: its parser has no such option, its optimiser no such "
            "argument, and it is not read from the model's meta; leave it out of [space.client]"
        )
    return call.sent


@contextlib.contextmanager
def _client_api(call: Call) -> Iterator[None]:
    """Let `nvflare.client` talk to this call."""

    class Context:
        api = _Api(call)

    with (
        mock.patch.object(client_api, "APIContext", return_value=Context()),
        mock.patch.object(client_api, "context_dict", {}),
        mock.patch.object(client_api, "default_context", None),
    ):
        yield


@contextlib.contextmanager
def _options(script: Path, call: Call) -> Iterator[None]:
    """Give hyperparameters to a parser that has options of their names, beside the script's own arguments."""
    parse = argparse.ArgumentParser.parse_known_args

    def known(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        if args is None:
            args = [*call.arguments, *_as_options(parser, call)]
        return parse(parser, args, namespace)

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_known_args", known),
        mock.patch.object(sys, "argv", [str(script), *call.arguments]),
    ):
        yield


def _as_options(parser: argparse.ArgumentParser, call: Call) -> list[str]:
    found = []
    for name, value in call.hyperparameters.items():
        actions = parser._option_string_actions
        options = [f"--{name}", f"--{name.replace('_', '-')}", f"--{name.replace('-', '_')}"]
        option = next((one for one in options if one in actions), None)
        if option is None:
            continue
        call.used.add(name)
        if actions[option].nargs != 0:
            found.append(f"{option}={value}")
        elif value:  # a flag
            found.append(option)
    return found


@contextlib.contextmanager
def _optimisers(call: Call) -> Iterator[None]:
    """Give hyperparameters that no option took to torch's optimisers, in place of what the script says."""
    from torch.optim import Optimizer

    make: Any = Optimizer.__init__

    def made(optimiser: Any, params: Any, defaults: dict[str, Any]) -> None:
        own = {name: call.hyperparameters[name] for name in call.hyperparameters if name not in call.used}
        mine = {name: value for name, value in own.items() if name in defaults}
        call.used.update(mine)
        make(optimiser, params, {**defaults, **mine})

    with mock.patch.object(Optimizer, "__init__", made):
        yield


@contextlib.contextmanager
def _own_modules(script: Path) -> Iterator[None]:
    """Let a script import the files beside it, as when it is started by hand."""
    with mock.patch.object(sys, "path", [str(script.parent), *sys.path]):
        yield
