"""A side in a process of its own, so that two versions of the same module can be compared.

The process is asked by lines of JSON on its standard input and answers on its standard output, of which
whatever the user's code prints is no part.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.referee.sides.opened import APP, FUNCTION, RUN, STUDY, Options, kind_of, open_side
from fedhpo.referee.sides.side import Side, Terms, Training
from fedhpo.study.recorded import recorded_study
from fedhpo.study.unchanged import Checked


class ProcessSide:
    """Opens `source` in a process whose modules are first looked up beside it."""

    def __init__(self, source: str, options: Options) -> None:
        self.name = source
        path = Path(source)
        place = path if path.is_dir() else path.parent if path.is_file() else Path.cwd()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fedhpo.referee.sides.apart", str(place.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            process_group=0,  # Ctrl-C ends this process, which ends that one
        )
        try:
            found = self._ask({"open": source, "options": options.to_dict()})
        except BaseException:
            self.close()
            raise
        self.terms = Terms(**found)

    def train(
        self, seed: int, clients: Sequence[int] | None, config: Mapping[str, Any] | None = None
    ) -> Training:
        """One training, there."""
        asked = None if clients is None else list(clients)
        return Training.from_dict(self._ask({"train": seed, "clients": asked, "config": config}))

    def tune(self, rounds: int, seed: int, clients: Sequence[int] | None) -> dict[str, Any]:
        """Tune it, there."""
        asked = None if clients is None else list(clients)
        found: dict[str, Any] = self._ask({"tune": rounds, "seed": seed, "clients": asked})
        return found

    def _ask(self, call: Mapping[str, Any]) -> Any:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(json.dumps(call) + "\n")
            into.flush()
            line = out.readline()
        except (OSError, ValueError):
            line = ""
        except BaseException:
            self._process.kill()  # it may be in the middle of a long training
            raise
        if not line:
            raise FedhpoError(f"{self.name}: its process has ended; what it said is on standard error")
        answer = json.loads(line)
        if "error" in answer:
            raise (InputError if answer["input"] else FedhpoError)(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def opened(source: Any, options: Options) -> Side:
    """The side: in a process of its own where it brings code of its own, by a fixed rule."""
    if isinstance(source, Checked):
        source, options = source.source, replace(options, checked=source.digest)
    if isinstance(source, str | Path) and brings_code(str(source)):
        return ProcessSide(str(source), options)
    return open_side(source, options)


def brings_code(source: str) -> bool:
    """Whether a side imports the user's modules."""
    kind = kind_of(source)
    if kind in (APP, FUNCTION):
        return True
    if kind == STUDY:
        try:  # not as a study yet, which may import what it names
            return _names_code(tomllib.loads(Path(source).read_text(encoding="utf-8")))
        except (ValueError, RecursionError):
            return False  # what is wrong with it is said when it is read
    if kind == RUN:
        found = recorded_study(source)
        return found is not None and _names_code(found.asked)
    return False


def _names_code(value: Any) -> bool:
    """Whether some text in a study's tables is `package.module:Name`, or it tunes an app."""
    if isinstance(value, Mapping):
        return "app" in value or "job" in value or any(map(_names_code, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_names_code, value))
    return isinstance(value, str) and ":" in value and " " not in value


def _answer(side: Side | None, call: Mapping[str, Any]) -> tuple[Side, Any]:
    if "open" in call:
        side = open_side(call["open"], Options(**call["options"]))
        return side, side.terms.to_dict()
    assert side is not None
    if "tune" in call:
        return side, side.tune(call["tune"], call["seed"], call["clients"])
    return side, side.train(call["train"], call["clients"], call["config"]).to_dict()


def main() -> None:
    """Answer until standard input ends."""
    place = sys.argv[1]
    sys.path[:] = [place, *(entry for entry in sys.path[1:] if entry != place)]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with contextlib.suppress(BrokenPipeError), out:  # whoever asked may have been killed
        os.dup2(2, 1)
        side: Side | None = None
        for line in sys.stdin:
            try:
                side, value = _answer(side, json.loads(line))
                answer: dict[str, Any] = {"value": value}
            except Exception as error:
                told = str(error) if isinstance(error, FedhpoError) else f"{type(error).__name__}: {error}"
                answer = {"error": told, "input": isinstance(error, InputError)}
            print(json.dumps(answer), file=out, flush=True)
        if side is not None:
            side.close()


if __name__ == "__main__":
    main()
