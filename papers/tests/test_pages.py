"""What all pages of reproductions share: figures drawn from words, prose first, tables folded."""

import re

import pytest

from fedhpo.core.errors import InputError
from fedhpo_papers import reproduction
from fedhpo_papers.shared.estimates import estimates
from fedhpo_papers.shared.forest import Estimate, forest
from fedhpo_papers.shared.pages import VERDICTS, publish, static
from fedhpo_papers.shared.papers import Paper
from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, Verdict

PAPER = Paper("A paper", "Somebody (2020)", "It did this.", "Here that was run.")
HERE = "cifar10 RS -3.81 ± 0.72; femnist +5.29 ± 1.67; mnist: +0.1 ± 4.0; imdb +2.00 ± 0.50"
CLAIM = Verdict("It is above <b>", "mnist +7.5", HERE, DOES_NOT)
OTHER = Verdict("It wins", "18/0/2", "17/0/3", HOLDS)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("rounds 8, 8, 14", []),
        ("sgm p = 0.0056; aplm p = 0.003", []),
        ("0.319 ± 0.051 against 0.089 ± 0.047 (adaptive)", []),
        ("-0.51 to 0.11", []),
        (" -15.67 ± 0.67", [Estimate("", -15.67, 0.67)]),
        ("7 of 7: pc3 +1.83; pollen +1.37", [Estimate("pc3", 1.83), Estimate("pollen", 1.37)]),
        ("+4.7 ± 1.7 points", [Estimate("", 4.7, 1.7)]),
        ("+0.74 [-0.28, +1.19] (24)", [Estimate("", 0.74, interval=(-0.28, 1.19))]),
        ("-0.4 [-0.9, -0.2] (9) of 12 worlds", [Estimate("", -0.4, interval=(-0.9, -0.2))]),
    ],
)
def test_words_that_are_differences_are_read_and_others_are_not(words, found):
    assert estimates(words) == found


def test_the_plot_has_zero_every_dot_and_the_papers_figure_in_their_order():
    drawn = forest(CLAIM.estimates)
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawn)]
    [zero] = [float(x) for x in re.findall(r'<line x1="([\d.]+)"[^>]*stroke-dasharray', drawn)]
    [paper] = [float(x) for x in re.findall(r'<path d="M([\d.]+),[\d.]+ l5,5', drawn)]
    low, high, near, mid = dots
    assert low < zero < near < mid < high < paper


def test_a_claim_that_is_made_of_each_set_alone_is_drawn_over_all_sets(tmp_path):
    claims = [Verdict(f"{name}: It is above", "+4", "+0.7 [-0.3, +1.1] (24)", HOLDS) for name in "ab"]
    publish(
        "paper",
        {"scale": "default"},
        page(),
        tmp_path,
        None,
        [*claims, Verdict("c: Alone", "", "+1.0 ± 0.1", HOLDS)],
    )
    drawn = (tmp_path / "paper.svg").read_text()
    assert drawn.count("<circle") == 2
    assert "a +0.7 [-0.3, +1.1] (paper +4); b +0.7 [-0.3, +1.1] (paper +4)" in drawn


def page() -> str:
    table = "| set | run here |\n| --- | --- |\n| mnist | mlp |"
    parts = ["# A paper", *PAPER.opening([CLAIM, OTHER]), VERDICTS, "| claim |\n| --- |\n| x |"]
    return "\n\n".join([*parts, "## How it was run", "With `--scale`.", table]) + "\n"


def test_the_page_begins_with_prose_and_folds_its_tables(tmp_path):
    found = publish("paper", {"scale": "default"}, page(), tmp_path, "<html>", [CLAIM, OTHER])
    text = (tmp_path / "paper.md").read_text()
    blocks = text.split("\n\n")
    assert blocks[1] == "Somebody (2020). It did this."
    assert blocks[2] == (
        "Here that was run. Of 2 claims 1 holds, 1 does not hold, and none is undecided: "
        "what was measured cannot tell."
    )
    before, after = text.split("## How it was run")
    assert "<details>" not in before
    assert "![The differences of each claim, with intervals](paper.svg)" in before
    assert after.count("<details>") == after.count("</details>") == 1
    assert found["picture"] == str(tmp_path / "paper.svg")
    assert (tmp_path / "paper.svg").read_text().count("<circle") == 4


def test_the_html_has_whole_words_escaped_claims_and_no_program():
    html = static("A paper", "", [CLAIM, OTHER], [], page())
    assert "<b class=fails>does not hold</b> It is above &lt;b&gt;" in html
    assert html.count('class="forest"') == 1
    assert "Here: 17/0/3." in html
    assert "<details><summary>Table, 1 row</summary>" in html
    assert "<script" not in html


def test_a_page_is_written_again_from_what_is_kept(tmp_path, request):
    kept = request.config.rootpath / "docs" / "reproductions"
    for name in ("fedtune", "flora", "fedex-femnist", "fedpop", "noisy-eval"):
        scale = "cnn" if name in ("fedpop", "fedex-femnist") else "default"
        file = name if scale == "default" else f"{name}-{scale}"
        (tmp_path / f"{file}.json").write_text((kept / f"{file}.json").read_text())
        reproduction(name).page(scale, tmp_path)
        assert (tmp_path / f"{file}.md").read_text() == (kept / f"{file}.md").read_text(), name


def test_without_data_there_is_no_page_to_write(tmp_path):
    with pytest.raises(InputError, match=r"flora\.json: no data of an earlier call"):
        reproduction("flora").page("default", tmp_path)
