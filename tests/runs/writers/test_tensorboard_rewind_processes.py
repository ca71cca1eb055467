"""Rewinding TensorBoard's files on a full disk."""

from small_disks import fill, mounted
from tensorboard_files import all_steps, log_points, loss, resumed

from andiron.writers import TensorBoardWriter


def test_a_full_disk_delays_what_is_shown_and_loses_nothing(tmp_path):
    with mounted(tmp_path / "disk", mebibytes=1) as folder:
        log_points(writer := TensorBoardWriter(folder / "run"), 1, 2)
        filler = fill(folder)
        log_points(writer, 3, 200)  # validation's folder is opened on the full disk
        assert all_steps(folder / "run" / "train")[-1] < 200
        position = writer.position()
        filler.unlink()
        log_points(writer, 201, 201)
        assert loss(folder / "run" / "train") == [(n, n / 8) for n in range(1, 202)]
        assert all_steps(folder / "run" / "valid") == list(range(3, 202, 3))
        writer.close()
        resumed(folder / "run", position, 200, 203).close()
        assert all_steps(folder / "run" / "train") == list(range(1, 204))
