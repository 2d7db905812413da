"""What runs inside the processes of an NVFlare job: gives it values, and writes down what sites say.

Python loads it in every process of the job (`sitecustomize`, see `fedhpo.federations.jobs.run`), before the
job's own code; the job's files stay as they are. It needs nothing but Python's own modules. What to do stands
in the file that `FEDHPO_JOB` names. Internals of NVFlare (2.9) are touched here alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import numbers
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any

#: Callers that are looked at, from the nearest on.
_NEAR = 8
_LOCK = threading.Lock()


class Recorder:
    """The plan of a run, and the file to which this process writes."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self._file = os.path.join(plan["record"], f"{os.getpid()}.jsonl")
        self._once: set[str] = set()

    def write(self, kind: str, **facts: Any) -> None:
        """A line for whoever started the job."""
        with _LOCK, open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **facts}) + "\n")

    def once(self, kind: str, **facts: Any) -> None:
        """The same, but only the first time."""
        key = json.dumps([kind, facts], sort_keys=True)
        if key not in self._once:
            self._once.add(key)
            self.write(kind, **facts)

    def refuse(self, why: str) -> None:
        """End the job: it cannot be tuned."""
        self.write("refused", why=why)
        os._exit(3)

    # What the job reads

    def parser(self, argparse: Any) -> None:
        """Options of the parsers of the job's own files get the values of their names."""
        parse = argparse.ArgumentParser.parse_known_args

        def known(parser: Any, args: Any = None, namespace: Any = None) -> Any:
            file = self._own_caller(argparse.__file__)
            if file is not None and args is None:
                args = [*sys.argv[1:], *self._options(parser, file)]
            return parse(parser, args, namespace)

        argparse.ArgumentParser.parse_known_args = known

    def _own_caller(self, beside: str) -> str | None:
        """The nearest caller's file if it is one of the job's."""
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == beside:
            frame = frame.f_back
        path = "" if frame is None else frame.f_code.co_filename
        name = os.path.basename(path)
        return name if name in self.plan["files"] and "site-packages" not in path else None

    def _options(self, parser: Any, file: str) -> list[str]:
        actions = parser._option_string_actions
        found = []
        for name, value in self.plan["options"].items():
            spelt = [f"--{name}", f"--{name.replace('_', '-')}", f"--{name.replace('-', '_')}"]
            option = next((one for one in spelt if one in actions), None)
            if option is None:
                continue
            self.once("bound", name=name, where=file)
            if actions[option].nargs != 0:
                found.append(f"{option}={value}")
            elif value != actions[option].default:
                off = f"--no-{option[2:]}"
                found.append(option if value or off not in actions else off)
        return found

    def argument(self, literal: dict[str, Any]) -> Callable[[Any], None]:
        """A function or class of a module: one of its arguments gets a value in calls from a file."""

        def patch(module: Any) -> None:
            owner, target = module, module
            for part in literal["path"]:
                owner, target = target, getattr(target, part, None)
                if target is None:
                    self.refuse(f"{literal['name']}: {literal['module']} has no {'.'.join(literal['path'])}")
            is_class = inspect.isclass(target)
            original = target.__init__ if is_class else target
            name, value, caller = literal["argument"], literal["value"], literal["caller"]

            def note() -> bool:
                if caller is not None and not _called_from(caller):
                    return False
                self.once("bound", name=literal["name"], where=caller or literal["module"])
                return True

            call = with_argument(original, name, value, note)
            if call is None:
                self.refuse(f"{literal['name']}: {'.'.join(literal['path'])} has no argument {name!r}")
            setattr(target if is_class else owner, "__init__" if is_class else literal["path"][-1], call)

        return patch

    def rounds(self, base: Any) -> None:
        """Pass the number of rounds to subclasses that are defined from here on."""
        told = self.plan["rounds"]
        before = base.__init_subclass__.__func__ if "__init_subclass__" in base.__dict__ else None

        def made(cls: Any, /, **options: Any) -> None:
            if before is not None:
                before(cls, **options)
            init = cls.__dict__.get("__init__")
            if init is None or "num_rounds" not in inspect.signature(init).parameters:
                return

            call = with_argument(init, "num_rounds", told, lambda: told is not None)
            signature = inspect.signature(init)

            @functools.wraps(init)
            def noted(*args: Any, **kwargs: Any) -> None:
                bound = signature.bind_partial(*args, **kwargs)
                bound.apply_defaults()
                own = bound.arguments.get("num_rounds")
                self.once("rounds", own=own if isinstance(own, int) else None)
                (call or init)(*args, **kwargs)

            cls.__init__ = noted

        base.__init_subclass__ = classmethod(made)

    # What the job does

    def environments(self, module: Any) -> None:
        """Recipes run in the simulator: where they say how many clients there are."""
        for name in ("PocEnv", "ProdEnv"):
            other: Any = getattr(module, name, None)
            if other is not None:
                why = f"the job runs in {name}: let it run in NVFlare's simulator (SimEnv) to be tuned here"
                other.deploy = lambda *_, why=why, **__: self.refuse(why)
        kind = getattr(module, "SimEnv", None)
        if kind is None:
            return
        deploy = kind.deploy

        def deployed(env: Any, job: Any) -> Any:
            names = list(env.clients or []) or [f"site-{one + 1}" for one in range(env.num_clients)]
            self.write("job", name=str(job.name), sites=names)
            if self.plan["probe"]:
                os._exit(0)
            return deploy(env, job)

        kind.deploy = deployed

    def simulated(self, module: Any) -> None:
        """Jobs that are simulated without a recipe."""
        run = module.FedJob.simulator_run

        def simulator_run(job: Any, workspace: str, *args: Any, **options: Any) -> Any:
            own = inspect.signature(run).bind(job, workspace, *args, **options).arguments
            names = own.get("clients") or []
            names = names.split(",") if isinstance(names, str) else list(names)
            count = own.get("n_clients") or len(names)
            self.once("job", name=str(job.name), sites=names or [f"site-{one + 1}" for one in range(count)])
            if self.plan["probe"]:
                os._exit(0)
            root = os.environ.get("NVFLARE_SIMULATOR_WORKSPACE_ROOT", workspace)
            return run(job, os.path.join(root, str(job.name)), *args, **options)

        module.FedJob.simulator_run = simulator_run

    def recipes(self, module: Any) -> None:
        """Recipes: how many rounds, and whether sites score the final model."""
        self.rounds(module.Recipe)
        execute = module.Recipe.execute

        def executed(recipe: Any, *args: Any, **options: Any) -> Any:
            if self.plan["final"]:
                self._add_final(recipe)
            return execute(recipe, *args, **options)

        module.Recipe.execute = executed

    def _add_final(self, recipe: Any) -> None:
        from nvflare.recipe import utils

        if getattr(recipe, "_cse_added", False) or utils._has_cross_site_eval_workflow(recipe._job):
            return
        try:
            utils.add_final_global_evaluation(recipe)
        except Exception as error:
            self.refuse(
                f"objective.from = 'clients': NVFlare cannot let the job's sites score its final model "
                f"({error}); choose from = 'training'"
            )

    def submissions(self, module: Any) -> None:
        """The server: what sites reply."""
        process = module.ServerRunner.process_submission

        def processed(runner: Any, client: Any, task_name: str, task_id: str, result: Any, ctx: Any) -> Any:
            with contextlib.suppress(Exception):
                self._reply(str(client.name), task_name, result)
            return process(runner, client, task_name, task_id, result, ctx)

        module.ServerRunner.process_submission = processed

    def _reply(self, site: str, task: str, result: Any) -> None:
        from nvflare.apis.dxo import DataKind, MetaKey, from_shareable

        code = str(result.get_return_code("OK"))
        metrics, size = {}, 0
        if code == "OK":
            found = from_shareable(result)
            metrics = (
                found.data
                if found.data_kind == DataKind.METRICS
                else found.get_meta_prop(MetaKey.INITIAL_METRICS)
            )
            if found.data_kind != DataKind.METRICS and isinstance(found.data, dict):
                size = sum(int(getattr(one, "nbytes", 0)) for one in found.data.values())
        told = {str(key): float(value) for key, value in _numbers(metrics)}
        number = result.get_header("current_round")
        owner = result.get_header("_model_owner_") or result.get_header("model_owner")
        self.write(
            "reply",
            site=site,
            task=task,
            round=number if isinstance(number, int) else None,
            metrics=told,
            bytes=size,
            code=code,
            owner=None if owner is None else str(owner),
        )

    def tracked(self, module: Any) -> None:
        """Sites: what they track (`SummaryWriter.add_scalar`, XGBoost's metrics)."""
        create = module.create_analytic_dxo

        @functools.wraps(create)
        def created(tag: str, value: Any, data_type: Any, *args: Any, **options: Any) -> Any:
            with contextlib.suppress(Exception):
                pairs = value.items() if isinstance(value, dict) else [(tag, value)]
                for name, one in _numbers(dict(pairs)):
                    step = options.get("global_step")
                    self.write("scalar", site=self.site, tag=name, value=float(one), step=step)
            return create(tag, value, data_type, *args, **options)

        module.create_analytic_dxo = created

    def boards(self, module: Any) -> None:
        """Sites: what they write for TensorBoard by themselves."""
        add = module.SummaryWriter.add_scalar

        @functools.wraps(add)
        def added(writer: Any, tag: str, scalar_value: Any, *args: Any, **options: Any) -> Any:
            if self.site:  # the server writes what sites have tracked
                for name, one in _numbers({tag: scalar_value}):
                    self.write("scalar", site=self.site, tag=name, value=one, step=None)
            return add(writer, tag, scalar_value, *args, **options)

        module.SummaryWriter.add_scalar = added

    @property
    def site(self) -> str:
        """Whose process this is, as far as its command says; empty for the server's."""
        words = list(getattr(sys, "orig_argv", []))
        return words[words.index("--client") + 1] if "--client" in words[:-1] else ""

    def seed(self, module: Any) -> None:
        """Random numbers follow the run's seed, in each process its own."""
        seed = zlib.crc32(f"{self.plan['seed']}/{self.site}".encode())
        if module.__name__ == "torch":
            module.manual_seed(seed)
        elif module.__name__ == "numpy.random":
            module.seed(seed)
        else:
            module.seed(seed)


def _numbers(given: Any) -> Iterator[tuple[str, float]]:
    for key, value in (given or {}).items():
        if callable(getattr(value, "item", None)):
            with contextlib.suppress(Exception):
                value = value.item()
        if not isinstance(value, bool) and isinstance(value, numbers.Real):
            yield str(key), float(value)


def with_argument(
    original: Any, name: str, value: Any, wanted: Callable[[], bool]
) -> Callable[..., Any] | None:
    """A function with one argument bound by signature in the calls that are wanted; None if it has none."""
    signature = inspect.signature(original)
    rest = [one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    if name not in signature.parameters and not rest:
        return None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not wanted():
            return original(*args, **kwargs)
        bound = signature.bind_partial(*args, **kwargs)
        if name in signature.parameters:
            bound.arguments[name] = value
        else:
            bound.arguments.setdefault(rest[0], {})[name] = value
        return original(*bound.args, **bound.kwargs)

    return call


def _called_from(file: str) -> bool:
    frame: Any = sys._getframe(3)
    for _ in range(_NEAR):
        if frame is None:
            return False
        if os.path.basename(frame.f_code.co_filename) == file:
            return True
        frame = frame.f_back
    return False


class _Finder:
    """Calls a function when a module has been imported."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Callable[[Any], None]]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.hooks:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def run(module: Any) -> None:
            execute(module)
            for hook in self.hooks.get(name, []):
                hook(sys.modules.get(name, module))

        with contextlib.suppress(AttributeError):  # what Python has built in
            loader.exec_module = run
        return spec


def install(plan: dict[str, Any]) -> None:
    """Do what the plan says in this process."""
    recorder, finder = Recorder(plan), _Finder()

    def after(module: str, hook: Callable[[Any], None]) -> None:
        if module in sys.modules:
            hook(sys.modules[module])
        else:
            finder.hooks.setdefault(module, []).append(hook)

    sys.meta_path.insert(0, finder)
    import argparse
    import random

    recorder.parser(argparse)
    recorder.seed(random)
    for module in ("torch", "numpy.random"):
        after(module, recorder.seed)
    after("nvflare.recipe.spec", recorder.recipes)
    after("nvflare.apis.impl.controller", lambda module: recorder.rounds(module.Controller))
    for name in ("sim_env", "poc_env", "prod_env"):
        after(f"nvflare.recipe.{name}", recorder.environments)
    after("nvflare.job_config.api", recorder.simulated)
    after("nvflare.private.fed.server.server_runner", recorder.submissions)
    after("nvflare.apis.utils.analytix_utils", recorder.tracked)
    after("torch.utils.tensorboard.writer", recorder.boards)
    for literal in plan["literals"]:
        after(literal["module"], recorder.argument(literal))
    if plan["setup"]:
        name, _, function = plan["setup"].partition(":")
        getattr(importlib.import_module(name), function)(after)
