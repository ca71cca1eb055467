#!/usr/bin/env bash
# ase 3.29.0, RDKit 2026.9.1 and biopython 1.88 read three molecules from one PDB file where an atom
# has two places (alternate locations, which many crystal structures have). ASE ignores their
# letters, so both places are atoms, nearer to each other than a bond; RDKit takes those with the
# letter A or 1, whatever their occupancy, and drops an atom whose places are B and C; biopython
# takes the place of the higher occupancy. None of them warns. Coordinates by one library beside
# charges or labels by another are off by one from there on, and a network learns from molecules
# that do not exist. Without columns 77 and 78 (the element; CHARMM and older programs leave them
# out) ASE gives the name of the atom to a function made for Quantum ESPRESSO: the carbon CA is
# calcium, CD cadmium, NE neon, ND neodymium, HG mercury and the oxygen OG of serine is oganesson,
# number 118; RDKit and biopython see by its first column that CA of a protein is carbon and CA of
# an ion is calcium. Keep one place and write the elements (pdb-tools, or biopython's Select) before
# training. RDKit's rule is known (its issue 3144, issue 181 of Meeko); of ASE's two no report was
# seen.
# Seen, a serine with OG at 2.5 (A, 0.3) and 3.5 (B, 0.7) and a calcium ion: OG in ASE at both, in
# RDKit at 2.5, in biopython at 3.5; with the letters B and C none in RDKit.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q ase==3.29.0 rdkit==2026.9.1 biopython==1.88 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import importlib.metadata
import pathlib
import warnings

import ase.io
from Bio.PDB import PDBParser
from rdkit import Chem

warnings.simplefilter("error")


def line(number, name, letter, residue, x, occupancy, element):
    record = "ATOM  " if residue == "SER" else "HETATM"
    place = f"{record}{number:5d} {name}{letter}{residue} A{number // 5 + 1:4d}    {x:8.3f}{0:8.3f}{0:8.3f}"
    return f"{place}{occupancy:6.2f}{10:6.2f}{element:>12}\n"


def file_of(first, second):
    atoms = [(" N  ", " ", "SER", 0, 1, "N"), (" CA ", " ", "SER", 1.5, 1, "C")]
    atoms += [(" OG ", first, "SER", 2.5, 0.3, "O"), (" OG ", second, "SER", 3.5, 0.7, "O")]
    atoms += [("CA  ", " ", " CA", 9, 1, "CA")]
    return "".join(line(number, *atom) for number, atom in enumerate(atoms, 1)) + f"{'END':80}\n"


def read(text):
    pathlib.Path("a.pdb").write_text(text)
    atoms = ase.io.read("a.pdb")
    molecule = Chem.MolFromPDBFile("a.pdb", sanitize=False)
    places = molecule.GetConformer().GetPositions()[:, 0]
    structure = list(PDBParser().get_structure("a", "a.pdb").get_atoms())
    return {
        "ase": [(symbol, float(x)) for symbol, x in zip(atoms.symbols, atoms.positions[:, 0], strict=True)],
        "rdkit": [(atom.GetSymbol(), float(x)) for atom, x in zip(molecule.GetAtoms(), places, strict=True)],
        "biopython": [(atom.element.capitalize(), float(atom.coord[0])) for atom in structure],
    }


def oxygens(molecules):
    return {name: [x for symbol, x in atoms if symbol in ("O", "Og")] for name, atoms in molecules.items()}


ab, bc = read(file_of("A", "B")), read(file_of("B", "C"))
warnings.simplefilter("ignore")  # biopython says that it guesses elements
bare = read("".join(line[:66] + "\n" for line in file_of("A", "B").splitlines()))
elements = {name: [symbol for symbol, _ in atoms] for name, atoms in bare.items()}
print({name: importlib.metadata.version(name) for name in ab}, "oxygens of A, B:", oxygens(ab), "of B, C:", oxygens(bc))
print("without elements:", elements)
assert oxygens(ab) == {"ase": [2.5, 3.5], "rdkit": [2.5], "biopython": [3.5]}, "the three agree"
assert oxygens(bc) == {"ase": [2.5, 3.5], "rdkit": [], "biopython": [3.5]}, "RDKit keeps B or C"
assert all([symbol for symbol, _ in atoms][1] == "C" for atoms in ab.values())
assert elements["ase"] == ["N", "Ca", "Og", "Og", "Ca"], "ASE tells carbon from calcium"
assert elements["rdkit"] == elements["biopython"] == ["N", "C", "O", "Ca"]
PY
