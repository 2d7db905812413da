"""Commands that another package brings."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from fedhpo.cli import main, parser
from fedhpo.core import registry


@pytest.fixture
def installed(monkeypatch):
    """Makes these entry points the only ones."""

    def only(*points):
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [EntryPoint(*point, group) for point in points]
        )

    return only


@pytest.mark.parametrize("command", [["bench"], ["reproduce", "flora", "--table", "7"], ["bench", "--help"]])
def test_papers_that_are_not_installed_say_how_to_install_them(installed, capsys, command):
    installed()
    assert main(command) == 2
    assert "pip install ./papers" in capsys.readouterr().err


def test_the_list_of_commands_needs_no_papers(installed, capsys):
    installed()
    assert main(["--help"]) == 0
    assert "reproduce" in capsys.readouterr().out


def test_a_stranger_s_command_gets_its_own_options(installed, capsys, monkeypatch):
    module = ModuleType("stranger")
    module.add = lambda one: one.add_argument("--times", type=int, default=1)
    module.run = lambda options: print("hello" * options.times) or 0
    monkeypatch.setitem(sys.modules, "stranger", module)
    installed(("command.greet", "stranger"))
    assert main(["greet", "--times", "2"]) == 0
    assert capsys.readouterr().out == "hellohello\n"
    assert main(["greet", "--tims", "2"]) == 2


def test_a_command_of_ours_stays_ours(installed):
    installed(("command.tune", "no.such.module"))
    assert parser(["tune"]).parse_args(["tune", "a.toml"]).study == "a.toml"
