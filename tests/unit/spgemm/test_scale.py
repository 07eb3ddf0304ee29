#!/usr/bin/env python3
"""The driver on several emulated devices and in several processes. Each product is compared with its definition.

usage: test_scale.py devices DRIVER FAKE_NCCL
       test_scale.py mpi DRIVER MPIRUN graphblas|none
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PART, DRIVER = sys.argv[1:3]
MATRICES = ["gen:stencil7:1x1x1", "gen:stencil7:2x1x1", "gen:cage:5", "gen:rmat:7:8", "gen:brick27:3:2"]


def run(*arguments, devices=2, start=(), **variables):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "EMULATED_DEVICES": str(devices), "SIMCUDA_DEVICES": str(devices),
           "SPGEMM_NCCL": "off", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
    return subprocess.run([*start, DRIVER, *map(str, arguments)], capture_output=True, text=True, timeout=100, env=env)


def product(matrix, mode, *arguments, **how):
    done = run("--matrix", matrix, "--mode", mode, "--runs", "2", "--check", *arguments, **how)
    assert done.returncode == 0 and "check=ok" in done.stdout, (matrix, mode, arguments, done)
    return done.stdout


def entries(text):
    return int(re.search(r"^nnz_c=(\d+)", text, re.MULTILINE).group(1))


def shares(text):
    return re.findall(r"^device=(\d+) rows=(\d+) products=(\d+) nnz_c=(\d+) peak_bytes=\d+ b=(\w+)$", text, re.MULTILINE)


def bad(status, says, *arguments, **how):
    done = run("--matrix", "gen:cage:4", *arguments, **how)
    assert done.returncode == status and not done.stdout, (arguments, done)
    assert re.search(says, done.stderr) and done.stderr.count("\n") == 1, (arguments, done.stderr, says)


def test_matrices_in_host_memory():
    for matrix in MATRICES:
        for precision in ("double", "float"):
            one = entries(product(matrix, "auto", devices=1))
            text = product(matrix, "host", "--precision", precision, devices=1)
            assert entries(text) == one and re.search(r"^slabs=1 sent_bytes=\d+ received_bytes=\d+ bus_ms=[0-9.]+ bus_share=[0-9.]+%$", text, re.M), text
    text = product("gen:rmat:7:8", "host", "--b", "gen:stencil7:8x4x4", "--limit", "96KiB", devices=1)
    assert int(re.search(r"^slabs=(\d+) ", text, re.M).group(1)) > 2, text
    told = json.loads(run("--matrix", "gen:cage:5", "--mode", "host", "--runs", "1", "--json", "-", devices=1).stdout)["product"]["runs"][0]
    assert told["slabs"] == 1 and told["received_bytes"] == told["nnz_c"] * 12 + 37 * 8 and told["sent_bytes"] > 0, told
    bad(1, "spgemm: out of device memory: ", "--mode", "host", "--limit", "1KiB", devices=1)


def test_devices():
    for matrix in MATRICES:
        one = entries(product(matrix, "auto", devices=1))
        for mode in ("auto", "auto:warm", "auto:same"):
            for devices, chosen, order in ((1, "all", "0"), (2, "0,1", "01"), (3, "2,0", "20"), (4, "all", "0123")):
                for precision in ("double", "float"):
                    text = product(matrix, mode, "--devices", chosen, "--precision", precision, devices=devices)
                    parts = shares(text)
                    assert entries(text) == one and sum(int(part[3]) for part in parts) == one, text
                    assert "".join(part[0] for part in parts) == order, text
                    assert [part[4] for part in parts] == ["own"] + ["copied"] * (len(order) - 1), text
    text = product("gen:rmat:7:8", "auto", "--b", "gen:stencil7:8x4x4", "--devices", "all", "--layout", "csc")
    assert len(shares(text)) == 2
    text = product("gen:rmat:7:8", "auto", "--devices", "all", SPGEMM_NCCL=sys.argv[3])
    assert [part[4] for part in shares(text)] == ["own", "broadcast"], text


def test_json():
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = run("--matrix", "gen:cage:5", "--mode", "auto:warm", "--runs", "3", "--devices", "0,1", "--json", file.name)
        if "needs jansson" in done.stderr:
            return
        found = json.load(open(file.name))["product"]
        assert [part["device"] for part in found["devices"]] == [0, 1] and found["processes"] == 0, found
        assert sum(part["nnz_c"] for part in found["devices"]) == found["runs"][0]["nnz_c"], found
        assert all(one["ms"] >= one["distribute_ms"] > 0 for one in found["runs"]), found


def test_wide():
    for precision in ("double", "float"):
        for matrix in [*MATRICES, "gen:dense-rows:300:5:0"]:
            product(matrix, "auto:wide", "--precision", precision, devices=1)
    product("gen:rmat:7:8", "auto:wide", "--b", "gen:stencil7:8x4x4", "--layout", "csc", devices=1)
    bad(2, "64-bit offsets are for one device", "--mode", "auto:wide", "--devices", "all")


def test_bench():
    """tools/bench/spgemm_scale.py on emulated devices."""
    bench = pathlib.Path(__file__).parents[3] / "tools" / "bench" / "spgemm_scale.py"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "scale.json"
        env = {**os.environ, "OMP_NUM_THREADS": "1", "EMULATED_DEVICES": "2", "SIMCUDA_DEVICES": "2", "SPGEMM_NCCL": sys.argv[3]}
        done = subprocess.run([sys.executable, bench, "--spgemm", DRIVER, "--matrices", "gen:cage:4", "gen:cage:5", "--runs", "2", "--out", out],
                              capture_output=True, text=True, timeout=100, env=env)
        if "needs jansson" in done.stdout:
            return
        assert done.returncode == 0 and "gen:cage:5" in done.stdout, done
        rows = json.loads(out.read_text())["rows"]
        assert [row["matrix"] for row in rows] == ["gen:cage:4", "gen:cage:5"], rows
        for row in rows:
            assert list(row["sets"]) == ["0", "0,1", "0,1 copied"], row
            kinds = [[part["b"] for part in found["devices"]] for found in row["sets"].values()]
            assert kinds == [["own"], ["own", "broadcast"], ["own", "copied"]], row
            assert len({found["nnz_c"] for found in row["sets"].values()}) == 1 and row["sets"]["0,1"]["checked"], row
        failed = subprocess.run([sys.executable, bench, "--spgemm", DRIVER, "--matrices", "gen:cage:4", "--devices", "0,7"],
                                capture_output=True, text=True, timeout=100, env=env)
        assert failed.returncode == 1 and "device 7: there are 0 to 1" in failed.stdout, failed


def test_host_bench():
    """tools/bench/spgemm_host.py on an emulated device."""
    bench = pathlib.Path(__file__).parents[3] / "tools" / "bench" / "spgemm_host.py"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "host.json"
        env = {**os.environ, "OMP_NUM_THREADS": "1", "EMULATED_DEVICES": "1"}
        command = [sys.executable, bench, "--spgemm", DRIVER, "--runs", "2", "--out", out, "--products"]
        done = subprocess.run([*command, "gen:rmat:8:8=0,192KiB"], capture_output=True, text=True, timeout=100, env=env)
        if "needs jansson" in done.stdout:
            return
        assert done.returncode == 0 and "% of the bus, 1 slabs" in done.stdout, done
        whole, slabs = json.loads(out.read_text())["rows"]
        assert whole["slabs"] == 1 and slabs["slabs"] > 1 and slabs["checked"] and whole["nnz_c"] == slabs["nnz_c"], (whole, slabs)
        assert slabs["peak_bytes"] <= (192 << 10) < whole["needs"] and slabs["received_bytes"] == whole["received_bytes"], (whole, slabs)
        failed = subprocess.run([*command, "gen:cage:6=1KiB"], capture_output=True, text=True, timeout=100, env=env)
        assert failed.returncode == 1 and "out of device memory" in failed.stdout, failed


def test_errors():
    bad(2, "--devices=0,x is not all, or", "--mode", "auto", "--devices", "0,x")
    bad(2, "--devices=0, is not all, or", "--mode", "auto", "--devices", "0,")
    bad(2, "--devices=-1 is not all, or", "--mode", "auto", "--devices", "-1")
    bad(2, "mode precise uses one device; mode auto", "--mode", "precise", "--devices", "0,1")
    bad(2, "--devices needs --mode auto", "--model", "--devices", "0,1")
    bad(2, "each process chooses a device by itself", "--mode", "auto", "--mpi", "--devices", "0,1")
    bad(2, "--mpi: mode rounds uses one device", "--mode", "rounds", "--mpi")
    bad(2, "--mpi and --model", "--mode", "auto", "--mpi", "--model")
    bad(1, "device 2: there are 0 to 1", "--mode", "auto", "--devices", "0,2")
    bad(1, "device 1 is named twice", "--mode", "auto", "--devices", "1,1")
    bad(1, "device 0: out of device memory: .* limit 4000", "--mode", "auto", "--devices", "all", "--limit", "4000")


def test_processes():
    mpirun, graphblas = sys.argv[3], sys.argv[4] != "none"
    for matrix in MATRICES:
        one = entries(product(matrix, "auto", devices=1))
        for count in (1, 2, 3):
            start = (mpirun, "-n", str(count), "--oversubscribe")
            for mode in ["auto", "auto:same"] + ["graphblas"] * graphblas:
                text = product(matrix, mode, "--mpi", start=start)
                parts = shares(text)
                assert entries(text) == one and f"processes={count}" in text and text.count("check=ok") == 1, text
                if mode == "graphblas":
                    continue
                assert sum(int(part[3]) for part in parts) == one, text
                assert [int(part[0]) for part in parts] == [rank % 2 for rank in range(count)], text
    # A failure of one process ends all.
    done = run("--matrix", "gen:cage:5", "--mode", "auto", "--mpi", "--limit", "4000", start=(mpirun, "-n", "2", "--oversubscribe"))
    assert done.returncode != 0 and "out of device memory" in done.stderr, done


for test in [test_matrices_in_host_memory, test_devices, test_json, test_wide, test_bench, test_host_bench, test_errors] if PART == "devices" else [test_processes]:
    test()
