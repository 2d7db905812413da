"""What a run belongs to: fingerprints of data, model and code, and how two of them differ, in words.

A fingerprint is small and JSON-able. A run keeps it, and is not continued with data, a model or code that
have another one.
"""

from fedhpo.fingerprint.code import code_of
from fedhpo.fingerprint.compare import differences
from fedhpo.fingerprint.rows import array_digest, data_of

__all__ = ["array_digest", "code_of", "data_of", "differences"]
