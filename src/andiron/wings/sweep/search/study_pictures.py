"""Plots of a search: objective history, parameter importance and Pareto front."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState

from andiron.disk import files
from andiron.wings.comparison import figures
from andiron.wings.sweep.search.study import SweepStudy

Plot = Callable[..., Any]


def draw(study: SweepStudy, folder: Path) -> list[Path]:
    """Writes the plots to the folder; returns the paths of the PNG files."""
    ended = study.trials(TrialState.COMPLETE)
    if not ended:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from optuna.visualization import matplotlib as plots

    drawings: list[tuple[str, Plot, dict[str, Any]]] = []
    for number, objective in enumerate(study.objectives):
        suffix = f"-{objective.name.replace('/', '-')}" if len(study.objectives) > 1 else ""
        target = {"target_name": objective.name, "target": _value(number) if suffix else None}
        drawings.append((f"history{suffix}", plots.plot_optimization_history, target))
        if len({trial.values[number] for trial in ended}) > 1:
            options = target | {"evaluator": FanovaImportanceEvaluator(seed=0)}
            drawings.append((f"importance{suffix}", plots.plot_param_importances, options))
    if 1 < len(study.objectives) < 4:
        names = [objective.name for objective in study.objectives]
        drawings.append(("trade_offs", plots.plot_pareto_front, {"target_names": names}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return [
            _save(plot(study.optuna, **options), folder / f"{name}.png")
            for name, plot, options in drawings
        ]


def _value(number: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[number])


def _save(axes: Any, path: Path) -> Path:
    from matplotlib import pyplot

    files.write(path, figures.as_png(axes.figure, bbox_inches="tight"))
    pyplot.close(axes.figure)
    return path
