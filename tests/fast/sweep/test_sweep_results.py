"""The results of a sweep: the command of a job."""

from andiron.wings.sweep import sweep_results
from andiron.wings.sweep.ledger import Job


def test_the_command_of_a_job_is_quoted_and_printable():
    job = Job("d", 3, ("name=a b", "lr=0.1\x1b[2J\n"), threads="1")

    command = sweep_results.command_of(job, ["train.py", "-m", "lr=1,2"])

    assert command == "OMP_NUM_THREADS=1 python train.py 'name=a b' 'lr=0.1\\x1b[2J\\n'"


def test_the_command_of_a_job_repeats_script_and_folders_of_the_sweep():
    job = Job("d", 3, ("experiment=mine", "lr=0.1"))

    def command(*sweep):
        return sweep_results.command_of(job, list(sweep))

    mine = "experiment=mine lr=0.1"
    called = "../a b/train.py", "experiment=mine", "-m", "--config-dir=my conf"
    assert command(*called) == f"python '../a b/train.py' {mine} --config-dir 'my conf'"
    of_module = "/x/andiron/__main__.py", "-m", "-cn", "own"
    assert command(*of_module) == f"python -m andiron {mine} --config-name own"
    assert command("/bin/andiron", "-m") == f"/bin/andiron {mine}"
    assert command("train.py", "--config-dir") == f"python train.py {mine}"  # a damaged ledger
