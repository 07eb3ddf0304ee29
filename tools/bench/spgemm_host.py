#!/usr/bin/env python3
"""Sparse products A A of matrices in host memory: time, bytes in both directions, and the share of the bus.

Mode host of build/spgemm/spgemm multiplies each matrix with several limits of device memory: none, and some that A, B and
C exceed, so that it takes slabs of rows. The share of the bus is the time of plain copies of as many bytes, in both
directions at once and between pinned memory and the device, over that of the product. Small products are compared with
the host's. Writes JSON to --out and prints a table.
"""

import argparse
import json
import pathlib
import tempfile
import time

import common

PRODUCTS = {
    "gen:cage:14": ["0", "1GiB", "464MiB"],
    "gen:nlpkkt:80": ["0", "464MiB", "128MiB"],
    "gen:stencil7:256x256x256": ["0", "1GiB"],
    "gen:brick27:40:3": ["0", "200MiB"],
    "gen:rmat:16:8": ["0", "512MiB"],
    "gen:nlpkkt:160": ["0", "2GiB"],
}
CHECKED = 30_000_000  # entries of C up to which products are compared with the host's


def arguments():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = common.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spgemm", type=pathlib.Path, default=root / "build" / "spgemm" / "spgemm", help="the driver")
    parser.add_argument("--products", nargs="+", metavar="MATRIX=LIMIT,LIMIT...", help="files or generated matrices instead of the usual ones")
    parser.add_argument("--runs", type=common.count, default=5, help="timed products after another one (5)")
    parser.add_argument("--budget", type=float, default=200, metavar="S", help="no product is started after so many seconds (200)")
    parser.add_argument("--out", type=common.output, help="FILE.json")
    return parser.parse_args()


def multiply(options, matrix, limit, check):
    """Figures of one product; {"error": ...} when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "product.json"
        command = [options.spgemm, "--matrix", matrix, "--mode", "host", "--limit", limit, "--runs", options.runs, "--warmup", 1, "--json", path]
        try:
            common.run(command + ["--check"] * check, common.environment(), timeout=200)
        except common.Failed as why:
            if "no CUDA device" in str(why):
                raise common.NoCard from None
            return {"error": str(why)}
        found = json.loads(path.read_text())
    runs, a = sorted(found["product"]["runs"], key=lambda one: one["ms"]), found["a"]
    median = runs[(len(runs) - 1) // 2]
    needs = 2 * 4 * (a["rows"] + 1) + 12 * (a["stored"] + median["nnz_c"])  # B is A
    return {"needs": needs, "ms_min": runs[0]["ms"], "ms_max": runs[-1]["ms"], "checked": check,
            **{name: median[name] for name in ("ms", "nnz_c", "slabs", "sent_bytes", "received_bytes", "bus_ms", "peak_bytes")}}


def measure(options):
    products = dict((word.rsplit("=", 1)[0], word.rsplit("=", 1)[1].split(",")) for word in options.products) if options.products else PRODUCTS
    begin, rows, left = time.monotonic(), [], []
    for matrix, limits in products.items():
        nnz = None
        for limit in limits:
            if time.monotonic() - begin > options.budget:
                left.append(f"{matrix} with limit {limit}")
                continue
            found = multiply(options, matrix, limit, nnz is not None and nnz <= CHECKED)
            nnz = found.get("nnz_c", nnz)
            rows.append({"matrix": matrix, "limit": limit, **found})
            print(line(rows[-1]), flush=True)
    return rows, left


def line(row):
    text = f"{row['matrix']:26} limit {row['limit']:>7}: "
    if "error" in row:
        return text + row["error"]
    return text + (f"{row['ms']:.2f} ms ({row['ms_min']:.2f} to {row['ms_max']:.2f}), {100 * row['bus_ms'] / row['ms']:.0f} % of the bus, {row['slabs']} slabs, "
                   f"{row['sent_bytes'] / 1e9:.2f} GB to the device, {row['received_bytes'] / 1e9:.2f} GB back, peak {row['peak_bytes'] / 2**20:.0f} MiB"
                   f"{', checked' if row['checked'] else ''}")


def main():
    options = arguments()
    rows, left = measure(options)
    gpu, driver = common.card()
    if left:
        print("no time for " + ", ".join(left))
    if options.out:
        options.out.write_text(json.dumps({"bench": "spgemm_host", "commit": common.commit(), "gpu": gpu, "driver": driver, "runs": options.runs,
                                           "rows": rows, "left_out": left}, indent=1) + "\n")
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    common.end(main, "it measures a GPU")
