"""Tests with limits on GPU memory, for run_python.py: what pytest says of each under `gpumem run`."""

import ctypes

import pytest

runtime = ctypes.CDLL("libcudart.so.13")
kept = []


def malloc(size):
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


@pytest.mark.limit_gpu_memory("2MiB")
def test_first():
    runtime.cudaFree(malloc(1 << 20))


def test_unmarked():
    kept.append(malloc(32 << 20))


@pytest.mark.limit_gpu_memory("2MiB")
def test_peak_holds():
    runtime.cudaFree(malloc(1 << 20))


def attention():
    return malloc(3 << 20)


@pytest.mark.limit_gpu_memory("2MiB")
def test_peak_exceeded():
    runtime.cudaFree(attention())


@pytest.mark.limit_gpu_leaks("0")
def test_leak():
    kept.append(malloc(4096))


@pytest.mark.limit_gpu_leaks("1K")
def test_no_leak():
    runtime.cudaFree(malloc(4096))


@pytest.mark.limit_gpu_leaks(0)
def test_own_failure():
    assert False
