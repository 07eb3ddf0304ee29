#!/usr/bin/env python3
"""spgemm_matrix: what it writes is what it names, in both forms; its families have the rows that they promise.

usage: test_families.py SPGEMM-MATRIX
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

TOOL = sys.argv[1]


def run(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=100)


def good(*arguments):
    done = run(*arguments)
    assert done.returncode == 0 and not done.stderr, (arguments, done)
    return done.stdout


def bad(status, says, *arguments):
    done = run(*arguments)
    assert done.returncode == status and not done.stdout and says in done.stderr, (arguments, done)


def text_of(folder, name):
    """(rows, columns, {(row, column): value})"""
    path = pathlib.Path(folder, "m.mtx")
    good("write", name, path)
    head, sizes, *lines = path.read_text().splitlines()
    assert head == "%%MatrixMarket matrix coordinate real general", head
    rows, columns, stored = map(int, sizes.split())
    entries = {(int(i) - 1, int(k) - 1): float(value) for i, k, value in map(str.split, lines)}
    assert len(entries) == stored == len(lines) and list(entries) == sorted(entries)
    return rows, columns, entries


def binary_of(folder, name):
    path = pathlib.Path(folder, "m.csr")
    good("write", name, path)
    data = path.read_bytes()
    magic, rows, columns, stored = struct.unpack_from("<8sqqq", data)
    assert magic == b"SPGCSR1\n", magic
    integers = struct.unpack_from(f"<{rows + 1 + stored}i", data, 32)
    offsets, indices = integers[:rows + 1], integers[rows + 1:]
    at = 32 + (4 * len(integers) + 7) // 8 * 8
    values = struct.unpack_from(f"<{stored}d", data, at)
    assert len(data) == at + 8 * stored
    return rows, columns, {(i, indices[k]): values[k] for i in range(rows) for k in range(offsets[i], offsets[i + 1])}


def row_sizes(matrix):
    rows, _, entries = matrix
    sizes = [0] * rows
    for i, _ in entries:
        sizes[i] += 1
    return sizes


def test_forms_agree(folder):
    for name in ("gen:cage:5", "gen:nlpkkt:2", "uniform:20:30:4", "web:300:6", "power:200:4:60", "aggregation:5:2", "transpose:uniform:7:5:2"):
        assert text_of(folder, name) == binary_of(folder, name), name


def test_families(folder):
    uniform = text_of(folder, "uniform:5000:4000:4")
    assert uniform[:2] == (5000, 4000) and max(row_sizes(uniform)) == 4 and sum(row_sizes(uniform)) > 19900
    rows, columns, entries = text_of(folder, "transpose:uniform:50:40:4")
    other = text_of(folder, "uniform:50:40:4")
    assert (columns, rows) == other[:2] and {(k, i): value for (i, k), value in entries.items()} == other[2]
    flat, skewed = (row_sizes(text_of(folder, f"rmat:12:8:{chances}")) for chances in ("25:25:25", "57:19:19"))
    assert len(flat) == 4096 and max(skewed) > 4 * max(flat)


def test_web_has_power_laws(folder):
    matrix = text_of(folder, "web:20000:8")
    out, reached = row_sizes(matrix), [0] * matrix[1]
    for _, k in matrix[2]:
        reached[k] += 1
    for degrees in (sorted(out), sorted(reached)):
        assert degrees[-1] > 30 * degrees[len(degrees) // 2] and 4 < sum(degrees) / len(degrees) < 9, degrees[-5:]


def test_power_law_ends(folder):
    """The chance of vertex i falls as 1 / sqrt(i), so vertex 0 has 1 / sqrt(4000) of the ends."""
    matrix = text_of(folder, "power:4000:8:50")
    assert matrix[:2] == (4000, 4000)
    for degrees in (row_sizes(matrix), row_sizes((4000, 4000, {(k, i): value for (i, k), value in matrix[2].items()}))):
        ordered = sorted(degrees, reverse=True)
        assert degrees[0] == ordered[0] and 300 < ordered[0] < 600 and ordered[0] < 4 * ordered[1] and 2 <= ordered[2000] <= 8, ordered[:5]


def test_aggregates(folder):
    """Nine points along an edge in aggregates of three: a row has the aggregates of its point and of the neighbours."""
    rows, columns, entries = text_of(folder, "aggregation:9:3")
    assert (rows, columns) == (729, 27)
    sizes = row_sizes((rows, columns, entries))
    # In one direction 1, 1, 2 aggregates at the first, 2, 1, 2 at the middle, 2, 1, 1 at the last one.
    assert sum(sizes) == 13 ** 3 and sizes[0] == 1 and max(sizes) == 8
    assert {k for i, k in entries if i == 2} == {0, 1}


def test_products(folder):
    path = pathlib.Path(folder, "a.mtx")
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1\n1 3 1\n2 1 1\n3 3 2\n")
    words = dict(pair.split("=") for pair in good("product", path).split())
    # Rows 1 and 3 of B are referred to: 2 + 1 entries. Products: 2 + 1, 2, 1.
    assert (words["rows"], words["stored"], words["products"], words["touched_rows"], words["touched"]) == ("3", "4", "6", "2", "3"), words


def test_refusals(folder):
    bad(2, "usage:", "write", "gen:cage:3")
    bad(1, "the name of a file ends in .mtx or .csr", "write", "gen:cage:3", pathlib.Path(folder, "a.txt"))
    bad(1, "No such file or directory", "write", "gen:cage:3", "/nonexistent/a.mtx")
    bad(1, "uniform:5: not uniform:ROWS:COLUMNS:EACH with numbers from 1 to 2147483646", "write", "uniform:5", pathlib.Path(folder, "a.mtx"))
    bad(1, "'x' behind web:PAGES:EACH", "product", "web:5:5x")
    bad(1, "an exponent of 100 %; at most 99", "product", "power:5:5:100")
    bad(1, "do not fit 32-bit offsets", "product", "uniform:2000000000:5:5")
    bad(1, "chances of at most 100 % together", "product", "rmat:4:4:50:50:50")
    bad(1, "A's columns are not B's rows: 5 x 4 times 5 x 4", "product", "uniform:5:4:2", "uniform:5:4:2")
    bad(1, "no such matrix", "product", "gen:none")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
