"""The layers of a built model, for one training batch: shapes, parameters, operations, memory."""

from rich.table import Table

from andiron import inference
from andiron.build.components import Components
from andiron.models.layer_costs import layers
from andiron.render.layer_table import layer_table


def overview(built: Components) -> Table:
    """A row for each layer, measured on a forward pass that leaves the model as it was."""
    batch = next(built.train.epoch(0))
    with inference.valid(built.model) as model:
        found = layers(model, lambda: model.valid_step(batch))  # type: ignore[operator]
    return layer_table(found, "layers, in a forward pass of one training batch")
