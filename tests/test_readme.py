"""What the README shows is what there is."""

import tomllib

import pytest

README = "README.md"


@pytest.fixture
def readme(request):
    return (request.config.rootpath / README).read_text()


def block(text, begin):
    """The code block that begins so."""
    return text[text.index(begin) :].partition("```")[0]


def test_the_study_is_the_example(readme, request):
    study = (request.config.rootpath / "examples/digits.toml").read_text()
    assert block(readme, "# examples/digits.toml") == study
    # Without it the run would not print the gain at the last round that the README shows.
    assert tomllib.loads(study)["budget"]["baseline"] is True
    assert "both at round 40" in block(readme, "tuned config")
