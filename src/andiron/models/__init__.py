"""Networks: plain modules, independent of training; their sizes come from the data."""

from andiron.models.convnet import ConvNet
from andiron.models.dropout import Dropout
from andiron.models.gpt import GPT
from andiron.models.lenet import LeNet
from andiron.models.mlp import MLP
from andiron.models.resnet import ResNet
from andiron.models.zoo import torchvision

__all__ = ["GPT", "MLP", "ConvNet", "Dropout", "LeNet", "ResNet", "torchvision"]
