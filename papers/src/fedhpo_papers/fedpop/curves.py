"""Figure 5's protocol: the test score of each round's own clients, and all data in one place as reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.protocol.federation import Federation, RoundReport, Work


def pooled(data: FederatedData) -> FederatedData:
    """All rows at one client: a round is one centralised training."""
    from fedhpo.data.container import Split

    train, validation, test = (
        Split.from_lists([split.indices]) for split in (data.train, data.validation, data.test)
    )
    return replace(data, train=train, validation=validation, test=test, client_names=None).validate()


@contextmanager
def watched(federation: Federation, path: Path, wanted: bool) -> Iterator[None]:
    """Note in a file, after every round of every trial, what its clients' test data says of the model.

    This stands beside the run: nothing of it reaches the method. A round that is run again after a stop
    is noted again, with the same score.
    """
    if not wanted:
        yield
        return
    train = federation.round

    def round(work: Sequence[Work]) -> list[RoundReport]:
        reports = train(work)
        with path.open("a", encoding="utf-8") as file:
            for piece, report in zip(work, reports, strict=True):
                if report.applied:
                    [scores] = federation.evaluate([piece.trial], piece.cohort, "test")
                    point = [piece.trial, report.round, scores.mean("accuracy", "uniform")]
                    file.write(json.dumps(point) + "\n")
        return reports

    federation.round = round  # type: ignore[method-assign]
    try:
        yield
    finally:
        federation.round = train  # type: ignore[method-assign]


def curve(folder: Path, name: str) -> list[list[float]]:
    """Round and accuracy of the winner, and of those whom it was copied from before."""
    from fedhpo.figures.lineage import ancestry
    from fedhpo.figures.reading import load_view

    points: dict[tuple[int, int], Any] = {}
    for line in (folder / f"{name}.curve.jsonl").read_text(encoding="utf-8").splitlines():
        trial, number, accuracy = json.loads(line)
        # Of a trial that was set back to an earlier round in an exchange the earlier point stays.
        points.setdefault((trial, number), accuracy)
    view = load_view(folder / name)
    line_of = ancestry(view.trials, view.winner)
    found = {
        number: accuracy
        for trial, begin, end in line_of
        for (of, number), accuracy in points.items()
        if of == trial and begin < number <= end
    }
    return [[number, 100 * accuracy] for number, accuracy in sorted(found.items())]
