"""How often Hydra composes the configuration, and that it still finds a sweep wherever one is set.
"""

import shutil

from hydra._internal.hydra import Hydra

from andiron.config import composition
from conftest import ROOT

MODE = "hydra: {mode: MULTIRUN, sweeper: {params: {lr: '0.1,0.2'}}, output_subdir: null}"


def rates(conf_dir, *arguments):
    """The learning rate of each run that the arguments compose."""
    found = []
    composition.run(lambda config, *_: found.append(config.lr), conf_dir, [*arguments])
    return found


def test_a_single_run_is_composed_once(here, monkeypatch):
    compose, modes = Hydra.compose_config, []

    def counted(self, config_name, overrides, run_mode, **options):
        modes.append(run_mode.name)
        return compose(self, config_name, overrides, run_mode, **options)

    monkeypatch.setattr(Hydra, "compose_config", counted)
    assert (rates(ROOT / "conf", "lr=0.1"), modes) == ([0.1], ["RUN"])


def test_a_file_of_conf_can_set_hydra_mode_and_sweep(here):
    conf = shutil.copytree(ROOT / "conf", here / "conf")
    text = (conf / "train.yaml").read_text()
    line = next(each for each in text.splitlines() if each.startswith("hydra:"))
    (conf / "train.yaml").write_text(text.replace(line, MODE))

    assert rates(conf, "hydra/launcher=basic") == [0.1, 0.2]
