"""Calls checked against every annotation of `andiron`, shapes of arrays included.

An int is accepted where a float is annotated, as PEP 484 has it.
"""

import random
from pathlib import Path

from beartype import BeartypeConf, beartype
from beartype._check.code import codemain
from beartype.claw import beartype_package
from jaxtyping import install_import_hook

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "andiron"
# the items to check are drawn apart from Python's own generator, which is a part of a run's state
codemain.getrandbits = random.Random(0).getrandbits
CONF = BeartypeConf(is_pep484_tower=True, claw_is_pep526=False, violation_type=TypeError)
check = beartype(conf=CONF)


def install() -> None:
    """Checks the functions of andiron as they are imported.

    A shape takes a wrapper around each call: only packages that annotate shapes have one.
    """
    shaped = [f"andiron.{path.stem}" for path in PACKAGE.iterdir() if _annotates_shapes(path)]
    beartype_package("andiron", conf=CONF)
    install_import_hook(shaped, f"{__name__}.check")


def _annotates_shapes(path: Path) -> bool:
    modules = path.rglob("*.py") if path.is_dir() else [path]
    return any("from jaxtyping import" in module.read_text(encoding="utf-8") for module in modules)
