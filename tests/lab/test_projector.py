"""The files of TensorBoard's Projector tab, read back by TensorBoard."""

import numpy
import torch
from google.protobuf import text_format
from PIL import Image
from tensorboard.plugins.projector import projector_plugin
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from andiron.protocols import Embeddings
from andiron.writers import TensorBoardWriter


def test_embeddings_are_files_that_the_projector_reads(tmp_path):
    features = torch.tensor([[1.5, -2.0], [0.25, 1e-9], [0.0, 3.0]])
    columns = {"sample": ["0", "1", "2"], "target": ["cat", "a\tdog", "cat"]}
    shown = Embeddings(features, columns, torch.zeros(1, 10, 8, dtype=torch.uint8), (5, 4))
    asked = []
    for embeddings in (None, 3):
        writer = TensorBoardWriter(tmp_path, embeddings=embeddings)
        writer.show_embeddings(lambda most: asked.append(most) or shown)
        writer.close()
    assert asked == [3]
    folder = tmp_path / "valid"
    read = projector_plugin._read_tensor_tsv_file(str(folder / "features.tsv"))
    numpy.testing.assert_array_equal(read, features.numpy())
    labels = ["sample\ttarget", "0\tcat", "1\ta dog", "2\tcat"]
    assert (folder / "labels.tsv").read_text().splitlines() == labels
    with Image.open(folder / "sprite.png") as sprite:
        assert sprite.size == (8, 10)
    config = ProjectorConfig()
    text_format.Parse((folder / "projector_config.pbtxt").read_text(), config)
    (points,) = config.embeddings
    assert (points.tensor_path, points.metadata_path) == ("features.tsv", "labels.tsv")
    assert [*points.sprite.single_image_dim] == [4, 5]  # width and height
