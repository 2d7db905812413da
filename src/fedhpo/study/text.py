"""The text of a study file, changed in one key."""

from __future__ import annotations

import json
import re
import tomllib


def with_key(text: str, key: str, value: int | str) -> str:
    """A study's text with another value of a key, such as the seed: who tunes it gets the same search.

    >>> print(with_key("seed = 3\\n[data]\\nseed = 5", "seed", 7))
    # Begun with seed = 7 in place of the file's.
    seed = 7
    [data]
    seed = 5
    """
    wanted = tomllib.loads(text) | {key: value}
    line = f"{key} = {json.dumps(value)}"
    note = f"# Begun with {line} in place of the file's.\n"
    # Only a key of the whole file counts, and a line inside a long string is none: hence the second look.
    for changed in (
        re.sub(rf"(?m)^\s*{key}\s*=.*$", lambda _: line, text, count=1),
        f"{line}\n{text}",
    ):
        try:
            if tomllib.loads(changed) == wanted:
                return note + changed
        except tomllib.TOMLDecodeError:
            continue
    return f"{note}# Its own {key} stands below: tune it with --{key} {value}.\n{text}"
