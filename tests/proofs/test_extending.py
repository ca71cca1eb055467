"""`docs/extending.md`, done: its files written outside the repository, its commands run."""

import json
import re

import pytest

from extending_page import FIRST, PAGE, SECOND, THIRD, said, written_in

pytestmark = pytest.mark.usefixtures("preloaded_processes")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """`my_project`, outside the repository."""
    return written_in(tmp_path_factory.mktemp("elsewhere"))


def test_the_page_shows_each_file_it_lists(project):
    listed = re.findall(r"conf/\S+\.yaml", PAGE.split("```text")[1].split("```")[0])

    written = [str(path.relative_to(project)) for path in project.glob("conf/**/*.yaml")]
    assert sorted(written) == sorted(listed)
    assert (project / "parts.py").is_file() and len(listed) == 12


@pytest.mark.slow
def test_the_first_command_trains_with_network_data_metrics_and_optimizer(project):
    printed = said(project, FIRST.replace("inverse_root", "inverse_root render=plain"))

    (run_dir,) = (project / "outputs").glob("*/*")
    summary = json.loads((run_dir / "summary.json").read_text())
    (group,) = summary["param_groups"].values()
    values = {(row["split"], row["metric"]): row["last"] for row in summary["metrics"]}
    assert (summary["model"], group["optimizer"], group["options"]["decay"]) == (
        "Residual", "parts.SignSGD", 0.01,
    )  # fmt: skip
    # E|noise| of 0.1 is 0.08; a mean alone, learning nothing, is 0.8 off
    assert 0.07 < values["valid", "mae"] < 0.15 and 0.07 < values["test", "mae"] < 0.15
    assert "epoch 40/40" in printed and re.search(r"valid loss \S+  mae \S+", printed)
    facts = json.loads((run_dir / "data.json").read_text())
    assert facts.pop("preprocessing")["batcher"]["kind"] == "ArrayBatcher"
    assert facts == {"input_shape": [2], "num_outputs": 1}
    events = b"".join(path.read_bytes() for path in (run_dir / "tensorboard" / "valid").iterdir())
    assert b"scatter" in events and b"PNG" in events


@pytest.mark.slow
def test_the_second_command_trains_and_resumes_with_the_other_parts(project):
    said(project, SECOND)

    run_dir = project / "smooth"
    config = json.loads((run_dir / "config.json").read_text())
    assert config["loss"]["_target_"] == "parts.log_cosh"
    assert config["gradients"] == {
        "gradient_dropout": {"_target_": "parts.gradient_dropout", "rate": 0.1}
    }
    summary = json.loads((run_dir / "summary.json").read_text())
    assert {row["metric"] for row in summary["metrics"]} == {"loss", "mae", "change"}
    lines = (run_dir / "validations.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 19", "| 38", "| 57", "| 76"]
    kept, mirrored = run_dir / "checkpoints", project / "backup" / "smooth"
    names = {path.name for path in kept.glob("step-*")}
    assert names and {path.name for path in mirrored.iterdir()} == names
    for name in names:
        for file in (kept / name).iterdir():
            assert (mirrored / name / file.name).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_the_third_command_keeps_checkpoints_by_its_own_strategy(project):
    said(project, THIRD)
    kept = {path.name for path in (project / "doubling" / "checkpoints").glob("step-*")}
    assert kept == {f"step-{number}" for number in (0, 19, 38, 76, 114)}


@pytest.mark.slow
def test_a_mistake_in_ones_own_part_is_reported_like_any_other(project):
    command = FIRST.replace("scheduler=inverse_root", "+model.wdith=3")

    assert "model.wdith: no such option; did you mean 'width'?" in said(project, command, code=2)
