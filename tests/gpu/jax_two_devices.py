"""Arrays that move between two devices, and a sharded step on both, with JAX's platform allocator: jax_two_devices.py

Prints the results as hexadecimal numbers, so that two runs can be compared bit for bit."""
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

devices = jax.devices()[:2]
assert len(devices) == 2, "needs two devices"
mesh = Mesh(numpy.array(devices), ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())


@jax.jit
def step(weights, batch):
    def loss(w):
        return jnp.mean((jnp.tanh(batch @ w) - batch) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


weights = jax.device_put(jnp.eye(512) * 0.5, whole)
seen, times = [], []
for i in range(30):
    begin = time.perf_counter()
    batch = jax.device_put(jax.random.normal(jax.random.key(i), (256, 512)), split)
    weights, value = step(weights, batch)
    there = jax.device_put(jax.device_put(weights, devices[0]) * 2, devices[1])  # a copy between devices
    seen.append(float(value) + float(jnp.sum(there)))
    times.append(time.perf_counter() - begin)
print("ok jax_two_devices", *(value.hex() for value in seen))
print(f"median step {sorted(times)[len(times) // 2] * 1e3:.2f} ms", file=sys.stderr)
