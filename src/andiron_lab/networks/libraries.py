"""Networks of timm and transformers, from their configurations.

Nothing is downloaded. Inputs are prepared as timm and transformers say: the `preprocessing` of each
has `size` and `resizing` as options of `image_folder`, `mean` and `std` of pixels, and the files of
a `tokenizer`.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from andiron import errors
from andiron.disk import files, tokenizer_files
from andiron.models import shapes, zoo
from andiron.plain.plain_values import Named, Plain
from andiron.recording import keep_arguments

# of a config.json: the dtype of the weights beside it, and code of its own
NOT_READ = ("dtype", "torch_dtype", "auto_map", "quantization_config")
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
LARGE = 384  # ConvNeXt crops smaller pictures only
log = logging.getLogger("andiron")


@keep_arguments
def timm(
    name: str,
    input_shape: Sequence[int],
    num_outputs: int,
    *,
    settings: Mapping[str, object] | None = None,
) -> nn.Module:
    """The network `name` of timm with `num_outputs` outputs, for images of this shape.

    Its weights are random: `start_from` loads others. `settings` are further arguments of the
    network, such as `drop_path_rate`. Pictures are prepared as timm's configuration of it says.
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
        if "pretrained" in given:
            raise TypeError("nothing is downloaded; start_from=FILE has pretrained weights")
        network = network(pretrained=False, pretrained_cfg=cfg, **given)
    except TypeError as error:
        raise ValueError(f"settings={settings}: {name}: {errors.first_line(error)}") from error
    zoo.check_images(network, name, input_shape)
    return network


def _of_timm(name: str, settings: Named | None = None, **_: object) -> Plain:
    import timm as library
    from timm.data import resolve_data_config

    if (described := library.get_pretrained_cfg(name)) is None:
        return {}  # the network is refused by its name
    pixels = resolve_data_config(pretrained_cfg=described.to_dict())
    numbers = {key: tuple(pixels[key]) for key in ("mean", "std")}
    _, height, width = pixels["input_size"]
    if height != width or pixels["crop_mode"] == "border":
        return _not_taken(name, f"{height}x{width}, crop mode {pixels['crop_mode']}") | numbers
    size, is_squashed = (settings or {}).get("img_size", height), pixels["crop_mode"] == "squash"
    return _resized(size, pixels["crop_pct"], pixels["interpolation"], is_squashed) | numbers


vars(timm)["preprocessing"] = _of_timm


def _resized(size: int, crop: float, interpolation: str, squash: bool) -> Plain:
    resizing = {"crop": crop, "interpolation": interpolation, "squash": squash}
    return {"size": size, "resizing": resizing}


def _not_taken(name: str, why: str) -> Plain:
    line = "%s: its size and resizing (%s) are not known here; give data.size and data.resizing"
    log.warning(line, name, why)
    return {}


@keep_arguments
def hf(
    name: str,
    *,
    auto: str = "AutoModelForSequenceClassification",
    config: Mapping[str, object] | None = None,
    num_outputs: int | None = None,
) -> nn.Module:
    """A network of transformers: of a type such as `bert`, or of a folder, by its absolute path.

    Its weights are random: `start_from` loads others. `auto` is its class; `config` are settings,
    and replace values of the folder's config.json. It has as many outputs as the data. Called with
    one input it returns the logits, with named ones what transformers returns. Pictures are
    prepared as the folder's processor_config.json says, texts by its tokenizer.
    Raises: ValueError for an unknown class or type; DataError for a damaged folder.
    """
    import transformers

    kind = getattr(transformers, auto, None) if auto.startswith("AutoModel") else None
    if kind is None:
        raise ValueError(f"auto={auto}: transformers has no AutoModel of that name")
    is_folder = Path(name).is_absolute()
    stored = _read(Path(name, "config.json")) if is_folder else {"model_type": name}
    stored = {key: stored[key] for key in stored if key not in NOT_READ} | dict(config or {})
    known, of_type = transformers.CONFIG_MAPPING, stored.pop("model_type", "")
    if of_type not in known:
        hint = errors.nearest(str(of_type), known)
        if Path(name, "config.json").is_file():
            hint = f"; the folder of that name is given as {Path(name).resolve()}"
        raise ValueError(f"name={name}: transformers has no type {of_type!r}{hint}")
    settings = known[of_type](**stored)
    settings.num_labels = stored.get("num_labels", num_outputs or settings.num_labels)
    network: Any = kind.from_config(settings, trust_remote_code=False)
    network.register_forward_hook(_logits, with_kwargs=True)
    network.generate = None  # takes other arguments than `andiron.models.GPT.generate`
    for part in network.modules():  # with a cache, documents packed into one row see each other
        own: Any = getattr(part, "config", None)
        if hasattr(own, "use_cache"):
            own.use_cache = (config or {}).get("use_cache", False)
    return network


def _of_hf(name: str, config: Mapping[str, object] | None = None, **_: object) -> Plain:
    own: Plain = {}
    if not Path(name).is_absolute():
        return own
    if names := tokenizer_files.checksums_in(name):
        own["tokenizer"] = {"folder": name, "files": names}
    path = Path(name, "processor_config.json")  # transformers 5 reads it first
    if not (pixels := _read(path).get("image_processor")):
        pixels = _read(path := Path(name, "preprocessor_config.json"))
    try:
        if {"image_mean", "image_std"} <= pixels.keys():
            own |= {key: (*map(float, pixels[f"image_{key}"]),) for key in ("mean", "std")}
        return own | (_as_its_processor(name, pixels, config or {}) if "size" in pixels else {})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise errors.DataError(f"{path}: {errors.reason(error)}; restore it") from error


vars(hf)["preprocessing"] = _of_hf


def _as_its_processor(
    name: str, pixels: Named, config: Named
) -> Plain:
    """Size and resizing, as the image processors of transformers read their file."""
    given, crop = pixels["size"], _side(pixels.get("crop_size"))
    before, part = _side(given), pixels.get("crop_pct") or 1
    is_cropped = bool(crop and pixels.get("do_center_crop", True))
    is_squashed = "shortest_edge" not in given if isinstance(given, dict) else not is_cropped
    if part < 1 and not is_cropped and before >= LARGE:
        is_squashed, part = True, 1
    size = crop if is_cropped else before
    if not size or not before or size * part > before or not pixels.get("do_resize", True):
        return _not_taken(name, f"size {given}, crop_size {pixels.get('crop_size')}")
    size, part = config.get("image_size", size), part * size / before
    return _resized(size, part, FILTERS[pixels.get("resample", 2)], is_squashed)


def _side(size: object) -> Any:
    """The side of a square, or the shorter one; None if it has sides that differ."""
    sides = {*size.values()} if isinstance(size, dict) else {size}
    return sides.pop() if len(sides) == 1 else None


def _logits(network: nn.Module, inputs: object, named: Mapping[str, object], output: object) -> Any:
    """The logits, for a task that calls a network with its inputs alone."""
    return output if named else getattr(output, "logits", output)


def _read(path: Path) -> Plain:
    """The content of a JSON file; {} without one."""
    try:
        return dict(files.read_json(path)) if path.exists() else {}
    except (OSError, ValueError, TypeError) as error:
        raise errors.DataError(f"{path}: {errors.reason(error)}; restore it") from error
