#!/usr/bin/env python3
"""Tables of shim/README.md say what the rows of the headers say.

usage: check_tables.py SOURCE [--update]

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`. --update writes it anew.
"""

import pathlib
import re
import sys

import check_includes

RECORD = "shim/resource/record.h"
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def rows(source, header, name):
    """The arguments of each X(...) of the list `name`; texts lose their quotes."""
    text = (source / header).read_text()
    body = re.search(rf"#define {name}\(X\)((?:[^\n]*\\\n)*[^\n]*)", text)[1].replace("\\\n", " ")
    for row in re.finditer(r'X\(((?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^()"])*)\)', body):
        cells = re.findall(r'(?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^,()"])+', row[1])
        yield [" ".join(LITERAL.findall(cell)) or " ".join(cell.split()) for cell in cells]


def observers(source):
    yield "| `GM_OBSERVED_...` | set while |"
    yield "| --- | --- |"
    for name, meaning in rows(source, "shim/base/observers.h", "GM_OBSERVERS"):
        yield f"| `{name}` | {meaning} |"


def files_of(source):
    """(name, text, functions that it defines, functions that it calls) of each file of the shim, rooms from the bottom up"""
    for room in (room for room in check_includes.ROOMS["shim"] if room.startswith("shim/")):
        for path in check_includes.sources(source, room):
            text = path.read_text()
            yield str(path.relative_to(source)), text, *check_includes.functions(text)


def publishers(files, event, function):
    """The files that publish `event`, or call `function` from below its home."""
    if event:
        return [name for name, text, *_ in files if re.search(rf"\bGM_(?:PUBLISH|ASK)\({event}\b", text)]
    home = next(name for name, _, defined, _ in files if name.endswith(".c") and function in defined)
    return [name for name, _, _, called in files if function in called and check_includes.is_upward(name, home)]


def events(source):
    header, files = "shim/base/events.h", list(files_of(source))
    yield "| told | published in | when |"
    yield "| --- | --- | --- |"
    listed = [("", function, when) for function, _, _, when in rows(source, header, "GM_EVENTS_LINKED")]
    listed += [(event, function, when) for event, function, _, _, when in rows(source, header, "GM_EVENTS")]
    for event, function, when in listed:
        places = ", ".join(f"`{name.removeprefix('shim/')}`" for name in publishers(files, event, function))
        yield f"| {f'`{event}`: ' if event else ''}`{function}` | {places} | {when} |"


def states(source):
    names = {enumerator.removeprefix("GM_BLOCK_"): (name, what) for enumerator, name, what in rows(source, RECORD, "GM_BLOCK_STATES")}
    transitions = list(rows(source, RECORD, "GM_BLOCK_TRANSITIONS"))
    yield "| state | the block is | next state | when |"
    yield "| --- | --- | --- | --- |"
    for state, (name, what) in names.items():
        for _, to, when in (row for row in transitions if row[0] == state):
            yield f"| {name} | {what} | {names[to][0]} | {when} |"
            name = what = ""


TABLES = {"observers": observers, "events": events, "states": states}


def main():
    source, update = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["--update"]
    path = source / "shim/README.md"
    text, wrong = path.read_text(), False
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        head, rest = text.split(begin)
        shown, tail = rest.split(end)
        now = "".join(f"{line}\n" for line in table(source))
        if shown != now and not update:
            print(f"{path}: the table {name} is not current; run: check_tables.py {source} --update")
            wrong = True
        text = head + begin + now + end + tail
    if update:
        path.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
