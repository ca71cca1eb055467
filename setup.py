"""The packages: folders of modules in src/, and conf/ and a proof, which travel inside them."""

from pathlib import Path

from setuptools import setup

SOURCE = Path(__file__).parent / "src"
folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
packages = {".".join(folder.parts) for folder in folders} | {"andiron.conf"}
if "andiron_lab" in packages:
    packages |= {"andiron_lab.conf", "andiron_lab.exact_resume"}

setup(packages=sorted(packages))
