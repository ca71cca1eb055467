"""Pictures of a search: the objective over the trials, what it depends on, and the best trade-offs.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState

from andiron.disk import files, png
from andiron.sweep.search.study import SweepStudy

Plot = Callable[..., Any]


def drawn(study: SweepStudy, folder: Path) -> list[Path]:
    """The PNG files written to the folder: for each objective its history and importances."""
    ended = study.trials(TrialState.COMPLETE)
    if not ended:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from optuna.visualization import matplotlib as plots

    wanted: list[tuple[str, Plot, dict[str, Any]]] = []
    for number, objective in enumerate(study.objectives):
        which = f"-{objective.name.replace('/', '-')}" if len(study.objectives) > 1 else ""
        of_this = {"target_name": objective.name, "target": _value(number) if which else None}
        wanted.append((f"history{which}", plots.plot_optimization_history, of_this))
        if len({each.values[number] for each in ended}) > 1:
            estimated = of_this | {"evaluator": FanovaImportanceEvaluator(seed=0)}
            wanted.append((f"importance{which}", plots.plot_param_importances, estimated))
    if 1 < len(study.objectives) < 4:
        names = [each.name for each in study.objectives]
        wanted.append(("trade_offs", plots.plot_pareto_front, {"target_names": names}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return [
            _saved(plot(study.optuna, **options), folder / f"{name}.png")
            for name, plot, options in wanted
        ]


def _value(number: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[number])


def _saved(axes: Any, path: Path) -> Path:
    from matplotlib import pyplot

    files.write(path, png.of_figure(axes.figure, bbox_inches="tight"))
    pyplot.close(axes.figure)
    return path
