"""Fingerprints of estimators: a run belongs to the one it was begun with."""

from __future__ import annotations

from typing import Any

from fedhpo.core.fingerprint import code_of


def estimator_of(estimator: Any) -> Any:
    """The code of a class; of an estimator to begin from also what it was made with."""
    if isinstance(estimator, type):
        return code_of(estimator)
    own = callable
    return {
        "class": code_of(type(estimator)),
        "parameters": {
            name: code_of(value) if own(value) and not hasattr(value, "get_params") else repr(value)
            for name, value in sorted(estimator.get_params().items())
        },
    }
