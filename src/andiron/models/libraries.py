"""Networks of timm and of transformers, built from their configurations; nothing is downloaded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from andiron import errors
from andiron.disk import files
from andiron.models import shapes, zoo
from andiron.recording import keep_arguments

# of a config.json: the dtype of the weights beside it, and code of its own
NOT_READ = ("dtype", "torch_dtype", "auto_map", "quantization_config")


@keep_arguments
def timm(
    name: str,
    input_shape: Sequence[int],
    num_outputs: int,
    *,
    settings: Mapping[str, Any] | None = None,
) -> nn.Module:
    """The network `name` of timm with `num_outputs` outputs, for images of this shape.

    Its weights are random: `start_from` loads others. `settings` are further arguments of the
    network, such as `drop_path_rate`. Pixels are normalised by the mean and deviation of timm's
    configuration of it, if that has as many channels.
    Raises: ValueError for an unknown network or setting, or if it cannot read such images.
    """
    import timm as library

    channels, *size = shapes.of_images(input_shape, name)
    if not library.is_model(name):
        hint = errors.nearest(name, library.list_models())
        raise ValueError(f"name={name}: timm has no network of that name{hint}")
    cfg = library.get_pretrained_cfg(name)
    given = {"num_classes": num_outputs, "in_chans": channels, **(settings or {})}
    if cfg.fixed_input_size:
        given.setdefault("img_size", size)
    network: Any = library.model_entrypoint(name)
    try:  # not create_model, which takes files and addresses of weights
        network = network(pretrained=False, pretrained_cfg=cfg, **given)
    except TypeError as error:
        raise ValueError(f"settings={settings}: {name}: {errors.first_line(error)}") from error
    zoo.check_images(network, name, input_shape)
    network.input_statistics = cfg.mean, cfg.std
    return network


@keep_arguments
def hf(
    name: str,
    *,
    auto: str = "AutoModelForSequenceClassification",
    config: Mapping[str, Any] | None = None,
    num_outputs: int | None = None,
) -> nn.Module:
    """A network of transformers: of a type such as `bert`, or of a folder, by its absolute path.

    Its weights are random: `start_from` loads others. `auto` is its class; `config` are settings,
    and replace values of the folder's config.json. It has as many outputs as the data. Called with
    one input it returns the logits, with named ones what transformers returns. Pixels are
    normalised as the folder's preprocessor_config.json says.
    Raises: ValueError for an unknown class or type; DataError for a damaged folder.
    """
    import transformers

    kind = getattr(transformers, auto, None) if auto.startswith("AutoModel") else None
    if kind is None:
        raise ValueError(f"auto={auto}: transformers has no AutoModel of that name")
    stored, pixels = dict[str, Any](model_type=name), dict[str, Any]()
    if Path(name).is_absolute():
        stored, pixels = (_read(Path(name, f"{part}config.json")) for part in ("", "preprocessor_"))
    stored = {key: stored[key] for key in stored if key not in NOT_READ} | dict(config or {})
    known, of_type = transformers.CONFIG_MAPPING, stored.pop("model_type", "")
    if of_type not in known:
        hint = errors.nearest(str(of_type), known)
        raise ValueError(f"name={name}: transformers has no type {of_type!r}{hint}")
    settings = known[of_type](**stored)
    settings.num_labels = stored.get("num_labels", num_outputs or settings.num_labels)
    network: Any = kind.from_config(settings, trust_remote_code=False)
    network.register_forward_hook(_logits, with_kwargs=True)
    network.generate = None  # takes other arguments than `andiron.models.GPT.generate`
    if {"image_mean", "image_std"} <= pixels.keys():
        numbers = (pixels[key] for key in ("image_mean", "image_std"))
        network.input_statistics = [tuple(map(float, each)) for each in numbers]
    return network


def _logits(network: nn.Module, inputs: Any, named: Mapping[str, Any], output: Any) -> Any:
    """The logits, for a task that calls a network with its inputs alone."""
    return output if named else getattr(output, "logits", output)


def _read(path: Path) -> dict[str, Any]:
    """The content of a JSON file; {} without one."""
    try:
        return dict(files.read_json(path)) if path.exists() else {}
    except (OSError, ValueError, TypeError) as error:
        raise errors.DataError(f"{path}: {errors.reason(error)}; restore it") from error
