"""The charts of TensorBoard's Custom Scalars tab: each metric with every split on one chart."""

import re
from collections.abc import Iterable

from tensorboard.plugins.custom_scalar import layout_pb2

OF_TRAINING = {  # charts by title, with their tags
    "learning rate": ["lr/.*"],
    "gradient norm": ["grad_norm/.*"],
    "update ratio": ["update_ratio/.*"],
}
OF_THE_MACHINE = {
    "samples per second": ["time/samples_per_second"],
    "seconds for a step": ["time/step"],
    "share of time waiting": ["time/data.*", "time/exchange.*"],
    "memory in GiB": ["system/.*_gib"],
    "load in percent": ["system/.*_percent"],
}


def layout(metrics: Iterable[str]) -> bytes:
    """The layout for `metrics`; parts of a metric, such as recall/cat, share its chart."""
    names = dict.fromkeys(name.partition("/")[0] for name in metrics)
    categories = {
        "metrics": {name: [f"{re.escape(name)}(/.*)?"] for name in names},
        "training": OF_TRAINING,
        "machine": OF_THE_MACHINE,
    }
    definition = layout_pb2.Layout(
        category=[
            layout_pb2.Category(title=title, chart=[_chart(*item) for item in charts.items()])
            for title, charts in categories.items()
        ]
    )
    return bytes(definition.SerializeToString())


def _chart(title: str, tags: list[str]) -> layout_pb2.Chart:
    patterns = [f"^{tag}$" for tag in tags]
    return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=patterns))
