"""What a newcomer sees first: one word for one option, no round 0, and what a comparison will cost."""

import argparse
import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.live import Live

from fedhpo.cli import main, parser
from fedhpo.cli.compare import cost_ahead
from fedhpo.cli.elsewhere import PAPERS
from fedhpo.study import Study
from fedhpo.tuning.progress import LiveDisplay


def commands(one):
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield name, inner
                yield from commands(inner)


def test_the_same_thing_has_the_same_name_in_every_command():
    words = {
        option: action.help
        for _, one in commands(parser(PAPERS))
        for action in one._actions
        for option in action.option_strings
        if action.help != argparse.SUPPRESS
    }
    assert {"--runs", "--output"} <= set(words)
    assert "--out" not in words
    for name, one in commands(parser(PAPERS)):
        if name in ("report", "compare", "build", "reproduce", "predict"):
            assert "--output" in one._option_string_actions


def test_out_is_still_understood():
    assert parser().parse_args(["report", "runs/a", "--out", "x.html"]).output == "x.html"
    assert parser().parse_args(["report", "runs/a", "--output", "x.html"]).output == "x.html"
    assert parser().parse_args(["report", "runs/a"]).output is None


def test_runs_are_listed_by_the_same_option(tmp_path, capsys):
    for arguments in ([str(tmp_path / "none")], ["--runs", str(tmp_path / "none")]):
        assert main(["runs", *arguments]) == 2
        assert "no such directory" in capsys.readouterr().err


def test_a_comparison_says_what_it_will_cost():
    study = Study.from_dict(
        {
            "data": {"name": "digits"},
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.1, "high": 1.0}}},
            "budget": {"rounds": 4, "total": 40},
        }
    )
    said = cost_ahead(study, ["random", "tpe"], [0, 1, 2], chosen=False)
    assert "2 methods (random, tpe) x 3 seeds: 6 runs of 40 rounds, 240 rounds in all" in said
    assert "--seeds N" in said
    assert "--seeds N" not in cost_ahead(study, ["random", "tpe"], [0, 1, 2], chosen=True)


@pytest.mark.parametrize(("spent", "shown"), [(0, "first rounds under way"), (27, "round 27 of 400")])
def test_the_display_counts_rounds_only_when_some_have_ended(spent, shown):
    out = io.StringIO()
    search = SimpleNamespace(
        ledger=SimpleNamespace(spent={"rounds": spent}), total=400, trials=[], leader=lambda: None
    )
    with Live(console=Console(file=out, width=120), auto_refresh=False) as live:
        LiveDisplay(live, "digits")(SimpleNamespace(search=search, replayed=False, kind="round"))
        live.refresh()
    assert shown in out.getvalue()
    assert "round 0 of" not in out.getvalue()
