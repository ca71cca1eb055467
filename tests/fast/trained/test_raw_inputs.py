"""Raw inputs become samples as in training, or all problems are reported at once."""

from datetime import date

import pytest
import torch
from PIL import Image

from andiron import errors
from andiron.data import ArrayBatcher, Batch, ImageBatcher
from andiron.data.kinds import recorded_kind
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.described import Described
from andiron.metrics import HammingAccuracy
from andiron.tasks import BinaryClassifier, Classifier, MultiLabelClassifier, Regressor
from andiron.wings.trained import predictions

TABLE = Described(
    "houses", ArrayBatcher(), {"input_shape": (2,), "columns": ["rooms", "area"]}, 256, "float32"
)
GREY = Described("digits", ImageBatcher(0.5, 0.5, 16.0), {"input_shape": (1, 4, 4)}, 256, "uint8")
WIDE = Described("pairs", ImageBatcher(0.5, 0.5), {"input_shape": (1, 4, 8)}, 256, "uint8")
FLOATS = Described("arrays", ArrayBatcher(), {"input_shape": (1, 4, 4)}, 256, "float32")
TEXT = Described(
    "poem",
    TextBatcher(),
    {"input_shape": (4,), "context_length": 4, "vocabulary": ["a", "b"], "vocabulary_size": 2},
    64,
)


def inputs_of(given, data):
    samples = recorded_kind.of(data).samples(given)
    return samples.dataset.__getitems__(range(len(samples.dataset))).inputs


def test_rows_have_the_columns_of_the_training_in_their_order(tmp_path):
    rows = [{"area": 70, "name": "x", "rooms": "3"}, {"rooms": 2.5, "area": 40}]
    expected = torch.tensor([[3.0, 70.0], [2.5, 40.0]])
    path = tmp_path / "houses.csv"
    path.write_text("area,rooms\n70,3\n40,2.5\n")

    assert torch.equal(inputs_of(rows, TABLE), expected)
    assert torch.equal(inputs_of(rows[0], TABLE), expected[:1])
    assert torch.equal(inputs_of(str(path), TABLE), expected)
    assert torch.equal(inputs_of(expected.numpy(), TABLE), expected)
    assert torch.equal(inputs_of([[3, 70], [2.5, 40]], TABLE), expected)


def test_all_wrong_rows_are_listed():
    rows = [{"rooms": "x", "area": 1}, {"rooms": 1, "area": 1}, {"rooms": 1, "are": 2}]
    samples = recorded_kind.of(TABLE).samples(rows)
    (problems,) = samples.problems
    head, first, second, remedy = problems.splitlines()
    assert samples.names == ["row 1"]
    assert (head, remedy) == ("2 rows cannot be used:", "correct or remove them")
    assert first.startswith("  row 0, column 'rooms': 'x' is not a finite number")
    assert second == "  row 2: has no column 'area'; did you mean 'are'?"


def test_rows_are_encoded_as_in_the_training(tmp_path):
    columns = [
        {"column": "area", "kind": "number", "fill": 70.0, "categories": []},
        {"column": "town", "kind": "one_hot", "categories": ["3", "Rome"]},
        {"column": "sold", "kind": "date", "categories": []},
    ]
    encoding = {"columns": columns, "missing": "median", "date_format": None, "decimal": "."}
    facts = {"input_shape": (4,), "columns": ["area", "town", "sold"], "encoding": encoding}
    table = Described("houses", ArrayBatcher(), facts, 256, "float32")
    rows = [
        {"area": None, "town": 3.0, "sold": date(1970, 1, 3)},
        {"area": float("nan"), "town": "Oslo", "sold": "1970-01-02T12:00"},
        {"area": 2, "town": "Rome", "sold": "1969-12-31"},
    ]
    expected = [[70.0, 1.0, 0.0, 2.0], [70.0, 0.0, 0.0, 1.5], [2.0, 0.0, 1.0, -1.0]]
    path = tmp_path / "houses.csv"
    path.write_text("sold;x;town;area\n" + "".join(
        f"{row['sold']};;{row['town'] if row['town'] != 3.0 else 3};{row['area'] or ''}\n"
        for row in rows
    ))  # fmt: skip

    assert recorded_kind.of(table).samples(rows).dataset.inputs.tolist() == expected
    assert recorded_kind.of(table).samples(path).dataset.inputs.tolist() == expected
    content = recorded_kind.of(table).samples(path.read_bytes())  # of standard input
    assert content.dataset.inputs.tolist() == expected
    assert [*content.names] == ["stdin, line 2", "stdin, line 3", "stdin, line 4"]
    with pytest.raises(errors.DataError, match="^row 0, column 'sold': 'soon' is not a date YYYY"):
        recorded_kind.of(table).samples([{"area": 1, "town": "", "sold": "soon"}])
    columns[0]["kind"] = "lambda"
    with pytest.raises(errors.DataError, match="^encoding: is malformed"):
        recorded_kind.of(table).samples(rows)


def test_pictures_become_pixels_of_the_shape_of_the_data():
    grey = torch.arange(16, dtype=torch.uint8).view(4, 4)
    picture = Image.fromarray(grey.numpy())

    samples = recorded_kind.of(GREY).samples([picture, picture.resize((8, 8))])
    assert torch.equal(samples.dataset.__getitems__([0]).inputs[0, 0], grey)
    assert samples.dataset.__getitems__([1]).inputs.shape == (1, 1, 4, 4)
    assert samples.batcher.scale == 255.0  # of pictures; the data set stores sixteenths
    assert inputs_of(picture.resize((8, 4)), WIDE).shape == (1, 1, 4, 8)
    narrow = recorded_kind.of(WIDE).samples(picture)
    narrow.dataset.__getitems__([0])
    assert "4x4 pixels where the run has 8x4" in narrow.unreadable[0]
    assert picture.size == (4, 4)


@pytest.mark.parametrize(("given", "data", "words"), [
    ([], GREY, "there are no inputs"),
    (torch.zeros(3, 5), TABLE, r"inputs of shape \[3, 5\] are not samples of houses"),
    (torch.zeros(0, 2), TABLE, "there are no inputs"),
    ([object()], GREY, r"files or PIL images, or arrays of shape \[number, 1, 4, 4\]"),
    (["none.csv"], TABLE, r"none.csv: cannot be read \(No such file"),
    (["a.png"], FLOATS, "files and pictures are not samples of arrays"),
    (["a.png"], Described("own", ArrayBatcher(), {}, 64), "give run.predict in Python a"),
    (["abc"], TEXT, "text=.abc.: the vocabulary has no 'c'"),
    ([""], TEXT, "text: should have at least one character"),
])  # fmt: skip
def test_what_is_no_sample_is_refused_with_what_is(given, data, words):
    with pytest.raises(errors.DataError, match=words):
        recorded_kind.of(data).samples(given)


def test_texts_are_their_last_tokens_and_uneven_ones_come_alone():
    assert inputs_of("aabbab", TEXT).tolist() == [[1, 1, 0, 1]]
    assert recorded_kind.of(TEXT).samples(["ab", "b"]).comes_alone
    assert not recorded_kind.of(TEXT).samples(["ab", "ba"]).comes_alone


def test_each_task_says_its_own():
    identity = torch.nn.Identity()

    def said(task, outputs, **facts):
        return next(predictions.of_batch(task, outputs, facts, ["x"]))

    names = ["no", "yes"]
    assert said(Classifier(identity), torch.tensor([[1.0, 3.0, 2.0]])).label == "1"
    yes = said(BinaryClassifier(identity), torch.tensor([0.0]), class_names=names)
    assert (yes.label, yes.probabilities) == ("no", {"no": 0.5, "yes": 0.5})
    labels = said(MultiLabelClassifier(identity), torch.tensor([[1.0, -1.0]]), class_names=names)
    assert labels.labels == ("no",) and labels.label is None
    values = said(Regressor(identity), torch.tensor([[2.0]]), target_columns=["price"])
    assert values.values == {"price": 2.0} and values.name == "x"
    bare = said(identity, torch.tensor([[2.0, 3.0]]))
    assert bare.output.tolist() == [2.0, 3.0] and not bare.values
    with pytest.raises(errors.MismatchError, match="no tensor with a row for each"):
        said(identity, {"boxes": 1})


def test_labels_agree_with_the_metrics_where_probabilities_are_equal():
    identity = torch.nn.Identity()
    logits = torch.tensor([[0.0, 0.0], [0.0, 1e-9], [1e-9, 0.0], [-1e-9, -1e-8]])
    labels = predictions.of_batch(Classifier(identity), logits, {}, [*"abcd"])
    assert [int(label.label) for label in labels] == logits.argmax(-1).tolist() == [0, 1, 0, 0]
    column = torch.tensor([-1e-9, 0.0, 1e-9])
    answers = predictions.of_batch(BinaryClassifier(identity), column, {}, [*"abc"])
    several = predictions.of_batch(MultiLabelClassifier(identity), column[:, None], {}, [*"abc"])
    item = BinaryClassifier(identity).valid_step(Batch(column, torch.tensor([0, 0, 1])))
    assert HammingAccuracy()(item)[0].all()
    assert [answer.label for answer in answers] == ["0", "0", "1"]
    assert [value.labels for value in several] == [(), (), ("0",)]
