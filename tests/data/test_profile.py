import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.data import from_clients, heterogeneity_index, label_entropy, profile, quantity


def client(labels):
    return {"train": (np.zeros((len(labels), 1)), np.array(labels))}


def test_index_of_one_client():
    assert heterogeneity_index(np.arange(10), classes=10) == 0.0
    assert heterogeneity_index(np.array([4, 4, 4]), classes=10) == 1.0
    assert heterogeneity_index(np.array([0, 1, 2, 3]), classes=10) == pytest.approx(1 - 3 / 9)
    assert heterogeneity_index(np.array([0]), classes=1) == 1.0


def test_entropy_of_one_client():
    assert label_entropy(np.array([7, 7])) == 0.0
    assert label_entropy(np.array([0, 1, 2, 3])) == pytest.approx(np.log(4))
    # -(3/4 ln 3/4 + 1/4 ln 1/4)
    assert label_entropy(np.array([0, 0, 0, 1])) == pytest.approx(0.5623351)


def test_table_of_all_clients():
    data = from_clients([client([0, 0, 0, 1]), client([4]), client([0, 1, 2, 3, 4])])
    table = profile(data)
    assert table.size.tolist() == [4, 1, 5]
    assert table.classes_held.tolist() == [2, 1, 5]
    assert table.heterogeneity_index.tolist() == [0.75, 1.0, 0.0]
    assert table.entropy == pytest.approx([0.5623351, 0.0, np.log(5)])
    for c in range(3):
        labels = data.y[data.train.rows(c)]
        assert table.entropy[c] == pytest.approx(label_entropy(labels))
        assert table.heterogeneity_index[c] == heterogeneity_index(labels, 5)
        assert table.size[c] == quantity(labels)


def test_clients_without_rows_have_no_index():
    data = from_clients([client([0, 1]), client([1, 1])])
    table = profile(data, "test")
    assert table.size.tolist() == table.classes_held.tolist() == [0, 0]
    assert np.isnan(table.heterogeneity_index).all()
    assert np.isnan(table.entropy).all()
    with pytest.raises(InputError, match="unknown split 'valid'"):
        profile(data, "valid")


def test_padding_does_not_count_and_regression_has_no_classes():
    words = {"train": (np.array([[1, 2, 0]]), np.array([[2, 3, -100]]))}
    table = profile(from_clients([words]))
    assert table.classes_held.tolist() == [2]
    assert table.entropy == pytest.approx([np.log(2)])
    numbers = {"train": (np.zeros((2, 1)), np.array([0.5, 1.5]))}
    table = profile(from_clients([numbers]))
    assert table.size.tolist() == [2]
    assert np.isnan(table.heterogeneity_index).all()
