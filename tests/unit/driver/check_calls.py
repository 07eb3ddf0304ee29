#!/usr/bin/env python3
"""The table of the driver's calls agrees with NVIDIA's headers: a row for each function, and each row is right.

usage: check_calls.py --table CALLS_H --reasons CALL_H --handles HANDLES_C --cc CC --work DIR
                      (--include DIR | --wheels NAME==VERSION ...) [--library FILE ...]

--wheels reads the headers of NVIDIA's runtime wheels. Together they declare all that has a row, except for functions
of cudaProfiler.h, which no wheel has. Ends with 77 where none is to be had.
--library: a libcuda whose exported functions must have rows, too.
--handles: has a row for each function that takes or returns a handle of physical memory.

The compiler's preprocessor reads the headers as the driver's own build does, with every variant. The typedef headers
list the versions of a name (PFN_cuMemAlloc_v3020), the others its symbols (cuMemAlloc, cuMemAlloc_v2). Both ascend, so
the n-th version is the n-th symbol. A header where the two counts differ is an error.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "realrt"))
import fetch_wheels  # noqa: E402

SKIP = 77
API_HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
# What the API headers include besides: only preprocessed, so empty files stand for them.
FOREIGN_HEADERS = ("GL/gl.h", "EGL/egl.h", "EGL/eglext.h", "vdpau/vdpau.h")
NEWEST_SUFFIX = 9
HOWS = {"HOOK", "JUMP"}
HANDLE = "CUmemGenericAllocationHandle"

# What a meaning takes for granted about the arguments: index -> type.
EVENT, CONTEXT, STREAM = "CUevent", "CUcontext", "CUstream"
ARGUMENTS = {
    "COPY": {0: "(CUdeviceptr|void *)"},
    "COPY_2D": {0: "const CUDA_MEMCPY2D *"},
    "COPY_3D": {0: "const CUDA_MEMCPY3D *"},
    "COPY_3D_PEER": {0: "const CUDA_MEMCPY3D_PEER *"},
    "RECORD": {0: EVENT},
    "WAIT": {1: EVENT},
    "CONTEXT_RECORD": {0: CONTEXT, 1: EVENT},
    "CONTEXT_WAIT": {0: CONTEXT, 1: EVENT},
    "EVENT_DONE": {0: EVENT},
    "NAMED_CONTEXT_DONE": {0: CONTEXT},
    "QUERY_STREAM": {0: STREAM},
    "QUERY_EVENT": {0: EVENT},
    "QUERY_EVENTS": {1: EVENT, 2: EVENT},
    "ENDING": {0: STREAM},
    "FREE": {0: "CUdeviceptr"},
    "MAY_SHARE_MEMORY": {2: "unsigned int"},
}
ARGUMENTS |= {f"COPY_NODE_{i}": {i: "const CUDA_MEMCPY3D *"} for i in range(10)}
ARGUMENTS |= {f"NODE_{i}": {i: "CUgraphNodeParams *"} for i in range(10)}
# The stream of these is an argument, or a member of the configuration.
IN_STREAM = set("WORK KERNEL COPY COPY_2D COPY_3D COPY_3D_PEER VISIBLE FUNCTION SIGNAL AWAIT BATCH RECORD WAIT".split())
IN_STREAM |= {"SYNCHRONISE", "QUERY_STREAM", "ENDING"}
IN_DEFAULT_STREAM = {"FIXED_WORK", "WAITED"}
# What gm_again (shim/hook/entry.S) passes on: so many arguments, each in one word and none a floating point number.
PASSED_ON = 11
MADE_AGAIN = {"CALL", "LAUNCH"}

Row = collections.namedtuple("Row", "symbol name version twin how role stream meaning why memory reason")


# ---- the table


def read_table(text):
    calls = text[text.index("#define GM_DRIVER_CALLS(X)") :]
    joined = re.sub(r"\s*\\\n\s*", " ", calls)
    found = re.findall(r'GM_ROWS?(\w*)\(X, (\w+), (\w*), (\d+), (?:(_\w+), )?([^"]*)("[^"]*")\)', joined)
    assert len(found) == joined.count("(X, "), "a row that cannot be read"
    rows = []
    for kind, name, first, second, thread, words, reason in found:
        rest = [*re.split(r",\s*", words.rstrip(" ,")), reason]
        # Two variants, or one with its suffix. Twins have CUDA 7.0 or a later one.
        for suffix, version in (("", first), ("_v2", second)) if kind else ((first, second),):
            rows.append(Row(f"cu{name}{suffix}", f"cu{name}", version, "0", *rest))
            if thread and (suffix or kind != "_V2"):
                rows.append(Row(f"cu{name}{suffix}{thread}", f"cu{name}", str(max(int(version), 7000)), "1", *rest))
    return rows


def described(text, column):
    """Words that the manual of a column describes: they open a line that is set in by two more blanks."""
    manual = re.search(rf"^ \* {column} +(.*?)^ \*\n", text, re.M | re.S).group(1)
    words = " ".join(re.findall(r"^ \*   ([A-Z][A-Z_0-9i ]*?) ?  ", manual, re.M)).split()
    numbered = {word for word in words if word.endswith("_i")}
    return set(words) - numbered | {f"{word[:-1]}{i}" for word in numbered for i in range(10)}


def reasons_of(text):
    return {"NO"} | set(re.findall(r"^\s+GM_SYNC_(\w+),", text, re.M))


# ---- the headers


def preprocess(cc, folder, names, empty):
    source = "".join(f"#include <{name}>\n" for name in names if (folder / name).exists())
    folders = ["-isystem", folder, "-isystem", empty]
    command = cc.split() + ["-E", "-P", "-D__CUDA_API_VERSION_INTERNAL"] + folders + ["-xc", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def functions_of(text):
    """symbol -> its parameters' types."""
    found = {}
    for symbol, parameters in re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{)]*)\)\s*;", text):
        types = [re.sub(r"\s*\w+$", "", re.sub(r"\s*\*\s*", " *", one.strip())) for one in parameters.split(",")]
        found[symbol] = [] if parameters.strip() == "void" else types
    return found


def variants_of(text, functions):
    """symbol -> (name, version, twin), as cuGetProcAddress offers it."""
    versions, found = {}, {}
    for name, version, thread in re.findall(r"\*\s*PFN_(cu\w+?)_v(\d+)(?:_(ptds|ptsz))?\)", text):
        versions.setdefault((name, thread), set()).add(int(version))
    for (name, thread), numbers in versions.items():
        tail = f"_{thread}" if thread else ""
        bodies = [name] + [f"{name}_v{n}" for n in range(2, NEWEST_SUFFIX + 1)]
        symbols = [body + tail for body in bodies if body + tail in functions]
        if symbols and len(symbols) != len(numbers):
            sys.exit(f"check_calls: {name}{tail}: versions {sorted(numbers)} against symbols {symbols}")
        for symbol, version in zip(symbols, sorted(numbers)):
            found[symbol] = (name, str(version), "1" if thread else "0")
    return found


def wide_types(cc, declarations, functions):
    """Types of parameters that take more than one word, or are passed in other registers than integers."""
    types = sorted({kind for kinds in functions.values() for kind in kinds if not kind.endswith("*")})
    asserts = "".join(f'_Static_assert(sizeof({kind}) <= 8, "wide: {kind}.");\n' for kind in types)
    command = cc.split() + ["-fsyntax-only", "-w", "-std=gnu11", "-xc", "-"]
    done = subprocess.run(command, input=declarations + asserts, capture_output=True, text=True)
    return {"float", "double", *re.findall(r"wide: ([^.]*)\.", done.stderr)}


def holders_of_handles(declarations):
    """Types that are a handle of physical memory, or a struct that contains one."""
    found, begin, depth = {HANDLE}, 0, 0
    for at in re.finditer(r"[{};]", declarations):
        depth += {"{": 1, "}": -1, ";": 0}[at.group()]
        if at.group() == ";" and not depth:
            statement, begin = declarations[begin : at.end()], at.end()
            name = re.search(r"}\s*(CU\w+)\s*;$", statement)
            if name and re.search(rf"\b{HANDLE}\b", statement):
                found.add(unversioned(name.group(1)))
    return found


def unversioned(kind):
    return re.sub(r"_v\d\b", "", kind)


def read_headers(cc, folder, work):
    empty = work / "empty"
    for name in FOREIGN_HEADERS:
        (empty / name).parent.mkdir(parents=True, exist_ok=True)
        (empty / name).touch()
    typedefs = [name.replace(".h", "Typedefs.h") for name in API_HEADERS]
    declarations = preprocess(cc, folder, API_HEADERS, empty)
    functions = functions_of(declarations)
    variants = variants_of(preprocess(cc, folder, typedefs, empty), functions)
    return functions, variants, wide_types(cc, declarations, functions), holders_of_handles(declarations)


def exported_by(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}
    return {name for name in names if re.match(r"cu[A-Z]", name)}


# ---- what may be wrong


def wrong_in(rows, words, reasons):
    """Of the table by itself."""
    for symbol, count in collections.Counter(row.symbol for row in rows).items():
        if count > 1:
            yield f"{symbol} has {count} rows"
    for row in rows:
        for column, known in (("how", HOWS), ("role", words["role"]), ("meaning", words["meaning"]), ("why", reasons),
                              ("memory", words["memory"])):
            if getattr(row, column) not in known:
                yield f"{row.symbol}: unknown {column} {getattr(row, column)}"
        if not re.fullmatch(r"\d+|CONFIG|DEFAULT|NONE", row.stream):
            yield f"{row.symbol}: unknown stream {row.stream}"
        if row.why != "NO" and (row.role, row.how) != ("SHARES", "JUMP"):
            yield f"{row.symbol}: the reason {row.why} stands in a row that notes none"
        if row.why == "NO" and (row.role, row.how) == ("SHARES", "JUMP") and "NODE_" not in row.meaning:
            yield f"{row.symbol}: nothing decides whether it shares"
        if row.role == "MEMORY" and row.how != "HOOK":
            yield f"{row.symbol}: no hook records the memory"
        if not re.fullmatch(r'"[a-z][^"]{5,40}"', row.reason):
            yield f"{row.symbol}: no reason, or a long one: {row.reason}"


def wrong_order(rows):
    """Variants of a name stand together, ascending, twins behind their siblings and of the same kind."""
    seen = set()
    for before, row in zip([None] + rows[:-1], rows):
        if before and before.name == row.name:
            if (int(before.version), before.twin) >= (int(row.version), row.twin):
                yield f"{row.symbol} stands behind {before.symbol}"
        elif row.name in seen:
            yield f"{row.symbol}: rows of {row.name} stand apart"
        seen.add(row.name)
    siblings = {row.symbol: row for row in rows}
    for row in rows:
        sibling = siblings.get(re.sub(r"_pt[ds][sz]$", "", row.symbol))
        if sibling and sibling[4:] != row[4:]:
            yield f"{row.symbol} differs from {sibling.symbol}"


def stream_of(row, types):
    """What the column must say; None: any word."""
    at = [index for index, kind in enumerate(types) if kind == STREAM]
    if at:
        return str(at[0])
    if types and types[0] == "const CUlaunchConfig *":
        return "CONFIG"
    return "DEFAULT" if row.meaning in IN_DEFAULT_STREAM or row.symbol.endswith("_ptds") else None


def wrong_words(row, types, wide):
    """Of a call that gm_again passes on."""
    if row.how != "JUMP" or row.memory not in MADE_AGAIN:
        return
    if len(types) > PASSED_ON:
        yield f"{row.symbol}: gm_again does not pass on {len(types)} arguments"
    for kind in set(types) & wide:
        yield f"{row.symbol}: gm_again does not pass on a {kind}"


def wrong_row(row, types, variant):
    """Of a row against a header that declares its function."""
    offered = variant or (re.sub(r"(_v\d)?(_pt[ds][sz])?$", "", row.symbol), "0", str(int("_pt" in row.symbol)))
    if row[1:4] != offered:
        yield f"{row.symbol} is {', '.join(row[1:4])} in the table and {', '.join(offered)} in the headers"
    stream = stream_of(row, types)
    if stream != row.stream and (stream or row.stream not in ("NONE", "DEFAULT")):
        yield f"{row.symbol}: stream {row.stream}, but by its parameters {stream or 'NONE'}"
    if row.meaning in IN_STREAM and not row.stream.isdigit():
        yield f"{row.symbol}: {row.meaning} without a stream"
    for index, kind in ARGUMENTS.get(row.meaning, {}).items():
        if index >= len(types) or not re.fullmatch(kind.replace("*", r"\*"), re.sub(r"_v\d\b", "", types[index])):
            yield f"{row.symbol}: {row.meaning} takes argument {index} for {kind}"


def wrong_against(rows, headers):
    by_symbol = {row.symbol: row for row in rows}
    for where, (functions, variants, wide, _) in headers.items():
        if len(functions) < 500:
            yield f"{where}: only {len(functions)} functions are found"
        for symbol, types in functions.items():
            if symbol not in by_symbol:
                yield f"{symbol} of {where} has no row"
                continue
            row = by_symbol[symbol]
            found = [*wrong_row(row, types, variants.get(symbol)), *wrong_words(row, types, wide)]
            yield from (f"{text} ({where})" for text in found)


def wrong_handles(text, headers):
    """A call that misses its row would get a token of gpumem's."""
    rows = set(re.findall(r"\bX\((cu\w+), (?:STANDS|DIVERTS|NATIVE),", text))
    for where, (functions, _, _, holders) in headers.items():
        for symbol, types in functions.items():
            kinds = {unversioned(word) for kind in types for word in re.findall(r"\w+", kind)}
            if kinds & holders and symbol not in rows:
                yield f"{symbol} of {where} has a handle, and no row of GM_HANDLE_CALLS"


# ---- the test


def folder_of(wheel):
    return next(wheel.glob("nvidia/*/include/cuda.h")).parent


def headers_of(options):
    """Where they are from -> (functions, variants, wide types, holders of handles), and whether that is all there is."""
    if options.include:
        return {options.include: read_headers(options.cc, pathlib.Path(options.include), options.work)}, False
    found = {}
    for wheel in options.wheels:
        try:
            found[wheel] = read_headers(options.cc, folder_of(fetch_wheels.fetch(options.work, wheel)), options.work)
        except fetch_wheels.NotToBeHad as reason:
            print(f"check_calls: {reason}")
    return found, len(found) == len(options.wheels)


def main():
    parser = argparse.ArgumentParser()
    for name in ("table", "reasons", "handles", "cc", "work"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--include")
    parser.add_argument("--wheels", nargs="*", default=[])
    parser.add_argument("--library", nargs="*", default=[])
    options = parser.parse_args()
    options.work = pathlib.Path(options.work)
    options.work.mkdir(parents=True, exist_ok=True)

    text = pathlib.Path(options.table).read_text()
    rows = read_table(text)
    words = {column: described(text, column) for column in ("role", "meaning", "memory")}
    headers, complete = headers_of(options)
    if not headers:
        return SKIP
    reasons = reasons_of(pathlib.Path(options.reasons).read_text())
    wrong = [*wrong_in(rows, words, reasons), *wrong_order(rows), *wrong_against(rows, headers)]
    wrong += wrong_handles(pathlib.Path(options.handles).read_text(), headers)
    symbols = {row.symbol for row in rows}
    if complete:
        declared = {symbol for functions, *_ in headers.values() for symbol in functions}
        undeclared = {symbol for symbol in symbols - declared if not symbol.startswith("cuProfiler")}
        wrong += [f"{symbol}: no header declares it" for symbol in sorted(undeclared)]
    for library in options.library:
        wrong += [f"{symbol} of {library} has no row" for symbol in sorted(exported_by(library) - symbols)]
    for line in wrong:
        print(line)
    print(f"{len(rows)} rows, {len(headers)} sets of headers, {len(wrong)} errors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
