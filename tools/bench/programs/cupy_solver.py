"""Conjugate gradients and transforms with CuPy, its pool off: every array and every temporary is a cudaMalloc."""
import cupy

cupy.cuda.set_allocator(None)


def laplace(field):
    padded = cupy.pad(field, 1)
    return 4 * field - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]


def solve(right, rounds):
    x, r = cupy.zeros_like(right), right.copy()
    p, square = r.copy(), float((r * r).sum())
    for _ in range(rounds):
        q = laplace(p)
        alpha = square / float((p * q).sum())
        x += alpha * p
        r -= alpha * q
        before, square = square, float((r * r).sum())
        p = r + square / before * p
    return x


for n in (64, 256, 1000, 1536, 500, 128):
    right = cupy.sin(cupy.arange(n * n, dtype=cupy.float64)).reshape(n, n)
    solution = solve(right, 24)
    assert float((solution * (2 * right - laplace(solution))).sum()) > 0, n  # what conjugate gradients raise from zero
    spectrum = cupy.fft.rfft2(solution)
    back = cupy.fft.irfft2(spectrum, s=solution.shape)
    assert float(cupy.abs(back - solution).max()) < 1e-9 * max(1.0, float(cupy.abs(solution).max())), n
    largest = cupy.sort(cupy.abs(spectrum).ravel())[-16:]
    assert float(largest[-1]) > 0
print("ok cupy_solver")
