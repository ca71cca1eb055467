#!/usr/bin/env bash
# scipy 1.17.1, torch 2.14.1 on a CPU: the product of two sparse matrices of scipy has the columns of a row in no order, which is valid
# there (has_sorted_indices is False), and its arrays go to torch.sparse_csr_tensor without an error. to_dense, matmul and addition
# are right; the elementwise product with a tensor whose columns are in order, such as a mask or edge weights, is not: most
# entries are lost, and those that stay are right. torch checks the order only with check_invariants=True, which raises here.
# Call sort_indices() of scipy first. Seen, a product of 29 entries times a mask that keeps all: 11 entries are left.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 scipy==1.17.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import scipy
import torch


def to_torch(matrix):
    arrays = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*arrays, matrix.shape)


left, right = (scipy.sparse.random_array((6, 6), density=0.5, format="csr", rng=seed) for seed in (1, 2))
product = left @ right
ordered = product.copy()
ordered.sort_indices()
assert not product.has_sorted_indices
dense = torch.from_numpy(product.toarray())
given, mask = to_torch(product), to_torch(ordered.astype(bool).astype(float))
kept = (given * mask).to_dense()
entries = {"product": int((dense != 0).sum()), "kept": int((kept != 0).sum())}
print(scipy.__version__, torch.__version__, entries)
assert torch.equal(given.to_dense(), dense) and torch.allclose(given @ dense, dense @ dense)
assert torch.allclose((given + mask).to_dense(), dense + (dense != 0))
assert torch.equal((to_torch(ordered) * mask).to_dense(), dense) and torch.equal(kept[kept != 0], dense[kept != 0])
try:
    torch.sparse_csr_tensor(*map(torch.tensor, (product.indptr, product.indices, product.data)), check_invariants=True)
    raise AssertionError("unsorted columns are valid in torch")
except RuntimeError as error:
    print(str(error)[:80])
assert entries == {"product": 29, "kept": 11}, "no entry is lost"
PY
