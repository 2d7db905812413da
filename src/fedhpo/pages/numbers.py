"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> str:
    """A value with as many digits as mean something.

    >>> number(0.123456), number(1e-05), number(32), number("relu"), number([64, 32]), number(None)
    ('0.1235', '1e-05', '32', 'relu', '64, 32', '–')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(number(item) for item in value)
    return str(value)


def score(value: float | None) -> str:
    """A score, always with four decimals, so that columns line up.

    >>> score(0.5), score(None)
    ('0.5000', '–')
    """
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


def signed(value: float) -> str:
    """A difference.

    >>> signed(0.11), signed(-0.004)
    ('+0.1100', '−0.0040')
    """
    return f"{value:+.4f}".replace("-", "−")


def whole(value: float) -> str:
    """A count, in groups of three digits.

    >>> whole(1234567)
    '1,234,567'
    """
    return f"{value:,.0f}"


def megabytes(value: float) -> str:
    """Bytes as megabytes or gigabytes; few of them as kilobytes.

    >>> megabytes(1_234_567), megabytes(98_765_432), megabytes(2.5e9), megabytes(4_210), megabytes(0)
    ('1.2 MB', '99 MB', '2.5 GB', '4.2 kB', '0.0 MB')
    """
    if 0 < value < 1e5:
        return f"{value / 1e3:.1f} kB"
    if value >= 1e9:
        return f"{value / 1e9:.1f} GB"
    return f"{value / 1e6:.1f} MB" if value < 1e7 else f"{value / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(8.25), duration(75), duration(7320)
    ('8.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def finite(value: Any) -> Any:
    """The same JSON value with null for what is not finite, as JSON proper demands.

    >>> finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
