"""The schema, and the page made of it."""

import importlib
import sys
from pathlib import Path

import pytest

from fedhpo.core.errors import InputError
from fedhpo.data import DATASETS, partition_from_dict, split_from_dict
from fedhpo.methods import METHODS
from fedhpo.study.schema import OWN, schema

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
study_page = importlib.import_module("study_page")
sys.path.remove(str(DOCS))


def test_the_page_is_up_to_date():
    assert (DOCS / "study-file.md").read_text(encoding="utf-8") == study_page.page(), (
        "run: python docs/_make.py"
    )


@pytest.mark.parametrize(
    ("read", "kinds"), [(partition_from_dict, study_page.PARTITIONS), (split_from_dict, study_page.SPLITS)]
)
def test_the_page_lists_all_kinds(read, kinds):
    with pytest.raises(InputError) as caught:
        read({"kind": "none"})
    assert (
        str(caught.value)
        .removesuffix("; your own is written 'package.module:Name'")
        .endswith(f"known: {', '.join(sorted(kinds))}")
    )


def test_the_schema_names_data_sets_and_methods():
    found = schema()
    name = found["$defs"]["Data"]["properties"]["name"]
    assert name["anyOf"][0]["enum"] == list(DATASETS)
    *methods, own, tuner = found["properties"]["method"]["anyOf"]
    assert own["properties"]["name"]["pattern"] == OWN
    assert own["required"] == ["name"]
    assert list(tuner["properties"]) == ["name", "schedule", "sampler", "policy", "exchange"]
    policies = [one["properties"]["name"].get("const") for one in tuner["properties"]["policy"]["anyOf"]]
    assert policies == ["fixed", "cooling", "fedex", "fedpop", "fedhyper", "hpn", "reference_table", None]
    assert [one["properties"]["name"]["const"] for one in methods] == list(METHODS)
    assert all(one["additionalProperties"] is False for one in methods)
    assert [
        one["properties"]["name"]["const"] for one in methods if "name" not in one.get("required", ())
    ] == ["auto"]
