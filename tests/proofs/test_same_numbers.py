"""Cases of `python -m proofs.several_processes`: the numbers of one process, or its bits."""

import pytest

from proofs import several_processes

pytestmark = pytest.mark.usefixtures("preloaded_processes")

NAMES = ("mlp_adam", "muon_text_first", "classification_measured", "convnet_ema_4",
         "batch_norm_8")  # fmt: skip
PROCESSES = (2, 3)


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    """The folder of all runs, how they compare, and what is wrong."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, *several_processes.prove(NAMES, folder, PROCESSES)


def test_several_processes_give_the_numbers_of_one(proof):
    _, outcomes, faults = proof
    assert faults == []
    columns = {outcome.case.name: {*outcome.columns} for outcome in outcomes}
    assert columns == {
        "mlp_adam": {"2", "3", "again"}, "muon_text_first": {"2", "3"},
        "classification_measured": {"2", "3"}, "convnet_ema_4": {"2", "2, 1"},
        "batch_norm_8": {"2", "2, 1"},
    }  # fmt: skip


def test_the_proof_sees_another_run(proof):
    folder, outcomes, _ = proof
    cases = {outcome.case.name: outcome.case for outcome in outcomes}
    for name, other in (("mlp_adam", "convnet_ema_4-1"), ("convnet_ema_4", "mlp_adam-1")):
        (folder / f"{name}-2").rename(folder / f"{name}-own")
        (folder / f"{name}-2").symlink_to(folder / other)
        faults = several_processes.compared(cases[name], folder, PROCESSES).faults
        assert any(", 2: " in fault for fault in faults)
