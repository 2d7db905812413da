"""Sections of the report that a method brings along, as result.json keeps them."""

from dataclasses import dataclass

import pytest

import fedhpo as fh
from fedhpo.protocol.sections import MOST, section, table
from fedhpo.samplers import Random
from fedhpo.schedules import FixedLength
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})


def tuned(method, **options):
    return fh.tune(ToyFederation(6), SPACE, method, rounds=2, total=4, cohort=3, **options)


@dataclass(frozen=True)
class Drawing(Random):
    """A sampler that tells how many trials it began."""

    found: object = None

    def sections(self, search):
        return [section("Drawn", f"{len(search.trials)} configs.")] if self.found is None else self.found


def test_a_part_of_a_tuner_has_sections_too():
    result = tuned(fh.Tuner(FixedLength(2), Drawing()))
    assert result.facts["sections"] == [{"title": "Drawn", "parts": [{"paragraph": "2 configs."}]}]


def test_without_sections_there_is_no_key():
    assert "sections" not in tuned(fh.RandomSearch(trials=2)).facts


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("text", "a report section has a title and parts"),
        (
            [{"title": "a", "parts": [{"html": "<b>"}]}],
            "must be a paragraph, a table or a figure, found",
        ),
        ([{"title": "a", "parts": [{"paragraph": {1, 2}}]}], "must be plain JSON"),
        ([{"title": "a", "parts": [{"paragraph": "x" * MOST}]}], "at most 1048576 are shown"),
        (3, "TypeError: 'int' object is not iterable"),
    ],
)
def test_a_mistake_in_them_does_not_cost_the_result(found, told):
    with pytest.warns(UserWarning, match="tuner: its sections of the report could not be made"):
        result = tuned(fh.Tuner(FixedLength(2), Drawing(found)))
    [one] = result.facts["sections"]
    assert told in one["parts"][0]["paragraph"]
    assert len(result.trials) == 2


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: section("", "text"), "title of a report section must be a string, not ''"),
        (lambda: section("a", table(["b", "c"], [[1]])), "a row has 1 cells, and there are 2 columns"),
        (
            lambda: section("a", table(["b"], [[{}]])),
            "a cell must be a string, a number, true, false",
        ),
    ],
)
def test_what_is_no_section_is_refused(make, told):
    with pytest.raises(fh.InputError, match=told):
        make()
