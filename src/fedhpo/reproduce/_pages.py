"""What a reproduction leaves behind: a page in Markdown, its data as JSON, and figures in HTML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedhpo.report.numbers import finite


def publish(
    name: str, found: dict[str, Any], page: str, out: str | Path | None, figures: str | None = None
) -> dict[str, Any]:
    """Write them into `out`, if there is one; `found` comes back with the text and where it was written.

    Any other scale than the default one is in the files' names.

    >>> publish("paper", {"scale": "default", "rows": []}, "# A paper", None)
    {'scale': 'default', 'rows': [], 'text': '# A paper'}
    """
    if out is None:
        return {**found, "text": page}
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    file = name if found["scale"] == "default" else f"{name}-{found['scale']}"
    data = json.dumps(_short(finite(found)), separators=(",", ":")) + "\n"
    contents = {"page": (".md", page), "data": (".json", data)}
    if figures is not None:
        contents["figures"] = (".html", figures)
    for ending, content in contents.values():
        (folder / f"{file}{ending}").write_text(content, encoding="utf-8")
    written = {what: str(folder / f"{file}{ending}") for what, (ending, _) in contents.items()}
    return {**found, **written, "text": page}


def _short(value: Any) -> Any:
    """The same with six significant digits.

    >>> _short({"a": [0.123456789, 3]})
    {'a': [0.123457, 3]}
    """
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
