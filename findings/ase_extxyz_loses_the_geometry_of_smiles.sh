#!/usr/bin/env bash
# ase 3.29.0 writes texts of atoms.info into extended XYZ, the format that MACE, NequIP and others
# train on, and reads other values. A backslash is written as it is and read as an escape, so it
# vanishes: a SMILES of a cis double bond, F/C=C\F, comes back as F/C=CF, which RDKit 2026.9.1 takes
# without a word for a molecule of unknown geometry; the trans form has no backslash and stays
# whole. Labels that are joined by SMILES miss each such molecule, and of features made from SMILES
# the cis ones are wrong. F (hydrogen fluoride) is read as False, 007 as 7, 1_2 as 12, "1 2" as two
# numbers. An empty text swallows the next entry, which is pbc: a slab that is periodic in two
# directions is periodic in three, so that its atoms get neighbours across the vacuum. Numbers of
# single atoms have 8 decimals: 1e-9 is 0. ASE's own a.traj keeps texts and pbc, and leaves out
# arrays of one's own without a word. No report was seen. Double the backslashes before writing (a
# list of texts cannot be read again: JSONDecodeError). Cause: escape() in ase/io/extxyz.py escapes
# quotation marks alone.
# Seen: as below; periodic [True, True, False] comes back as [True, True, True].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q ase==3.29.0 rdkit==2026.9.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import ase
import ase.io
import numpy
import rdkit
from ase import Atoms
from rdkit import Chem

CIS, TRANS = "F/C=C\\F", "F/C=C/F"


def read_back(name, **info):
    slab = Atoms("Cu", cell=[3, 3, 20], pbc=[True, True, False], info=info)
    slab.set_array("shifts", numpy.array([1e-9]))
    slab.write(name)
    return ase.io.read(name)


values = {text: read_back("a.extxyz", text=text).info["text"] for text in (CIS, TRANS, "F", "007", "1_2", "1 2")}
print(ase.__version__, rdkit.__version__, values)
molecules = [Chem.CanonSmiles(smiles) for smiles in (CIS, values[CIS], values[TRANS])]
slab = read_back("a.extxyz", note="")
periodic, shift = slab.pbc.tolist(), float(slab.arrays["shifts"][0])
doubled = read_back("a.extxyz", text=CIS.replace("\\", "\\\\")).info["text"]
kept = read_back("a.traj", text=CIS, note="")
print("by RDKit:", molecules, "periodic:", periodic, "info:", slab.info, "shift:", shift, "doubled:", doubled)
assert values[CIS] == "F/C=CF" and values[TRANS] == TRANS, "the backslash is kept"
assert molecules == ["F/C=C\\F", "FC=CF", "F/C=C/F"], "RDKit still knows the geometry"
assert values["F"] is False and values["007"] == 7 and values["1_2"] == 12, "texts are kept"
assert values["1 2"].tolist() == [1, 2], "texts are kept"
assert periodic == [True, True, True] and shift == 0.0, "an empty text is one, or small numbers are kept"
assert doubled == CIS and kept.info == {"text": CIS, "note": ""}
assert kept.pbc.tolist() == [True, True, False] and "shifts" not in kept.arrays
PY
