"""The layers, graph and embeddings of a model, from passes without side effects."""

import torch
from rich.console import Console
from rich.table import Table

from andiron import inference, randomness
from andiron.protocols import Operation
from andiron.shell.assembly.components import Components
from andiron_lab.views import model_graph
from andiron_lab.views.embeddings import check_whole, embeddings
from andiron_lab.views.layer_table import layer_table, layers

__all__ = ["embeddings", "graph", "overview", "print_layers"]


def overview(built: Components) -> Table:
    """A row for each layer and one training batch: shapes, parameters, operations, memory."""
    check_whole(built.model)
    batch = next(built.train.undivided().epoch(0))
    with inference.valid(built.model) as model:
        costs = layers(model, lambda: model.valid_step(batch))  # type: ignore[operator]
    return layer_table(costs, "layers, in a forward pass of one training batch")


def print_layers(built: Components) -> None:
    """Prints `overview`."""
    Console().print(overview(built))


def graph(built: Components) -> list[Operation]:
    """The operations of a validation step with one sample."""
    check_whole(built.model)
    loader = built.valid
    with randomness.global_generators_restored():  # the data set or the model may draw from them
        sample = loader.batcher(loader.dataset.__getitems__([0]), loader.device)
        with inference.valid(built.model, torch.no_grad) as model:
            return model_graph.operations(model, model.valid_step, sample)  # type: ignore[arg-type]
