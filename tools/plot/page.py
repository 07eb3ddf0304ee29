"""Writes report.html: pictures and tables of traces in one self-contained file."""

import base64
import html

from style import bytes_text, time_text

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --soft: #5c5c5c; --page: #fafafa; --line: #d7d7d7; --head: #efefef; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --soft: #a8a8a8; --page: #16181b; --line: #3a3e44; --head: #23262b; } }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; font: 15px/1.45 system-ui, sans-serif; color: var(--text);
       background: var(--page); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .3rem; } p, figcaption { color: var(--soft); margin: .2rem 0 .6rem; }
figure { margin: 0; } img { width: 100%; background: #fff; border: 1px solid var(--line); border-radius: 4px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--head); } th.text, td.text { text-align: left; } td.text { white-space: normal; overflow-wrap: anywhere; }
nav a { margin-right: 1rem; color: inherit; }
"""
COUNT, BYTES, TIME, TEXT = "{:,}".format, bytes_text, lambda ns: time_text(ns / 1e9), str


def cell(value, form):
    shown = "-" if value is None else form(value)
    return f'<td{" class=text" if form is TEXT else ""}>{html.escape(shown)}</td>'


def table(columns, rows):
    """columns: (heading, key, form)."""
    if not rows:
        return "<p>none</p>"
    head = "".join(f'<th{" class=text" if form is TEXT else ""}>{html.escape(heading)}</th>' for heading, _, form in columns)
    head = f"<tr>{head}</tr>\n" if any(heading for heading, _, _ in columns) else ""
    body = "".join(f"<tr>{''.join(cell(row.get(key), form) for _, key, form in columns)}</tr>\n" for row in rows)
    return f"<div class=wide><table>{head}{body}</table></div>"


def place_of(site):
    """A call site as text, as in gpumem report."""
    return site["text"] + (" (library of the toolkit)" if site["of_toolkit"] else "")


def settings(trace):
    process, totals = trace["process"], trace["totals"]
    rows = [("program", process["program"]), ("host", process["host"]), ("process", process["pid"]), ("rank", process["rank"]),
            ("policy", process["policy"]), ("gpumem", process["library"])]
    rows += [(f"device {one['device']}", f"{one['name']}, {bytes_text(one['bytes'])}") for one in process["devices"]]
    rows += [("trace", trace["file"]), ("ended in order", "yes" if process["finished"] else "no: killed, or still running")]
    rows += [(words, f"{value:,}") for words, value in (("damaged parts of the trace", trace["damaged_parts"]),
                                                        ("lost events", process["lost_events"])) if value]
    facts = [("events", COUNT, "events"), ("duration", TIME, "duration_ns"), ("time in calls", TIME, "call_ns"),
             ("allocations", COUNT, "allocations"), ("bytes allocated", BYTES, "allocated_bytes"), ("frees", COUNT, "frees"),
             ("temporary", COUNT, "temporary"), ("failed allocations", COUNT, "failed_allocations"),
             ("blocks leaked", COUNT, "leaked_blocks"),
             ("bytes leaked", BYTES, "leaked_bytes")]
    rows += [(words, form(totals[key])) for words, form, key in facts]
    several = len(trace["by_device"]) > 1
    for device in trace["by_device"]:
        of, part = (f" of device {device['device']}", f"peak_device_{device['device']}") if several else ("", "peak")
        rows += [(f"peak of live memory{of or ' of the device'}", BYTES(device["peak_live_bytes"])), (f"phase of the peak{of}", trace[part].get("phase"))]
    columns = [("", "name", TEXT), ("", "value", TEXT)]
    return table(columns, [{"name": name, "value": str(value)} for name, value in rows if value not in (None, "")])


def tables(trace, top):
    sites = [{**site, "place": place_of(site)} for site in trace["sites"]]
    leaks = sorted((site for site in sites if site["leaked_bytes"]), key=lambda site: -site["leaked_bytes"])
    yield "Settings and totals", settings(trace)
    yield "Kinds of memory", table([("kind", "kind", TEXT), ("allocations", "allocations", COUNT), ("bytes", "allocated_bytes", BYTES),
                                    ("frees", "frees", COUNT), ("peak", "peak_live_bytes", BYTES), ("at the whole peak", "at_peak_bytes",
                                                                                                    BYTES)], trace["by_kind"])
    yield f"Call sites, the {top} with most bytes", table(
        [("bytes", "allocated_bytes", BYTES), ("allocations", "allocations", COUNT), ("temporary", "temporary", COUNT),
         ("at the peak", "at_peak_bytes", BYTES), ("leaked", "leaked_bytes", BYTES), ("place", "place", TEXT)], sites[:top])
    if trace["phases"]["rows"]:
        yield f"Phases, the {top} with the highest peak", table(
            [("peak", "peak_bytes", BYTES), ("allocations", "allocations", COUNT), ("bytes", "allocated_bytes", BYTES),
             ("times", "entered", COUNT), ("time", "time_ns", TIME), ("phase", "name", TEXT)], trace["phases"]["rows"][:top])
    yield f"Leaks, the {top} largest", table([("bytes", "leaked_bytes", BYTES), ("blocks", "leaked_blocks", COUNT),
                                              ("place", "place", TEXT)], leaks[:top])


def picture(one, paths):
    svg = base64.b64encode(paths[0].read_bytes()).decode()
    return (f"<h3>{html.escape(one.title)}</h3><figure><figcaption>{html.escape(one.caption)}</figcaption>"
            f'<img alt="{html.escape(one.title)}" src="data:image/svg+xml;base64,{svg}"></figure>')


def write(path, document, drawn, top):
    """drawn: for each trace its report and (picture, files)."""
    parts = []
    for place, (trace, pictures) in enumerate(drawn):
        name = f"{trace['process']['program']} ({trace['process']['pid']})"
        parts.append(f'<h2 id="t{place}">{html.escape(name)}</h2>')
        parts += [f"<h3>{html.escape(title)}</h3>{body}" for title, body in tables(trace, top)]
        parts += [picture(*one) for one in pictures] or ["<p>No block was allocated: nothing to draw.</p>"]
    links = "".join(f'<a href="#t{place}">{html.escape(str(trace["process"]["pid"]))}</a>' for place, (trace, _) in enumerate(drawn))
    text = (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>GPU memory</title><style>{STYLE}</style></head><body><h1>GPU memory</h1>\n"
            f"{f'<nav>{links}</nav>' if len(drawn) > 1 else ''}" + "\n".join(parts) +
            f"\n<p>Written by gpumem {html.escape(document['gpumem'])}.</p></body></html>\n")
    path.write_text(text, encoding="utf-8", errors="replace")
