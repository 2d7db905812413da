"""The generated reference pages: the public names, and the commands."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

#: Packages below `fedhpo` that the pages name, and what they are for.
PACKAGES = {
    "fedhpo.samplers": "Which configs to try next",
    "fedhpo.schedules": "Which trials train for how long",
    "fedhpo.policies": "Which client hyperparameters each member of a cohort gets",
    "fedhpo.flower": "What a Flower app of yours needs",
    "fedhpo.nvflare": "What an NVFlare job of yours needs",
    "fedhpo.plots": "Figures of a result",
    "fedhpo.figures": "Figures from a view of a run",
    "fedhpo.protocol.federation": "What a federation must do",
    "fedhpo.protocol.method": "What a method must do",
    "fedhpo.testing": "Suites for parts of your own",
}


#: Names whose signature and docstring stand elsewhere than where they are imported from.
ELSEWHERE = {"tune": "fedhpo.tuning.tune.tune"}


def home(name: str) -> str:
    """Where a promised name is documented."""
    return ELSEWHERE.get(name, f"fedhpo.{name}")


def groups(docs: Path) -> dict[str, list[str]]:
    """The promised names by what they are for, as the page of promises has them."""
    table = (docs / "stability.md").read_text(encoding="utf-8").partition("## The names")[2]
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+) \|$", table, re.MULTILINE)
    return {title: re.findall(r"`(\w+)`", names) for title, names in rows}


def api(docs: Path) -> dict[str, str]:
    """The pages of the API, by their names."""
    pages = {}
    index = [
        "# The API",
        "",
        "What `import fedhpo as fh` gives, and what is [promised](../stability.md) of it.",
        "",
    ]
    index += ["| for | names |", "| --- | --- |"]
    for title, names in groups(docs).items():
        page = title.replace(" ", "-") + ".md"
        links = ", ".join(f"[`{name}`][{home(name)}]" for name in names)
        index.append(f"| [{title}]({page}) | {links} |")
        body = "\n\n".join(f"::: {home(name)}" for name in names)
        pages[page] = f"# {title[0].upper()}{title[1:]}\n\n{body}\n"
    index += [
        "",
        "Packages below it, whose names these pages mention:",
        "",
        "| package | for |",
        "| --- | --- |",
    ]
    for package, about in PACKAGES.items():
        page = package.removeprefix("fedhpo.").replace(".", "-") + ".md"
        index.append(f"| [`{package}`]({page}) | {about} |")
        pages[page] = f"# `{package}`\n\n::: {package}\n    options:\n      show_root_heading: false\n"
    pages["README.md"] = "\n".join(index) + "\n"
    return pages


def commands() -> str:
    """What every command answers to `--help`."""
    from fedhpo.cli import parser
    from fedhpo.cli.elsewhere import PAPERS

    os.environ["COLUMNS"] = "100"
    main = parser(PAPERS)
    parts = ["# Commands", f"```\n{main.format_help()}```"]
    parts.append(
        "Exit codes: 0 all is well, 1 a failure, 2 a mistake in what was given, 130 or 143 a signal."
    )
    for name, one in _below(main):
        parts += [f"## fedhpo {name}", f"```\n{one.format_help()}```"]
    return "\n\n".join(parts) + "\n"


def _below(parser: argparse.ArgumentParser, prefix: str = "") -> list[tuple[str, argparse.ArgumentParser]]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                found.append((f"{prefix}{name}", one))
                found += _below(one, f"{prefix}{name} ")
    return found
