"""A training script whose memory all comes through wrappers of its own. Two functions forget blocks."""

import ctypes

runtime = ctypes.CDLL("libcudart.so.13")


def malloc(size):
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


class Tensor:
    def __init__(self, count):
        self.address = malloc(4 * count)

    def free(self):
        assert runtime.cudaFree(self.address) == 0


kept = []


def forward(step):
    activation, scratch = Tensor(1 << 18), Tensor(1 << 16)
    scratch.free()
    return activation


def backward(step):
    gradient = Tensor(1 << 18)
    gradient.free()


def log_loss(step):
    kept.append(Tensor(1 << 12))  # forgotten


def train():
    for step in range(5):
        activation = forward(step)
        backward(step)
        log_loss(step)
        activation.free()


train()
print("ok wrapped")
