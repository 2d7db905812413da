"""Tables of users' own: what becomes of columns, texts, labels and missing values."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import without_missing
from fedhpo.data.encoding import Encoding
from fedhpo.data.frames import frame_of, read_csv
from fedhpo.data.scaling import Moments

NORTH = "age,sex,bmi,sick\n41,f,20.5,yes\n52,m,,no\n63,f,31,yes\n70,m,28,no\n33,f,22,no\n"
SOUTH = "sick,bmi,age,sex\nno,25,48,m\nyes,30,NA,other\nno,22,39,\nyes,27,80,f\nno,24,51,m\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "north.csv").write_text(NORTH)
    (tmp_path / "south.csv").write_text(SOUTH)
    return {"north": tmp_path / "north.csv", "south": tmp_path / "south.csv"}


def write(path, text):
    path.write_text(text)
    return path


def test_columns_in_any_order_become_the_same_features(files):
    data = fh.from_csv(files, label="sick", split={"kind": "inside", "shuffle": False})
    assert data.client_names == ("north", "south")
    assert data.encoding.features == ("age", "sex=f", "sex=m", "sex=other", "bmi")
    assert data.encoding.labels == ("no", "yes")
    np.testing.assert_array_equal(data.x[0], np.float32([41, 1, 0, 0, 20.5]))
    np.testing.assert_array_equal(data.x[5], np.float32([48, 0, 1, 0, 25]))
    assert np.isnan(data.x[1, 4])
    np.testing.assert_array_equal(data.x[7, 1:4], [0, 0, 0])  # its sex is missing
    np.testing.assert_array_equal(data.y, [1, 0, 1, 0, 0, 0, 1, 0, 1, 0])


def test_a_missing_number_becomes_the_mean_over_all_parties_training_rows(files):
    data = fh.from_csv(files, label="sick", split={"kind": "inside", "validation": 0.2, "test": 0.0})
    trained = data.x[data.train.indices]
    expected = np.nanmean(trained.astype(np.float64), axis=0)
    np.testing.assert_allclose(data.fill, expected, rtol=1e-6)
    np.testing.assert_allclose(data.mean[[0, 4]], expected[[0, 4]], rtol=1e-6)
    np.testing.assert_allclose(data.std[[0, 4]], np.nanstd(trained, axis=0)[[0, 4]], rtol=1e-5)
    np.testing.assert_array_equal(data.mean[1:4], 0)  # texts stay 0 and 1
    np.testing.assert_array_equal(data.std[1:4], 1)
    whole = without_missing(data)
    assert not np.isnan(whole.x).any()
    assert whole.x[1, 4] == data.fill[4]
    assert without_missing(whole) is whole


def test_one_file_with_a_column_of_parties(tmp_path, files):
    lines = ["place," + NORTH.splitlines()[0]]
    lines += [f"north,{line}" for line in NORTH.splitlines()[1:]]
    lines += [f"7,{line}" for line in NORTH.splitlines()[1:]]
    file = write(tmp_path / "all.csv", "\n".join(lines))
    data = fh.from_csv(file, label="sick", client="place")
    assert data.client_names == ("north", "7")
    assert "place" not in data.encoding.features
    with pytest.raises(InputError, match="one file for all parties needs client"):
        fh.from_csv(file, label="sick")
    with pytest.raises(InputError, match="is for one file with all parties"):
        fh.from_csv(files, label="sick", client="place")
    with pytest.raises(InputError, match=r"files is missing: .* path is the directory in which they lie"):
        fh.load("csv", path=str(tmp_path), label="sick", client="place")


def test_labels_of_minus_one_and_one_are_classes_and_other_numbers_regression():
    rows = {"x": [1.0, 2.0, 3.0, 4.0] * 5}
    signs = fh.from_frames({"a": rows | {"y": [-1, 1, -1, 1] * 5}}, label="y")
    assert (signs.task, signs.encoding.labels, signs.y[:2].tolist()) == ("classification", (-1, 1), [0, 1])
    prices = fh.from_frames({"a": rows | {"y": [1.5, 2.5, 3.5, 4.0] * 5}}, label="y")
    assert (prices.task, prices.classes, prices.y.dtype) == ("regression", None, np.float32)
    many = fh.from_frames({"a": {"x": list(range(30)), "y": list(range(30))}}, label="y")
    assert many.task == "regression"
    whole = fh.from_frames({"a": rows | {"y": [1, 2, 3, 4] * 5}}, label="y", task="regression")
    assert whole.task == "regression"


def test_a_new_row_is_encoded_as_the_training_rows_were(files):
    encoding = fh.from_csv(files, label="sick").encoding
    row = {"bmi": 24.0, "age": "50", "sex": "m", "more": 1}
    np.testing.assert_array_equal(encoding.encode(row), np.float32([[50, 0, 1, 0, 24]]))
    with pytest.warns(UserWarning, match=r"'sex' of the rows: 'x' is not one of \('f', 'm', 'other'\)"):
        np.testing.assert_array_equal(encoding.encode(row | {"sex": "x"})[0, 1:4], 0)
    with pytest.raises(InputError, match="the rows: the column 'age' is missing"):
        encoding.encode({"bmi": 1, "sex": "f"})
    with pytest.raises(InputError, match="'age' of the rows must hold numbers, found 'old'"):
        encoding.encode(row | {"age": "old"})
    assert Encoding.from_dict(encoding.to_dict()) == encoding


@pytest.mark.parametrize(
    ("south", "options", "message"),
    [
        ("age,sex,sick\n1,f,no\n2,m,yes\n", {}, "south lacks 'bmi'"),
        ("age,sex,bmi,sick,smokes\n1,f,2,no,1\n", {}, "south has 'smokes', which north has not"),
        (
            "age,sex,bmi,sick\nold,f,2,no\n",
            {},
            "'age' holds numbers at north and text at south, such as 'old'",
        ),
        ("age,sex,bmi,sick\n1,f,2,\n", {}, "south: 1 rows have no 'sick', the label"),
        ("age,sex,bmi,sick\n1,f,2,1\n", {}, "label 'sick': north has text, such as 'yes'"),
        ("age,sex,bmi,sick\n1,f,no\n", {}, "line 2: 3 values, but the file names 4 columns"),
        ("age;sex;bmi;sick\n1;f;2;no\n", {}, "write delimiter = ';'"),
        ("age,age,bmi,sick\n1,f,2,no\n", {}, "the column 'age' twice"),
        ("age,sex,bmi,sick\n", {}, "has no rows"),
        ("age,sex,bmi,sick\ninf,f,2,no\n", {}, "'age' of south holds an infinite value"),
        (SOUTH, {"label": "ill"}, "unknown column 'ill'"),
        (SOUTH, {"drop": ["sexx"]}, "unknown column 'sexx'"),
        (SOUTH, {"categories": {"sex": ["f", "m"]}}, "'other' is not one of .*add it to categories"),
        (SOUTH, {"task": "regression"}, "task = 'regression' needs numbers"),
        (SOUTH, {"scale": "max"}, "unknown scale 'max'"),
    ],
)
def test_what_does_not_fit_is_named_with_the_party_and_the_column(files, south, options, message):
    files["south"].write_text(south)
    with pytest.raises(InputError, match=message):
        fh.from_csv(files, **{"label": "sick", **options})


def test_dates_and_names_of_rows_are_refused_with_a_hint(tmp_path):
    dated = write(tmp_path / "a.csv", "day,y\n2024-05-01,0\n2024-06-02,1\n,0\n")
    with pytest.raises(InputError, match=r"'day' of a holds dates, such as '2024-05-01': .*days since"):
        fh.from_csv([dated], label="y")
    dated = write(tmp_path / "c.csv", "day,far,x,y\n" + "2024-05-01,inf,1,0\n2024-06-02,2,2,1\n" * 5)
    data = fh.from_csv([dated], label="y", drop=["day", "far"])
    assert data.encoding.features == ("x",)
    assert data.encoding.encode(read_csv(dated, "new rows")).tolist()[0] == [1.0]
    with pytest.raises(InputError, match="'far' of c holds an infinite value"):
        fh.from_csv([dated], label="y", drop=["day"])
    rows = "\n".join(f"patient{i},{i},{i % 2}" for i in range(80))
    named = write(tmp_path / "b.csv", f"id,x,y\n{rows}\n")
    with pytest.raises(InputError, match=r"'id' has 80 different texts in 80 rows.*drop = \['id'\]"):
        fh.from_csv([named], label="y")
    assert fh.from_csv([named], label="y", drop=["id"]).shape == (1,)


def test_given_categories_take_numbers_as_text(tmp_path):
    file = write(tmp_path / "a.csv", "zip,x,y\n" + "101,1,0\n202,2,1\n" * 5)
    data = fh.from_csv([file], label="y", categories={"zip": [101, 202, 303]})
    assert data.encoding.features == ("zip=101", "zip=202", "zip=303", "x")
    np.testing.assert_array_equal(data.x[1], np.float32([0, 1, 0, 2]))


def test_two_files_of_one_name_need_names(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "data.csv").write_text(NORTH)
    with pytest.raises(InputError, match="both give the party 'data': name the parties"):
        fh.from_csv([tmp_path / "a/data.csv", tmp_path / "b/data.csv"], label="sick")


def test_a_file_that_is_not_there_says_from_where_paths_count(tmp_path):
    with pytest.raises(InputError, match=r"none.csv: No such file.*paths count from"):
        read_csv(tmp_path / "none.csv", "a")


def test_moments_of_parties_add_up_to_those_of_all_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(1e4, 3.0, (60, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 2] = np.nan
    parts = [Moments.of(x[:5]), Moments.of(x[5:5]), Moments.of(x[5:50]), Moments.of(x[50:])]
    whole = parts[0] + parts[1] + parts[2] + parts[3]
    np.testing.assert_allclose(whole.mean[:2], np.nanmean(x[:, :2], axis=0))
    np.testing.assert_allclose(whole.std[:2], np.nanstd(x[:, :2], axis=0))
    shift, scale = whole.scaling("minmax")
    np.testing.assert_allclose(shift[:2], np.nanmin(x[:, :2], axis=0).astype(np.float32))
    assert (shift[2], scale[2]) == (0, 1)  # nobody has a value of it


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "age": [41, None] * 5,
            "sex": pandas.Categorical(["f", None] * 5),
            "old": [True, False] * 5,
            "y": ["a", "b"] * 5,
        }
    )
    data = fh.from_frames({"one": frame, "two": frame[["y", "sex", "old", "age"]]}, label="y")
    assert data.encoding.features == ("age", "sex=f", "old")
    assert data.encoding.labels == ("a", "b")
    np.testing.assert_array_equal(data.x[0], np.float32([41, 1, 1]))
    with pytest.raises(InputError, match="'day' of 'one' holds dates"):
        fh.from_frames({"one": frame.assign(day=pandas.Timestamp("2024-01-01"))}, label="y")
    dated = {"one": frame.assign(day=pandas.Timestamp("2024-01-01"), took=pandas.Timedelta("1h"))}
    data = fh.from_frames(dated, label="y", drop=["day", "took"])
    assert data.encoding.features == ("age", "sex=f", "old")
    with pytest.raises(InputError, match=r"'took' of 'one' holds dates: .* drop = \['took'\]"):
        fh.from_frames(dated, label="y", drop=["day"])
    assert frame_of(frame, "x").rows == 10
