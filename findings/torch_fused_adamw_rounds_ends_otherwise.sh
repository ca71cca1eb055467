#!/usr/bin/env bash
# The fused AdamW of a CPU rounds the last elements of a tensor otherwise than the others.
# torch 2.14.1, x86 with FMA: a vector instruction rounds a product and a sum once; what does not
# fill a vector at the end of a tensor is rounded twice. A parameter that is cut into rows (shards,
# or one flat buffer) so gets other bits than the whole one. foreach and for-loop steps do not.
# Output (AVX-512): fused: 4 of 1003 elements differ, all near the end of a piece; foreach: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q torch==2.14.1
fi
"$python" - <<'PYTHON'
import torch

CUTS, SIZE, LANES = [0, 502, 1003], 1003, 16


def trained(cuts: list[int], **options: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(SIZE, generator=generator)
    places = [slice(*bounds) for bounds in zip(cuts, cuts[1:])]
    pieces = [torch.nn.Parameter(start[place].clone()) for place in places]
    optimizer = torch.optim.AdamW(pieces, lr=0.01, **options)
    for _ in range(200):
        gradient = torch.randn(SIZE, generator=generator)
        for piece, place in zip(pieces, places):
            piece.grad = gradient[place].clone()
        optimizer.step()
    return torch.cat([piece.detach() for piece in pieces])


differ = {
    name: (trained([0, SIZE], **{name: True}) != trained(CUTS, **{name: True})).nonzero().flatten()
    for name in ("fused", "foreach")
}
ends = {*range(502 - 502 % LANES, 502), *range(SIZE - SIZE % LANES - LANES, SIZE)}
are_ends = {*differ["fused"].tolist()} <= ends
where = "all near the end of a piece" if are_ends else "also elsewhere"
print(f"fused: {len(differ['fused'])} of {SIZE} elements differ, {where}; "
      f"foreach: {len(differ['foreach'])}")
raise SystemExit(not (len(differ["fused"]) and are_ends and not len(differ["foreach"])))
PYTHON
