"""TensorBoard's files, read back with TensorBoard's own readers."""

import io

import numpy
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.util import tensor_util

from andiron import randomness
from andiron.protocols import Decisions, Operation, Point
from andiron.writers import JsonLinesWriter, TensorBoardWriter

POINTS = [
    Point("train", 20, 1, {"loss": 0.5, "accuracy": 0.25, "lr/base": 0.125}),
    Point("train", 21, 1, {"loss": 0.25, "accuracy": 0.5, "lr/base": 0.125}),
    Point("train", 21, 1, {"loss": 0.375, "accuracy": 0.375}, whole_epoch=True),
    Point("valid", 21, 1, {"loss": 0.75, "accuracy": 0.625}, whole_epoch=True),
    Point("train", 41, 2, {"loss": 0.125, "accuracy": 0.75, "lr/base": 0.0625}),
    Point("valid", 42, 2, {"loss": 1.0, "accuracy": 0.875}, whole_epoch=True),
    Point("test", 42, 2, {"loss": 2.0, "accuracy": 0.0}, whole_epoch=True),
]


def events(folder):
    """Every record in the folder's own files, as it was written."""
    files = sorted(folder.glob("events.out.tfevents.*"))
    return [
        Event.FromString(record)
        for file in files
        for record in RawEventFileLoader(str(file)).Load()
    ]


def scalars(folder):
    """Steps and values by tag, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def values(folder):
    return [value for event in events(folder) for value in event.summary.value]


def hparams(folder):
    """The messages to the HParams tab, by tag."""
    return {value.tag: value.metadata.plugin_data.content for value in values(folder)
            if value.metadata.plugin_data.plugin_name == "hparams"}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for point in POINTS:
        writer.write(point)
    writer.close()
    return tmp_path


def test_tensorboard_reads_back_tags_steps_and_values(written):
    assert scalars(written / "train") == {
        "loss": [(20, 0.5), (21, 0.25), (41, 0.125)],
        "accuracy": [(20, 0.25), (21, 0.5), (41, 0.75)],
        "lr/base": [(20, 0.125), (21, 0.125), (41, 0.0625)],
        "epoch": [(20, 1.0), (21, 1.0), (41, 2.0)],
    }
    assert scalars(written / "valid") == {
        "loss": [(21, 0.75), (42, 1.0)],
        "accuracy": [(21, 0.625), (42, 0.875)],
        "epoch": [(21, 1.0), (42, 2.0)],
    }


def test_all_scalars_of_a_log_point_are_one_event(written):
    version, *points = events(written / "train")
    assert version.file_version == "brain.Event:2"
    assert [event.step for event in points] == [20, 21, 41]
    assert all(
        {value.tag for value in event.summary.value} == {"loss", "accuracy", "lr/base", "epoch"}
        for event in points
    )


def test_the_test_set_is_not_shown(written):
    names = {path.name for path in written.iterdir() if path.is_dir()}
    assert names == {"train", "valid", "hparams"}
    shown = {
        value
        for part in ("train", "valid")
        for curve in scalars(written / part).values()
        for _, value in curve
    }
    assert 0.0 not in shown  # the accuracy on the test set


def test_averaged_weights_are_a_run_of_their_own_unless_on_the_test_set(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for split, loss in (("valid", 0.5), ("valid-ema", 0.25), ("test", 2.0), ("test-ema", 4.0)):
        writer.write(Point(split, 21, 1, {"loss": loss}, whole_epoch=True))
    writer.close()
    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert names == {"valid", "valid-ema", "hparams"}
    assert scalars(tmp_path / "valid-ema") == {"loss": [(21, 0.25)], "epoch": [(21, 1.0)]}


def test_the_hparams_tab_has_whole_epochs_and_the_test_set_separately(written):
    assert scalars(written / "hparams") == {
        "train/loss": [(21, 0.375)],
        "train/accuracy": [(21, 0.375)],
        "valid/loss": [(21, 0.75), (42, 1.0)],
        "valid/accuracy": [(21, 0.625), (42, 0.875)],
        "test/loss": [(42, 2.0)],
        "test/accuracy": [(42, 0.0)],
    }


def histograms(folder):
    """Steps and histograms by tag, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"histograms": 0}).Reload()
    tags = accumulator.Tags()["histograms"]
    return {
        tag: {event.step: event.histogram_value for event in accumulator.Histograms(tag)}
        for tag in tags
    }


def histogram_of(folder, tensor):
    """The one histogram of a tensor that was written, or None."""
    writer = TensorBoardWriter(folder)
    writer.write(Point("train", 1, 1, {"loss": 0.5}, histograms={"weights/a": tensor}))
    writer.close()
    return histograms(folder / "train").get("weights/a", {}).get(1)


def uneven(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=randomness.stream(0, "values", *shape)).to(dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str
)
def test_a_histogram_is_that_of_numpy(tmp_path, dtype):
    tensor = (10 * uneven(7, 13, 5)).to(dtype)
    actual, values = histogram_of(tmp_path, tensor), tensor.double().numpy()
    counts, edges = numpy.histogram(values, bins=64)
    assert actual.bucket == counts.tolist()
    # edges by another formula, each of a few roundings
    numpy.testing.assert_allclose(
        actual.bucket_limit, edges[1:], rtol=0, atol=4 * 2**-52 * numpy.abs(values).max()
    )
    assert (actual.min, actual.max, actual.num) == (values.min(), values.max(), 7 * 13 * 5)
    assert actual.bucket_limit[-1] == actual.max
    # sums of 455 numbers in another order
    numpy.testing.assert_allclose(
        actual.sum, values.sum(), rtol=0, atol=455 * 2**-52 * numpy.abs(values).sum()
    )
    numpy.testing.assert_allclose(actual.sum_squares, (values**2).sum(), rtol=455 * 2**-52)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e38])
def test_values_that_are_all_equal_are_one_bucket_of_no_width(tmp_path, value):
    tensor = torch.full((3, 5), value)
    histogram = histogram_of(tmp_path, tensor)
    exact = tensor[0, 0].item()
    assert (histogram.min, histogram.max, histogram.num) == (exact, exact, 15)
    assert (histogram.bucket_limit, histogram.bucket) == ([exact], [15.0])


def test_only_finite_values_are_counted(tmp_path):
    tensor = torch.tensor([1.0, torch.nan, -1.0, torch.inf, 0.5, -torch.inf])
    actual, expected = (
        histogram_of(tmp_path / "a", tensor),
        histogram_of(tmp_path / "b", torch.tensor([1.0, -1.0, 0.5])),
    )
    assert actual == expected
    assert (actual.num, actual.sum, actual.sum_squares) == (3, 0.5, 2.25)


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(0), torch.empty(3, 0), torch.full((7,), torch.nan)],
    ids=["0", "3x0", "nan"],
)
def test_a_tensor_without_finite_values_has_scalars_but_no_histogram(tmp_path, tensor):
    assert histogram_of(tmp_path, tensor) is None
    assert scalars(tmp_path / "train") == {"loss": [(1, 0.5)], "epoch": [(1, 1.0)]}


def test_the_largest_and_the_smallest_numbers_have_a_histogram(tmp_path):
    extremes = torch.tensor([torch.finfo(torch.float32).min, torch.finfo(torch.float32).max, 0.0])
    assert [
        number
        for number, count in enumerate(histogram_of(tmp_path / "a", extremes).bucket)
        if count
    ] == [0, 32, 63]
    tiny = torch.tensor([1e-45, 3e-45])
    assert [
        number for number, count in enumerate(histogram_of(tmp_path / "b", tiny).bucket) if count
    ] == [0, 63]


def test_a_parameter_is_shown_and_left_as_it_was(tmp_path):
    parameter = torch.nn.Parameter(uneven(7, 3))
    before = parameter.detach().clone()
    assert histogram_of(tmp_path, parameter).num == 21
    assert torch.equal(parameter, before)


def test_scalars_and_histograms_of_a_log_point_are_one_event(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for updates in (20, 41):
        tensors = {"weights/a": uneven(updates), "gradients/a": uneven(3, updates)}
        writer.write(Point("train", updates, 1, {"loss": 0.5}, histograms=tensors))
    writer.close()
    _, *points = events(tmp_path / "train")
    assert [event.step for event in points] == [20, 41]
    assert all(
        [value.tag for value in event.summary.value]
        == ["loss", "epoch", "weights/a", "gradients/a"]
        for event in points
    )
    result = histograms(tmp_path / "train")
    numbers = {tag: [step.num for step in steps.values()] for tag, steps in result.items()}
    assert numbers == {"weights/a": [20, 41], "gradients/a": [60, 123]}  # fmt: skip


def test_histograms_go_to_tensorboard_alone(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.write(Point("train", 1, 1, {"loss": 0.5}, histograms={"weights/a": uneven(3)}))
    writer.close()
    assert "weights/a" not in (tmp_path / "metrics.jsonl").read_text()


def test_every_point_is_on_the_disk_when_it_is_written(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for number in range(1, 5):
        writer.write(Point("train", number, 1, {"loss": number / 8}))
        assert [step for step, _ in scalars(tmp_path / "train")["loss"]] == list(
            range(1, number + 1)
        )
    writer.close()


def test_texts_are_pages_of_the_text_tab(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session(
        {}, {"config": "```json\n{}\n```", "provenance": "| a | b |\n|---|---|\n| ä | 2 |"}
    )
    writer.close()
    pages = {
        value.tag: tensor_util.make_ndarray(value.tensor).item().decode()
        for value in values(tmp_path) if value.metadata.plugin_data.plugin_name == "text"
    }  # fmt: skip
    assert pages == {
        "config/text_summary": "```json\n{}\n```",
        "provenance/text_summary": "| a | b |\n|---|---|\n| ä | 2 |",
    }


def test_hyperparameters_start_a_session_and_never_an_experiment(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session({"lr": 1e-3, "seed": 7, "optimizer": "Adam", "amsgrad": False}, {})
    writer.end_session(succeeded=True)
    writer.close()
    messages = hparams(tmp_path / "hparams")
    assert set(messages) == {"_hparams_/session_start_info", "_hparams_/session_end_info"}
    start = metadata.parse_session_start_info_plugin_data(messages["_hparams_/session_start_info"])
    result = {
        name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()
    }
    assert result == {"lr": 0.001, "seed": 7.0, "optimizer": "Adam", "amsgrad": "False"}


@pytest.mark.parametrize(
    "succeeded, status", [(True, api_pb2.STATUS_SUCCESS), (False, api_pb2.STATUS_FAILURE)]
)
def test_a_session_ends_as_the_run_did(tmp_path, succeeded, status):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session({"lr": 0.1}, {})
    writer.end_session(succeeded=succeeded)
    writer.close()
    messages = hparams(tmp_path / "hparams")
    start = metadata.parse_session_start_info_plugin_data(messages["_hparams_/session_start_info"])
    end = metadata.parse_session_end_info_plugin_data(messages["_hparams_/session_end_info"])
    assert end.status == status
    assert start.start_time_secs <= end.end_time_secs


def test_two_writers_of_one_process_share_no_file(tmp_path):
    one, other = TensorBoardWriter(tmp_path), TensorBoardWriter(tmp_path)
    one.write(POINTS[0])
    other.write(POINTS[4])
    one.close()
    other.close()
    assert len(list((tmp_path / "train").iterdir())) == 2
    assert {event.step for event in events(tmp_path / "train") if event.step} == {20, 41}


def test_pages_and_pictures_stand_where_they_were_made(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    colours = torch.arange(24, dtype=torch.uint8).reshape(3, 2, 4)
    writer.write(
        Point("valid", 42, 2, {"loss": 1.0}, whole_epoch=True, texts={"confusion": "| a | b |"})
    )
    writer.write(
        Point(
            "valid",
            42,
            2,
            {},
            texts={"sample": "to be"},
            images={"colour": colours, "grey": colours[:1]},
        )
    )
    writer.close()

    read = EventAccumulator(str(tmp_path / "valid"), size_guidance={"images": 0}).Reload()

    assert read.Tags()["scalars"] == ["loss", "epoch"]
    # once, by the point that has values
    assert [event.step for event in read.Scalars("epoch")] == [42]
    for tag, text in (("confusion", "| a | b |"), ("sample", "to be")):
        (event,) = read.Tensors(f"{tag}/text_summary")
        assert (event.step, tensor_util.make_ndarray(event.tensor_proto).item().decode()) == (
            42, text,
        )  # fmt: skip
    for tag, pixels in (("colour", colours), ("grey", colours[:1])):
        (event,) = read.Images(tag)
        assert (event.step, event.width, event.height) == (42, 4, 2)
        shown = numpy.array(Image.open(io.BytesIO(event.encoded_image_string)))
        assert numpy.array_equal(shown.reshape(2, 4, -1), pixels.permute(1, 2, 0).numpy())


def test_a_precision_recall_curve_has_counts_and_both_ratios(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    counts = torch.tensor([[3.0, 2.0, 0.0], [5.0, 1.0, 0.0], [0.0, 4.0, 5.0], [0.0, 1.0, 3.0]])
    writer.write(Point("valid", 21, 1, {}, decisions={"pr_curve/cat": Decisions(counts)}))
    writer.close()
    (value,) = values(tmp_path / "valid")
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("pr_curve/cat", "pr_curves")
    precision, recall = [3 / 8, 2 / 3, 0.0], [1.0, 2 / 3, 0.0]
    expected = numpy.array([*counts.tolist(), precision, recall], dtype="float32")
    numpy.testing.assert_array_equal(tensor_util.make_ndarray(value.tensor), expected)


def test_a_graph_has_a_node_for_each_operation_unless_switched_off(tmp_path):
    operations = [
        Operation("inputs", "input", [], [[1, 3]]),
        Operation("Linear[head]/linear", "linear", ["inputs"], [[1, 2]], "head.weight [2, 3]"),
    ]
    for name, options in (("on", {}), ("off", {"graph": False})):
        writer = TensorBoardWriter(tmp_path / name, **options)
        writer.show_graph(lambda: operations)
        writer.close()
    (actual,) = [event.graph_def for event in events(tmp_path / "on") if event.graph_def]
    nodes = GraphDef.FromString(actual).node
    assert [(node.name, node.op, [*node.input]) for node in nodes] == [
        ("inputs", "input", []), ("Linear[head]/linear", "linear", ["inputs"]),
    ]  # fmt: skip
    (shape,) = nodes[1].attr["_output_shapes"].list.shape
    assert [value.size for value in shape.dim] == [1, 2]
    assert nodes[1].attr["weights"].s == b"head.weight [2, 3]"
    assert not any(event.graph_def for event in events(tmp_path / "off"))
