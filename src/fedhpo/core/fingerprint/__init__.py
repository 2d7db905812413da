"""What a run belongs to: fingerprints of data, model and code, and how two of them differ, in words.

A fingerprint is small and JSON-able. A run keeps it, and is not continued with data, a model or code that
have another one.
"""

from fedhpo.core.fingerprint.code import code_of
from fedhpo.core.fingerprint.compare import differences

__all__ = ["code_of", "differences"]
