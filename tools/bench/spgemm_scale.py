#!/usr/bin/env python3
"""Sparse products A A on one device and on several: time and memory against the size of the matrix.

Families of growing matrices are multiplied by mode auto of build/spgemm/spgemm, warm, on the first device, on the first
two, and so on (--devices). Operands are on the first device before the clock starts; cutting A and copying A and B to
the others is inside. Small products are compared with the host's. Matrices are started, the small ones first, until
--budget seconds are over. Writes JSON to --out and prints a table.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import common

FAMILIES = {
    "nlpkkt": ["gen:nlpkkt:40", "gen:nlpkkt:80", "gen:nlpkkt:120"],
    "cage": ["gen:cage:11", "gen:cage:12", "gen:cage:13", "gen:cage:14", "gen:cage:15"],
    "grid": ["gen:stencil7:64x64x64", "gen:stencil7:128x128x128", "gen:stencil7:256x256x256"],
    "bricks": ["gen:brick27:24:3", "gen:brick27:48:3"],
    "rmat": ["gen:rmat:16:8", "gen:rmat:18:8"],
}
CHECKED = 30_000_000  # entries of C up to which products are compared with the host's


def arguments():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = common.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spgemm", type=pathlib.Path, default=root / "build" / "spgemm" / "spgemm", help="the driver")
    parser.add_argument("--devices", nargs="+", default=["0", "0,1"], metavar="N,N...", help="sets of devices (0 and 0,1)")
    parser.add_argument("--matrices", nargs="+", metavar="NAME", help="files or generated matrices instead of the families")
    parser.add_argument("--runs", type=common.count, default=7, help="timed products after two others (7)")
    parser.add_argument("--budget", type=float, default=240, metavar="S", help="no product is started after so many seconds (240)")
    parser.add_argument("--out", type=common.output, help="FILE.json")
    return parser.parse_args()


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def multiply(options, matrix, devices, nccl, check):
    """Figures of one product; {"error": ...} when it fails."""
    environ = common.environment()
    environ.pop("SPGEMM_NCCL", None)
    if not nccl:
        environ["SPGEMM_NCCL"] = "off"
    elif "SPGEMM_NCCL" in os.environ:
        environ["SPGEMM_NCCL"] = os.environ["SPGEMM_NCCL"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "product.json"
        command = [options.spgemm, "--matrix", matrix, "--mode", "auto:warm", "--runs", options.runs, "--warmup", 2, "--devices", devices,
                   "--json", path] + ["--check"] * check
        try:
            common.run(command, environ, timeout=200)
        except common.Failed as why:
            if "no CUDA device" in str(why):
                raise common.NoCard from None
            return {"error": str(why)}
        found = json.loads(path.read_text())
    runs, shape = found["product"]["runs"], found["a"]
    times = [one["ms"] for one in runs]
    return {"rows": shape["rows"], "nonzeros": shape["stored"], "nnz_c": runs[0]["nnz_c"], "ms": median(times), "ms_min": min(times), "ms_max": max(times),
            "distribute_ms": median([one["distribute_ms"] for one in runs]), "peak_bytes": max(one["peak_bytes"] for one in runs),
            "checked": check, "devices": found["product"]["devices"]}


def sets_of(options):
    """Each set of devices; sets of several also without NCCL."""
    for devices in options.devices:
        yield devices, devices, True
        if "," in devices:
            yield f"{devices} copied", devices, False


def measure(options):
    families = {"given": options.matrices} if options.matrices else FAMILIES
    begin, rows, left = time.monotonic(), [], []
    longest = max(len(names) for names in families.values())
    for step in range(longest):  # the small ones of all families first
        for family, names in families.items():
            if step >= len(names):
                continue
            if time.monotonic() - begin > options.budget:
                left.append(names[step])
                continue
            row = {"family": family, "matrix": names[step], "sets": {}}
            nnz = None
            for name, devices, nccl in sets_of(options):
                found = multiply(options, names[step], devices, nccl, nnz is not None and nnz <= CHECKED)
                nnz = found.get("nnz_c", nnz)
                row["sets"][name] = found
            rows.append(row)
            print(line(row), flush=True)
    return rows, left


def line(row):
    one = next(iter(row["sets"].values()))
    text = f"{row['matrix']:26} rows={one.get('rows')} nonzeros={one.get('nonzeros')} nnz_c={one.get('nnz_c')}"
    for name, found in row["sets"].items():
        if "error" in found:
            text += f"\n    {name}: {found['error']}"
            continue
        share = f", {found['distribute_ms']:.2f} of it to distribute" if len(found["devices"]) > 1 else ""
        faster = f", x {one['ms'] / found['ms']:.2f}" if "ms" in one and found is not one else ""
        text += (f"\n    devices {name}: {found['ms']:.3f} ms ({found['ms_min']:.3f} to {found['ms_max']:.3f}){share}{faster}; peak "
                 f"{found['peak_bytes'] / 2**20:.0f} MiB{', checked' if found['checked'] else ''}")
    return text


def main():
    options = arguments()
    rows, left = measure(options)
    gpu, driver = common.card()
    if left:
        print("no time for " + ", ".join(left))
    if options.out:
        options.out.write_text(json.dumps({"bench": "spgemm_scale", "commit": common.commit(), "gpu": gpu, "driver": driver, "runs": options.runs,
                                           "rows": rows, "left_out": left}, indent=1) + "\n")
    return 1 if any("error" in found for row in rows for found in row["sets"].values()) else 0


if __name__ == "__main__":
    common.end(main, "it measures several GPUs")
