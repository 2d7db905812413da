"""FedTune's reference table: a heat map for each client hyperparameter, and one of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, text
from fedhpo.pages.numbers import whole

if TYPE_CHECKING:
    from fedhpo.report.view import RunView


def table(view: RunView) -> Section | None:
    """The table that went out with the model, and what filling it took."""
    found: Mapping[str, Any] | None = view.result.get("table")
    if found is None:
        return None
    from fedhpo.methods.fedtune import ReferenceTable
    from fedhpo.methods.fedtune.heat_map import heat_maps

    shown = ReferenceTable.from_dict(found)
    figures = "".join(drawn(one, f"table-{i}") for i, one in enumerate(heat_maps(shown).values()))
    words = (
        f"Each client looked itself up by {shown.measure.replace('_', ' ')} and quantity ({shown.look_up}); "
    )
    words += "what it found is not known here."
    if "steps" in shown.facts:
        words += f" Filled in {whole(shown.facts['steps'])} simulations on {shown.facts['data']}."
    return Section("Reference table", f"<div class=small>{figures}</div><p class=note>{text(words)}</p>")
