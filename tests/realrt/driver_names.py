#!/usr/bin/env python3
"""Write the driver's public names as C rows, from the toolkit's own headers.

usage: driver_names.py INCLUDE_DIR CALLS_H OUTPUT

SYMBOL(name)                                one exported function
VARIANT("name", version, per_thread, symbol) what cuGetProcAddress gives for a name from that version on

The typedef headers list the versions of a name (PFN_cuMemAlloc_v3020), the API headers its symbols
(cuMemAlloc, cuMemAlloc_v2). Both ascend, so the n-th version is the n-th symbol; a header where the two
counts differ is an error, never a guess. Functions of other toolkits come from gpumem's table of calls
(CALLS_H), which tests/unit/driver/check_calls.py compares with their headers.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit" / "driver"))
from check_calls import read_table  # noqa: E402

API_HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaProfiler.h", "cudaVDPAU.h")
TYPEDEF_HEADERS = (
    "cudaTypedefs.h",
    "cudaGLTypedefs.h",
    "cudaEGLTypedefs.h",
    "cudaProfilerTypedefs.h",
    "cudaVDPAUTypedefs.h",
)
NEWEST_SUFFIX = 9


def read_headers(folder, names):
    return "\n".join((folder / name).read_text() for name in names if (folder / name).exists())


def exported_symbols(text):
    symbols = set(re.findall(r"CUDAAPI\s+(cu[A-Z]\w*)\s*\(", text))
    symbols |= set(re.findall(r"#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", text, re.M))
    for kind, symbol in re.findall(r"__CUDA_API_PT(DS|SZ)\((cu\w+)\)", text):
        symbols |= {symbol, f"{symbol}_pt{kind.lower()}"}
    return symbols


def variants(text, symbols):
    versions = {}
    for name, version, thread in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(?:_(ptds|ptsz))?\)", text):
        versions.setdefault((name, thread), set()).add(int(version))
    for (name, thread), found in sorted(versions.items()):
        tail = f"_{thread}" if thread else ""
        bodies = [name] + [f"{name}_v{n}" for n in range(2, NEWEST_SUFFIX + 1)]
        candidates = [body + tail for body in bodies if body + tail in symbols]
        if len(candidates) != len(found):
            sys.exit(f"driver_names: {name}{tail}: versions {sorted(found)} against symbols {candidates}")
        for version, symbol in zip(sorted(found), candidates):
            yield name, version, 1 if thread else 0, symbol


def main():
    folder, table, output = map(pathlib.Path, sys.argv[1:])
    rows = read_table(table.read_text())
    symbols = exported_symbols(read_headers(folder, API_HEADERS))
    offered = {(row.name, int(row.version), int(row.twin)): row.symbol for row in rows if row.version != "0"}
    offered |= {tuple(key): symbol for *key, symbol in variants(read_headers(folder, TYPEDEF_HEADERS), symbols)}
    lines = [f"SYMBOL({symbol})" for symbol in sorted(symbols | {row.symbol for row in rows})]
    for (name, version, thread), symbol in sorted(offered.items(), key=lambda row: (row[0][0], row[0][2], row[0][1])):
        lines.append(f'VARIANT("{name}", {version}, {thread}, {symbol})')
    output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
