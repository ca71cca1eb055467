"""Names that parts had before they came to the lab: in records, files of users and commands."""

import pytest

from andiron.run_folder import RunFolder
from andiron.shell.config import former_options, signatures
from andiron.shell.config.composition import composed
from andiron.shell.config.project import default_conf_dir
from andiron.shell.run import run_record
from andiron_lab import former_names
from andiron_lab.forks import recorded_overrides

TARGETS = [*former_names.MOVED.values()]
FUNCTIONS = [former_names.FUNCTIONS[1] + name
             for name in ("discriminator_loss", "judged_generated", "judged_real")]  # fmt: skip


@pytest.mark.parametrize("name", [*TARGETS, *FUNCTIONS])
def test_a_run_folder_may_name_what_has_moved(name):
    assert name in signatures.shipped()


def test_a_command_may_give_a_former_name():
    given = "+metrics.kappa={_target_: andiron.metrics.CohenKappa}"
    config = composed(default_conf_dir(), ["data=digits", "model=mlp", given])
    assert config.metrics["kappa"] == {"_target_": "andiron_lab.scores.CohenKappa"}


@pytest.mark.parametrize("option", former_options.NAMES)
def test_a_resume_leaves_out_recorded_options_of_earlier_versions(tmp_path, option):
    folder = RunFolder(tmp_path)
    run_record.begin(folder)
    content = f"- {option}=null\n- lr=0.1\n".encode()
    run_record.write(folder, {folder.hydra / "overrides.yaml": content})
    assert recorded_overrides.recorded(folder, [default_conf_dir()]) == ["lr=0.1"]
