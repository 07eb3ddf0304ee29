"""Training steps of a multi-layer perceptron in JAX, 60 times; one line of the bench's kind, and a checksum of the weights.

XLA_PYTHON_CLIENT_ALLOCATOR=platform makes every array by cuMemCreate and cuMemMap. The checksum is the same for every allocator
while the kernels are: set XLA_FLAGS=--xla_gpu_autotune_level=0."""
import time

import jax
import jax.numpy as jnp

WIDTHS = [1024, 4096, 4096, 10]
keys = jax.random.split(jax.random.PRNGKey(0), len(WIDTHS) + 1)
weights = [jax.random.normal(key, shape) / shape[0] ** 0.5 for key, shape in zip(keys, zip(WIDTHS, WIDTHS[1:]))]
x = jax.random.normal(keys[-2], (256, WIDTHS[0]))
y = jax.random.randint(keys[-1], (256,), 0, WIDTHS[-1])


def loss(weights, x, y):
    for layer in weights[:-1]:
        x = jax.nn.relu(x @ layer)
    return -jnp.mean(jax.nn.log_softmax(x @ weights[-1])[jnp.arange(len(y)), y])


@jax.jit
def step(weights, x, y):
    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x, y))]


for _ in range(5):
    weights = step(weights, x, y)
jax.block_until_ready(weights)
times = []
for _ in range(60):
    begin = time.perf_counter_ns()
    weights = jax.block_until_ready(step(weights, x, y))
    times.append(time.perf_counter_ns() - begin)
times.sort()
print("jax-step", 60, times[0], times[len(times) // 2], times[-1])
print(f"checksum {sum(float(jnp.sum(jnp.abs(w))) for w in weights):.9e}")
