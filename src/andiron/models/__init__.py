"""Networks: plain modules that know nothing of training; their sizes come from the data."""

from andiron.models.convnet import ConvNet
from andiron.models.dropout import Dropout
from andiron.models.mlp import MLP

__all__ = ["MLP", "ConvNet", "Dropout"]
