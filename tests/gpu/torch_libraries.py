"""Calls of cuBLAS, cuFFT, cuSOLVER, cuSPARSE and cuDNN for some seconds; prints a digest of what each of them gives, which repeats bit by
bit. The results of cuSPARSE vary in their last bits, so they are compared with a dense product."""
import hashlib
import time

import torch

torch.manual_seed(1)
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True, warn_only=True)
square = torch.randn(1024, 1024, device="cuda")
image = torch.randn(8, 16, 96, 96, device="cuda")
filters = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
sparse = (square * (square > 1.5)).to_sparse_csr()
dense = sparse.to_dense()
rounds = []
for _ in range(60):
    product = square @ square.t()
    wave = torch.fft.irfft2(torch.fft.rfft2(product))
    solved = torch.linalg.solve(product + 2000 * torch.eye(1024, device="cuda"), square)
    applied = sparse @ solved
    convolved = filters(image)
    assert torch.allclose(applied, dense @ solved, atol=1e-3)
    rounds.append(torch.stack([each.double().sum() for each in (product, wave, solved, convolved)]))
    time.sleep(0.02)
sums = torch.stack(rounds).detach().cpu().numpy()
print("ok torch_libraries", *(hashlib.sha256(column.tobytes()).hexdigest()[:8] for column in sums.T))
