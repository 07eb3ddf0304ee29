#!/usr/bin/env python3
"""The driver from outside: what it prints, its JSON, its errors.

usage: test_driver.py SPGEMM reader|none graphblas|none jansson|none
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SPGEMM, READER, GRAPHBLAS, JANSSON = sys.argv[1], *(word != "none" for word in sys.argv[2:5])


NO_DEVICE = not pathlib.Path("/dev/nvidiactl").exists()


def run(*arguments):
    return subprocess.run([SPGEMM, *map(str, arguments)], capture_output=True, text=True, timeout=100)


def good(*arguments):
    done = run(*arguments)
    assert done.returncode == 0 and not done.stderr, (arguments, done)
    return done.stdout


def bad(status, says, *arguments):
    done = run(*arguments)
    assert done.returncode == status and not done.stdout, (arguments, done)
    assert re.search(says, done.stderr), (arguments, done.stderr, says)
    assert done.stderr.startswith("spgemm: ") and done.stderr.count("\n") == 1, done.stderr


def test_usage():
    bad(2, "which matrix", "--model")
    bad(2, "what to do", "--matrix", "gen:cage:4")
    bad(2, "'--matrix' needs a value", "--matrix")
    bad(2, "unknown option '--fast'", "--fast")
    with tempfile.TemporaryDirectory() as folder:
        matrix = os.path.join(folder, "a.mtx")
        text = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n"
        pathlib.Path(matrix).write_text(text)
        for operands in (("--matrix", matrix), ("--matrix", "gen:cage:4", "--b", matrix)):
            bad(2, "--json '.*/a.mtx' is a matrix of the product; give another file", *operands, "--model", "--json", folder + "/./a.mtx")
        assert pathlib.Path(matrix).read_text() == text
    bad(2, "'a.mtx' is no option", "--matrix", "gen:cage:4", "--model", "a.mtx")
    bad(2, "unknown mode 'fast'; there are: auto, host, upper-bound, precise, rounds", "--matrix", "gen:cage:4", "--mode", "fast")
    bad(2, "--size-per-row=0 is not a count between 1 and .*, or auto", "--matrix", "gen:cage:4", "--size-per-row", "0")
    bad(2, "mode auto takes no 'hot'; after the colon it takes: cold warm same|mode auto needs", "--matrix", "gen:cage:4", "--mode", "auto:hot")
    bad(2, "--vector=heap is not one of vmm or copy", "--matrix", "gen:cage:4", "--vector", "heap")
    bad(2, "--precision=half is not one of double or float", "--matrix", "gen:cage:4", "--precision", "half")
    bad(2, "--runs=0 is not a count", "--matrix", "gen:cage:4", "--runs", "0")
    bad(2, "--limit=lots is not a number of bytes", "--matrix", "gen:cage:4", "--limit", "lots")
    bad(2, "--check needs a --mode", "--matrix", "gen:cage:4", "--model", "--check")
    bad(2, "--kernel=fast is not one of hash or thesis", "--matrix", "gen:cage:4", "--kernel", "fast")
    bad(2, "--persistent needs --mode rounds and --kernel thesis", "--matrix", "gen:cage:4", "--model", "--persistent")
    bad(1, "gen:cage:99: L '99' is not a number", "--matrix", "gen:cage:99", "--model")
    bad(1, "A's columns are not B's rows", "--matrix", "gen:cage:4", "--b", "gen:cage:5", "--model")


def test_lists():
    listed = good("--matrix", "gen:list")
    names = [re.match(r"gen:([\w-]+)", line).group(1) for line in listed.splitlines()]
    assert len(names) == len(set(names)) and {"atmosmodl", "cage14", "nlpkkt80", "rmat", "twin-pwtk"} <= set(names)
    assert all("SEED=" in line for line in listed.splitlines())
    text = good("--help")
    for option in ("matrix", "b", "mode", "size-per-row", "vector", "runs", "warmup", "check", "json", "limit", "model",
                   "kernel", "persistent", "precision", "layout", "any-size"):  # fmt: skip
        assert f"\n  --{option} " in text, option
    for mode in ("auto", "host", "upper-bound", "precise", "rounds", "cusparse"):
        assert f"\n  {mode} " in text, mode


def test_modes_that_are_not_built():
    for mode in re.findall(r"^  (\S+) .*\(not in this build\)$", good("--help"), re.M):
        bad(2, f"mode {mode} needs (the CUDA part( with cuSPARSE)?|GraphBLAS), which this build lacks", "--matrix", "gen:cage:4", "--mode", mode)


def test_modes_without_a_device():
    for mode in ("auto", "host", "upper-bound", "precise", "rounds", "cusparse"):
        if f"  {mode} " in good("--help").replace("(not in this build)", "") and NO_DEVICE:
            done = run("--matrix", "gen:cage:4", "--mode", mode)
            assert done.returncode in (1, 2) and re.search("no CUDA device|lacks", done.stderr), done


def test_model():
    lines = good("--matrix", "gen:nlpkkt:8", "--model").splitlines()
    n, cube = 8, 8**3
    nonzeros = 2 * (27 * cube - 12 * (3 * n - 2) - 8) + cube + 6 * n * n
    rows = 2 * cube + 6 * n * n
    assert lines[0] == f"matrix=gen:nlpkkt:8 rows={rows} columns={rows} nonzeros={nonzeros} stored={nonzeros + cube}"
    sizes = [re.fullmatch(r"size_per_row=(\d+) efficiency=(\d+\.\d\d)% rounds=(\d+)", line) for line in lines[5:]]
    assert [int(size.group(1)) for size in sizes] == [8, 16, 32, 48, 64, 96, 128, 256]
    one = good("--matrix", "gen:nlpkkt:8", "--model", "--size-per-row", 48).splitlines()
    assert one[5:] == [lines[8]]
    chosen = good("--matrix", "gen:stencil7:38x40x40", "--model", "--size-per-row", "auto").splitlines()
    assert chosen[5].startswith("size_per_row=25 ") and chosen[5].endswith(" rounds=1"), chosen
    # Bytes of a place follow the precision.
    double, single = (good("--matrix", "gen:cage:5", "--model", "--precision", p) for p in ("double", "float"))
    assert f"bytes={653 * 12} " in double and f"bytes={653 * 8} " in single


def test_layout_is_the_transposed_product():
    # Row sizes of a skewed, unsymmetric graph by rows and by columns differ; their sum and the bound do not.
    by_row, by_column = (good("--matrix", "gen:rmat:8:4", "--model", "--layout", layout) for layout in ("csr", "csc"))
    assert by_row != by_column
    for word in ("nnz_c", "upper_bound"):
        assert re.search(rf"^{word}=(\d+)", by_row, re.M).group(1) == re.search(rf"^{word}=(\d+)", by_column, re.M).group(1)


def test_json():
    if not JANSSON:
        bad(2, "--json needs jansson", "--matrix", "gen:cage:5", "--model", "--json", "-")
        return
    text = good("--matrix", "gen:cage:5", "--model")
    told = json.loads(good("--matrix", "gen:cage:5", "--model", "--json", "-"))
    assert told["a"] == {"name": "gen:cage:5", "rows": 37, "columns": 37, "nonzeros": 233, "stored": 233}
    assert told["b"] is None and told["product"] is None
    for size in told["model"]["sizes"]:
        line = f"size_per_row={size['size_per_row']} efficiency={100 * size['efficiency']:.2f}% rounds={size['rounds']}"
        assert line in text.splitlines(), line
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.json")
        assert good("--matrix", "gen:cage:5", "--model", "--json", path) == text
        assert json.loads(path.read_text()) == told
        done = run("--matrix", "gen:cage:5", "--model", "--json", pathlib.Path(folder, "none", "out.json"))
        assert done.returncode == 1 and "No such file" in done.stderr, done


def test_files():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.mtx")
        if not READER:
            path.write_text("")
            bad(1, "need a C\+\+17 compiler", "--matrix", path, "--model")
            return
        path.write_text("%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1\n2 3 1\n")
        bad(1, r"a.mtx: 2 x 3 is not square, as A A needs", "--matrix", path, "--model")
        other = pathlib.Path(folder, "b.mtx")
        other.write_text("%%MatrixMarket matrix coordinate pattern general\n3 1 3\n1 1\n2 1\n3 1\n")
        assert "\nnnz_c=2 " in good("--matrix", path, "--b", other, "--model")
        path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 3 1\n")
        bad(1, r"a.mtx:4: Column index out of bounds: '2 3 1'", "--matrix", path, "--model")
        path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 1 1\n")
        done = run("--matrix", path, "--model")
        assert done.returncode == 0 and "1 entries added to others" in done.stderr and "stored=1" in done.stdout, done
        path.write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 3,5\n")
        bad(1, r"a.mtx:3: Invalid floating-point value: '1 1 3,5'", "--matrix", path, "--model")
        path.write_text("%%MatrixMarket matrix coordinate real general\n3000000 3000000 1\n1 1 1\n")
        bad(1, r"a.mtx:2: 3000000 rows for 1 entries: more than 1048640 are read with --any-size only", "--matrix", path, "--model")
        assert "rows=3000000 " in good("--matrix", path, "--model", "--any-size")
        os.remove(path)
        os.mkfifo(path)
        bad(1, "a.mtx: not a regular file", "--matrix", path, "--model")


def test_check_without_memory():
    """The product is made, and host memory for its check is not."""
    if not (READER and GRAPHBLAS):
        return
    with tempfile.TemporaryDirectory() as folder:
        a, b = (pathlib.Path(folder, name) for name in ("a.mtx", "b.mtx"))
        header = "%%MatrixMarket matrix coordinate real general\n"
        a.write_text(header + "2 2 2\n1 1 1\n2 2 1\n")
        b.write_text(header + "2 900000000 2\n1 7 1\n2 900000000 1\n")
        arguments = ["--matrix", a, "--b", b, "--mode", "graphblas", "--runs", "1", "--any-size"]
        limited = f"ulimit -v 8000000; OMP_NUM_THREADS=1 exec '{SPGEMM}' {' '.join(map(str, arguments))}"
        done = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and "nnz_c=2" in done.stdout, done
        done = subprocess.run(["sh", "-c", limited + " --check"], capture_output=True, text=True, timeout=100)
        assert done.returncode == 1 and "spgemm: --check: out of host memory: 18000000020 bytes" in done.stderr, done


def test_product():
    if not GRAPHBLAS:
        return
    for arguments in ((), ("--precision", "float"), ("--layout", "csc"), ("--b", "gen:rmat:9:4:2")):
        lines = good("--matrix", "gen:rmat:9:4", "--mode", "graphblas", "--check", "--runs", 3, *arguments).splitlines()
        assert re.fullmatch(r"check=ok worst=\d+\.\d\d% of the bound on rounding", lines[-1]), lines
        assert any(re.match(r"runs=3 warmup=1 ms_min=[\d.]+ ms_median=[\d.]+ ms_max=[\d.]+$", line) for line in lines), lines
    # A run that takes moments is timed as often as the thesis does.
    assert "\nruns=25 warmup=25 " in good("--matrix", "gen:cage:5", "--mode", "graphblas")
    if JANSSON:
        told = json.loads(good("--matrix", "gen:cage:5", "--mode", "graphblas", "--runs", 2, "--check", "--json", "-"))
        assert [r["nnz_c"] for r in told["product"]["runs"]] == [653, 653]
        assert 0 <= told["product"]["check"]["worst_of_bound"] <= 1


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
        print(f"ok {name}")
