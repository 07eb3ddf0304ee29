"""What a program wrote of its memory calls (program.h) beside the shim's trace."""

import collections
import csv

from place import check

# A note of the program -> the action it must show as
ACTION_OF_NOTE = {
    "alloc": "alloc",
    "fail": "alloc_fail",
    "free": "free",
    "free_fail": "free_fail",
    "gone": "release",
    "reserve": "reserve",
    "unreserve": "unreserve",
    "map": "map",
    "unmap": "unmap",
}
OPAQUE_CALLS = {
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuMipmappedArrayCreate",
    "cuArrayDestroy",
    "cuMipmappedArrayDestroy",
    "cuMemCreate",
    "cuMemRelease",
}
POOL_CALLS = {"cuMemPoolCreate", "cuMemPoolDestroy"}
# What serves a plain cuMemAlloc under a policy that always decides the same
KINDS_OF_POLICY = {"observe": {"native"}, "cache": {"cache"}, "async": {"async"}, "managed": {"managed", "managed-pool"}}

NUMBERS = ("seq", "time_ns", "bytes", "thread", "pid")

Note = collections.namedtuple("Note", "pid action call bytes address")


def read_notes(folder):
    path = folder / "program.log"
    notes = []
    for line in path.read_text().splitlines() if path.exists() else []:
        pid, action, call, size, address = line.split()
        notes.append(Note(int(pid), action, call, None if size == "-" else int(size), int(address, 16)))
    return notes


def read_trace(folder):
    """Events by process id, in the order of their sequence numbers."""
    events = {}
    for path in sorted(folder.glob("trace-*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        broken = [
            row for row in rows if None in row or not "".join([row.get(name) or "-" for name in NUMBERS]).isdigit()
        ]
        check(not broken, f"{path.name}: unreadable: {broken[:2]}")
        rows.sort(key=lambda row: int(row["seq"]))
        events[int(path.stem.split("-")[1])] = rows
    return events


def number(text):
    return int(text, 0) if text else 0


def is_memory_event(row):
    if row["call"] in POOL_CALLS or row["action"] not in ACTION_OF_NOTE.values():
        return False
    return not (row["action"] == "free" and number(row["address"]) == 0)


def same(note, row):
    if row["action"] != ACTION_OF_NOTE[note.action]:
        return False
    if note.action == "gone":
        return number(row["address"]) == note.address
    if row["call"] != note.call:
        return False
    if (
        note.action in ("alloc", "fail", "reserve")
        and note.bytes is not None
        and int(row["bytes"]) != note.bytes
    ):
        return False
    return note.action == "fail" or note.call in OPAQUE_CALLS or number(row["address"]) == note.address


def match_events(notes, rows, label):
    """Every note is one event and every event one note."""
    left = [row for row in rows if is_memory_event(row)]
    for note in notes:
        found = next((row for row in left if same(note, row)), None)
        if found is None:  # the text only then: it takes longer than the search
            check(False, f"{label}: not in the trace: {note}; left: {[brief(row) for row in left[:8]]}")
        left.remove(found)
    check(not left, f"{label}: in the trace but not called by the program: {[brief(row) for row in left[:8]]}")


def brief(row):
    return f"{row['seq']}:{row['action']} {row['call']} {row['bytes']} {row['address']}"


def fails(wrong, label, what, row):
    if wrong:
        check(False, f"{label}: {what}: {brief(row)}")


def check_life(rows, label):
    """No address lives twice at once, nothing is freed that does not live, results agree with actions."""
    check(len({row["seq"] for row in rows}) == len(rows), f"{label}: sequence numbers repeat")
    live = {}
    for row in rows:
        key = (row["call"] in OPAQUE_CALLS, number(row["address"]))
        if row["action"] == "alloc":
            fails(key in live, label, "lives already", row)
            fails(row["result"] not in ("0", ""), label, "an allocation with an error", row)
            fails(int(row["bytes_got"] or row["bytes"]) < int(row["bytes"]), label, "too few bytes", row)
            live[key] = row
        elif row["action"] in ("free", "release") and is_memory_event(row):
            fails(key not in live, label, "freed but not live", row)
            del live[key]
        elif row["action"] in ("alloc_fail", "free_fail"):
            fails(row["result"] in ("0", ""), label, "a failure without an error", row)
    return list(live.values())


def plain_allocations(rows):
    """What a policy may move: cuMemAlloc, except while any stream captures."""
    captures = 0
    for row in rows:
        captures += {"capture_begin": 1, "capture_end": -1}.get(row["action"], 0)
        if row["action"] == "alloc" and row["call"] == "cuMemAlloc" and captures == 0:
            yield row


def check_trace(done, policy, expected_leaks, label):
    notes = collections.defaultdict(list)
    for note in read_notes(done.folder):
        notes[note.pid].append(note)
    events = read_trace(done.folder)
    check(
        set(events) == set(notes),
        f"{label}: processes with notes {sorted(notes)}, with a trace {sorted(events)}",
    )
    check(notes, f"{label}: the program noted no call")
    leaked = 0
    for pid, rows in events.items():
        check(
            {row["pid"] for row in rows} == {str(pid)},
            f"{label}: another process's events in the trace of {pid}",
        )
        match_events(notes[pid], rows, label)
        leaked += len(check_life(rows, label))
        if policy in KINDS_OF_POLICY:
            kinds = {row["kind"] for row in plain_allocations(rows)}
            check(kinds <= KINDS_OF_POLICY[policy], f"{label}: cuMemAlloc served by {sorted(kinds)}")
    check(leaked == expected_leaks, f"{label}: {leaked} blocks left, the program leaves {expected_leaks}")
    return events
