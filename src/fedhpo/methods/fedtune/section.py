"""FedTune's reference table on a page: a heat map for each client hyperparameter, and one of the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.methods.fedtune.heat_map import heat_maps
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, text
from fedhpo.pages.numbers import whole
from fedhpo.pages.page import frame
from fedhpo.protocol.sections import figure, section


def table_sections(found: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The table that went out with the model, and what filling it took; nothing where there is none."""
    if found is None:
        return []
    shown = ReferenceTable.from_dict(found)
    words = f"Each client looked itself up {_how(shown)}; what it found is not known here."
    maps = (figure(one["data"], one["layout"]) for one in heat_maps(shown).values())
    return [section("Reference table", *maps, words + _cost(shown))]


def page(table: ReferenceTable, name: str) -> str:
    """A page of its own, for a table that was made outside a run."""
    words = f"Each client looks itself up {_how(table)}.{_cost(table)}"
    body = f"{_maps(table)}<p class=note>{text(words)}</p>"
    return frame(name, "reference table of client hyperparameters", [Section("Reference table", body)])


def _maps(table: ReferenceTable) -> str:
    figures = "".join(drawn(one, f"table-{i}") for i, one in enumerate(heat_maps(table).values()))
    return f"<div class=small>{figures}</div>"


def _how(table: ReferenceTable) -> str:
    return f"by {table.measure.replace('_', ' ')} and quantity ({table.look_up})"


def _cost(table: ReferenceTable) -> str:
    if "steps" not in table.facts:
        return ""
    words = f" Filled in {whole(table.facts['steps'])} simulations on {table.facts['data']}."
    return " ".join([words, *comparison(table.facts)])


#: How a table says which federation it was made for.
_SOURCES = {
    "uniform": "as many clients in each cell, as nothing else was known",
    "given": "the shares of the cells that were given",
    "asked": "the shares of the cells that the clients told, with noise",
}
_COMPARED = ("table", "global", "own")


def comparison(facts: Mapping[str, Any]) -> list[str]:
    """Sentences: the table against one config for all and against the user's own; what it was made for."""
    found = facts.get("compared")
    if found is None:
        return []
    scores = {name: "diverged" if found[name] is None else f"{found[name]:.3f}" for name in _COMPARED}
    ahead = [_gap(found[key]) for key in ("over_global", "over_own")]
    first = (
        f"On {found['deals']} fresh deals of {facts['clients']} simulated clients: {facts['metric']} "
        f"{scores['table']}; one config for all, tuned with the same budget, {scores['global']} (the table "
        f"is ahead by {ahead[0]}); your own config {scores['own']} (by {ahead[1]})."
    )
    second = "" if found["kept"] else "Not by its standard error: all cells have the one config for all."
    third = f"Made for {_SOURCES[facts['made_for']['source']]}."
    return [one for one in (first, second, third) if one]


def _gap(pair: Sequence[float | None]) -> str:
    value, error = pair
    if value is None:
        return "what cannot be told"
    return f"{value:+.3f}" + ("" if error is None else f" ± {error:.3f}")
