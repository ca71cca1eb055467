"""The learning-rate range test: on a known curve, and on the digits."""

import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron_lab.views import find_lr, loss_curve
from andiron_lab.views.find_lr import Range
from in_process import called


def test_the_rates_are_a_constant_factor_apart_from_the_first_to_the_last():
    tried = Range(1e-4, 1.0, 5)
    assert [tried(update) for update in range(5)] == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])


def test_the_smoothed_loss_of_a_constant_is_the_constant():
    assert loss_curve.smoothed([2.0] * 7) == pytest.approx([2.0] * 7)
    # 0.9 * 0.1 / (1 - 0.81)
    assert loss_curve.smoothed([1.0, 0.0]) == pytest.approx([1.0, 0.09 / 0.19])


def test_the_suggestion_is_where_a_sigmoid_over_log_lr_falls_fastest():
    tried = Range(1e-6, 1.0, 400)
    rates = [tried(update) for update in range(400)]
    losses = [2 / (1 + math.exp(3 * (math.log10(rate) + 3))) for rate in rates]  # steepest at 1e-3
    # smoothing lags by ten of 66 rates a decade
    assert loss_curve.suggestion(rates, losses) == pytest.approx(1e-3, rel=0.5)


def test_it_finds_a_rate_for_adam_and_writes_a_picture_and_a_curve(tmp_path):
    options = ("--updates", "120", f"hydra.run.dir={tmp_path}", "param_groups=layerwise")
    ended = called(find_lr.main, *options)
    assert (ended.code, ended.errors) == (0, "")
    record = json.loads((tmp_path / "find_lr.json").read_text())
    assert 1e-4 < record["lr"] < 2e-2  # Adam's own default is 1e-3
    assert ended.output.startswith(f"lr={record['lr']:.2g}: the smoothed loss falls fastest")
    assert len(record["rates"]) == len(record["losses"]) and record["losses"][-1] > min(
        record["losses"]
    )
    assert (tmp_path / "find_lr.png").read_bytes()[:4] == b"\x89PNG"
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    rates = [event.value for event in events.Scalars("lr/layer_2")]
    assert rates == pytest.approx(record["rates"], rel=1e-6)  # TensorBoard keeps float32
    assert [event.value for event in events.Scalars("lr/layer_0")] == pytest.approx(
        [0.75**2 * rate for rate in rates], rel=1e-6
    )


@pytest.mark.parametrize("options, words", [
    (["--first", "1", "--last", "0.1"], "should be 0 < first < last, and at least 10 updates"),
    (["--updates", "3"], "should be 0 < first < last, and at least 10 updates"),
    (["optimizer=adamm"], "optimizer=adamm: no such optimizer; did you mean 'adam'?"),
    (["--first", "1e30", "--last", "1e31", "optimizer=sgd"],
     "--first=1e+30: the loss diverged after"),
])  # fmt: skip
def test_nonsense_is_refused_by_its_words(tmp_path, options, words):
    ended = called(find_lr.main, f"hydra.run.dir={tmp_path}", *options)
    assert ended.code == 2
    assert words in ended.errors


def test_the_noise_of_the_first_batches_suggests_nothing():
    rates = [1e-6 * 1.1**number for number in range(100)]
    losses = [4.0, 2.0, *[3.0] * 58, *[3.0 - 0.08 * number for number in range(30)], *[9.0] * 10]

    assert rates[60] <= loss_curve.suggestion(rates, losses) <= rates[90]


def test_a_file_of_the_users_is_not_replaced_and_no_empty_folder_is_left(tmp_path):
    (tmp_path / "find_lr.png").write_text("mine")
    ended = called(find_lr.main, f"hydra.run.dir={tmp_path}", cwd=tmp_path)
    assert ended.code == 1 and "find_lr.png: exists already; choose another" in ended.errors
    assert (tmp_path / "find_lr.png").read_text() == "mine"

    run_record.begin(RunFolder(tmp_path))
    ended = called(find_lr.main, f"hydra.run.dir={tmp_path}/new", cwd=tmp_path)
    assert ended.code == 1 and "is inside the run folder" in ended.errors
    assert not (tmp_path / "new").exists()
