"""Where an exception is said to come from: the user's own line, never one of ours."""

import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import code_of
from fedhpo.core.user_code import in_words
from fedhpo.data import load


def test_a_line_of_ours_is_not_named_but_the_callers_is():
    with pytest.raises(InputError) as raised:
        load("no such set")
    assert "(test_user_code.py:" in in_words(raised.value)


def test_code_of_ours_is_known_by_its_name():
    """Its version is recorded anyway; a digest of it would change with every line of ours."""
    [found] = code_of(load)["parts"].values()
    assert found == f"{load.__module__}.load"
