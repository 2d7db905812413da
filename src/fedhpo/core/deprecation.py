"""Old names that still work for two minor versions, and say which new one to use."""

from __future__ import annotations

import warnings


def warn_deprecated(old: str, new: str, gone: str, stacklevel: int = 3) -> None:
    """Say that `old` is now `new`, and in which version `old` goes; users of study files see it too.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("data.redeal", "data.mixing", gone="0.5")
    >>> str(caught[0].message)
    'data.redeal is now data.mixing: write that instead; the old name goes in version 0.5'
    """
    message = f"{old} is now {new}: write that instead; the old name goes in version {gone}"
    warnings.warn(message, FutureWarning, stacklevel=stacklevel + 1)
