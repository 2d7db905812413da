"""What a wrong command or option may have meant."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

from fedhpo.core.errors import nearest

#: Commands of other tools, and ours.
MEANS = {
    "optimize": "tune",
    "optimise": "tune",
    "search": "tune",
    "run": "tune",
    "train": "tune",
    "fit": "tune",
    "start": "tune",
    "continue": "resume",
    "restart": "resume",
    "list": "runs",
    "ls": "runs",
    "status": "runs",
    "studies": "runs",
    "dashboard": "ui",
    "serve": "ui",
    "init": "new",
    "create": "new",
    "create-study": "new",
    "validate": "check",
    "dry-run": "check",
    "lint": "check",
    "plot": "report",
    "show": "report",
    "inference": "predict",
    "help": "--help",
    "version": "--version",
}
#: Options of other tools, and ours.
OPTIONS = {
    "--n-trials": "method.trials in the study file",
    "--trials": "method.trials in the study file",
    "--n-jobs": "--workers",
    "--jobs": "--workers",
    "--num-workers": "--workers",
    "--n-workers": "--workers",
    "--study-name": "--name",
    "--storage": "--runs",
    "--output-dir": "--runs",
    "--log-dir": "--runs",
    "--random-state": "--seed",
    "--gpu": "--device",
    "--cuda": "--device",
    "--silent": "--quiet",
    "--time-limit": "--timeout",
    "--max-time": "--timeout",
    "--rounds": "budget.rounds in the study file",
    "--epochs": "space.client.epochs in the study file",
    "--lr": "space.client.lr in the study file",
    "--method": "method.name in the study file",
    "--sampler": "method.name in the study file",
    "--dry-run": "fedhpo check STUDY",
    "--resume": "fedhpo resume RUN",
}


class Parser(argparse.ArgumentParser):
    """A parser that suggests what was meant."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; an unknown command or option is answered with the nearest one."""
        given = list(args or ())
        commands = self._commands()
        first = next((one for one in given if not one.startswith("-")), None)
        for one in itertools.takewhile(lambda one: one.startswith("-"), given):
            if one not in self._option_string_actions:
                self._refuse("option", one, _options(self), OPTIONS.get(one))
        if first is not None and first not in commands:
            self._refuse("command", first, list(commands), MEANS.get(first))
        asked = commands.get(first or "", self)
        found, left = self.parse_known_args(given, namespace)
        if left:
            wrong = left[0]
            if wrong.startswith("-"):
                wrong = wrong.partition("=")[0]
                self._refuse("option", wrong, _options(asked), OPTIONS.get(wrong), asked)
            asked.error(f"{wrong!r} is one argument too many")
        return found

    def _commands(self) -> dict[str, argparse.ArgumentParser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _refuse(
        self,
        kind: str,
        given: str,
        known: Sequence[str],
        means: str | None,
        asked: argparse.ArgumentParser | None = None,
    ) -> NoReturn:
        meant = means or nearest(given, known)
        hint = "" if meant is None else f": write {meant}" if " " in meant else f": did you mean {meant!r}?"
        (asked or self).error(f"there is no {kind} {given!r}{hint or '; --help lists them'}")


def _options(asked: argparse.ArgumentParser) -> list[str]:
    """All options of a command."""
    return [name for action in asked._actions for name in action.option_strings]
