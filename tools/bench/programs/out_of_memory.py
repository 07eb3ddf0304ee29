"""Keeps some arrays and then asks for more memory than the card has; prints what the framework says of it.

usage: out_of_memory.py torch|cupy|jax"""
import sys

MIB = 1 << 20
kept = []


def keep_torch():
    import torch

    kept.extend(torch.ones(64 * MIB, device="cuda") for _ in range(3))


def ask_torch():
    import torch

    return torch.empty(torch.cuda.mem_get_info()[1] + (1 << 30), dtype=torch.uint8, device="cuda")


def keep_cupy():
    import cupy

    kept.extend(cupy.ones(32 * MIB) for _ in range(3))


def ask_cupy():
    import cupy

    return cupy.empty(cupy.cuda.runtime.memGetInfo()[1] + (1 << 30), dtype=cupy.uint8)


def keep_jax():
    import jax.numpy as jnp

    kept.extend(jnp.ones(64 * MIB) for _ in range(3))


def ask_jax():
    import jax
    import jax.numpy as jnp

    most = jax.devices()[0].memory_stats() or {}
    return jnp.zeros(most.get("bytes_limit", 150 << 30) + (1 << 30), dtype=jnp.uint8).block_until_ready()


framework = sys.argv[1]
globals()[f"keep_{framework}"]()
try:
    globals()[f"ask_{framework}"]()
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(0)
sys.exit("out_of_memory.py: the card had room")
