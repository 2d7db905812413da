"""What reproductions share besides the loop over their runs (`fedhpo_papers.shared.planned`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fedhpo.core.errors import InputError, Terminated, unknown_name
from fedhpo.run import open_read

if TYPE_CHECKING:
    from types import TracebackType

    from fedhpo.protocol.federation import Federation

Facts = Mapping[str, Any]


Key = TypeVar("Key")


def page_name(name: str, scale: str) -> str:
    """What the files of a page are called: any other scale than the default one is in their names.

    >>> page_name("fedpop", "default"), page_name("fedpop", "cnn")
    ('fedpop', 'fedpop-cnn')
    """
    return name if scale == "default" else f"{name}-{scale}"


def check_asked(scale: str, scales: Iterable[str], only: Sequence[str], parts: Sequence[str]) -> None:
    """Refuse a scale or a part that there is not.

    >>> check_asked("huge", ["default", "paper"], [], [])
    Traceback (most recent call last):
    ...
    fedhpo.InputError: unknown scale 'huge'; known: default, paper
    """
    if scale not in scales:
        raise unknown_name("scale", scale, scales)
    for part in only:
        if part not in parts:
            raise unknown_name("part", part, parts)


def facts_of(path: Path, tune: Callable[[], Facts]) -> Facts | None:
    """The facts of a finished run, or else those after `tune`; None where no trial could be trained."""
    from fedhpo.search.events import TuningError

    facts: Facts | None = finished(path)
    if facts is None:
        try:
            facts = tune()
        except TuningError:
            return None
        go_on(facts)
    return facts


def go_on(facts: Facts) -> None:
    """Raise what stopped a run, Ctrl-C or SIGTERM: then the next one is not wanted."""
    if facts["status"] == "stopped":
        raise Terminated if facts["reason"] == "terminated" else KeyboardInterrupt


def finished(path: Path) -> dict[str, Any] | None:
    """The result of a run that is done."""
    try:
        with open_read(path) as found:
            return found.result()
    except InputError:
        return None


def kept(name: str, scale: str, scales: Iterable[str], out: Path) -> dict[str, Any]:
    """What an earlier call wrote into `out` as data."""
    check_asked(scale, scales, (), ())
    path = out / f"{page_name(name, scale)}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no data of an earlier call to write a page from ({error})") from None
    return found


class OneAtATime(Generic[Key]):
    """The federation that was asked for last: each has worker processes of its own, so there is only one."""

    def __init__(self, make: Callable[[Key], Federation]) -> None:
        self._make = make
        self._made: tuple[Key, Federation] | None = None

    def __getitem__(self, key: Key) -> Federation:
        if self._made is None or self._made[0] != key:
            self.close()
            self._made = key, self._make(key)
        return self._made[1]

    def close(self) -> None:
        """End its worker processes."""
        if self._made is not None:
            self._made[1].close()
            self._made = None

    def __enter__(self) -> OneAtATime[Key]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
