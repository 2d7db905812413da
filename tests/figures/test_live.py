"""A run that is under way can be looked at after every event, by every section of the page."""

from pathlib import Path

import fedhpo as fh
from fedhpo.figures.reading import load_view
from fedhpo.report.sections import sections
from fedhpo.testing import ToyFederation


def test_every_section_shows_a_run_that_is_under_way(tmp_path: Path) -> None:
    """The gain over the user's own config among them, as soon as both have a score at the same round."""
    gains = []

    def look(event: fh.Event) -> None:
        view = load_view(tmp_path / "grows")
        assert sections(view)
        gains.append(view.result["gain"])

    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
    method = fh.RandomSearch(side_by_side=1)
    fh.tune(
        ToyFederation(8),
        space,
        method,
        rounds=3,
        total=18,
        cohort=3,
        run=tmp_path / "grows",
        callbacks=[look],
    )
    assert gains[0] is None
    assert any(gain is not None and gain["standard_error"] >= 0 for gain in gains)
