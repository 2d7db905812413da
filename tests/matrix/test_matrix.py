"""What is trained and where are two things: every trainee at every place, with one digest a trainee.

`pytest tests/matrix` runs all of it; `make test` what is in this process and over Flower (`-m "not matrix"`).
"""

from functools import cache

import pytest
from matrix_cells import CLIENTS, COHORTS, PLACES, REFUSED, TRAINEES, outcome_of, study_of

from fedhpo.core.errors import InputError

#: Places whose cells start no processes and need no further package.
QUICK = ("process", "flower")
#: Scored at many clients at once in a simulation: see `outcome_of`.
ROUNDED = ("torch", "own function")
#: What others are compared with, made once.
_reference = cache(lambda trainee, cohort: outcome_of(trainee, "process", cohort))


def cells():
    for trainee in TRAINEES:
        for place in PLACES:
            for cohort in COHORTS:
                if (trainee, place) in REFUSED:
                    continue
                # The script needs NVFlare wherever it runs, which other tests do without.
                slow = (trainee, cohort) == ("estimators by averaging", 40) or trainee == "nvflare script"
                quick = place in QUICK and not slow
                marks = [] if quick else [pytest.mark.matrix]
                yield pytest.param(trainee, place, cohort, marks=marks, id=f"{trainee}-{place}-{cohort}")


@pytest.mark.parametrize(("trainee", "place", "cohort"), list(cells()))
def test_a_trainee_has_one_digest_wherever_it_runs(trainee, place, cohort, request, record_property):
    if trainee == "nvflare script" or place == "nvflare":
        pytest.importorskip("nvflare")
    if place == "ray":
        request.getfixturevalue("cluster")
    expected, usual = _reference(trainee, cohort)
    digest, scores = (expected, usual) if place == "process" else outcome_of(trainee, place, cohort)
    record_property("digest", digest)
    assert digest == expected
    assert scores == (pytest.approx(usual, rel=1e-6) if trainee in ROUNDED else usual)


@pytest.mark.matrix
@pytest.mark.parametrize(("trainee", "place"), list(REFUSED), ids="-".join)
def test_a_cell_that_does_not_run_says_why(trainee, place):
    pytest.importorskip("nvflare")
    from golden_cells import over_nvflare

    with pytest.raises(InputError) as refused:
        over_nvflare(study_of(trainee, place, 3), CLIENTS)
    assert REFUSED[trainee, place] in str(refused.value)
    assert "fedhpo.flower" in str(refused.value)


def test_all_but_the_refused_are_cells():
    counted = {(cell.values[0], cell.values[1]) for cell in cells()}
    assert len(counted) == len(TRAINEES) * len(PLACES) - len(REFUSED) >= 25
    assert {("flower app", "workers"), ("trees by bagging", "ray")} <= counted
    assert {("estimators by averaging", place) for place in ("process", "workers", "ray")} <= counted


def test_trainees_have_digests_of_their_own():
    """A digest that says nothing would be one for all."""
    quick = [trainee for trainee in TRAINEES if trainee != "nvflare script"]
    assert len({_reference(trainee, 3)[0] for trainee in quick}) == len(quick)
