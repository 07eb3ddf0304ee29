"""The list of what a card's memory is, as text, as it is in traces and as JSON: its rows add up to the card."""

import re

ROWS = ("live", "rounding", "kept", "pools", "handles", "contexts", "others", "free")
TOTAL, ELSEWHERE = 32, 33  # numbers of items in a trace, where rows are 0 to 7
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Arguments of the program reserved: freed blocks are kept, pools and graphs have unused memory, handles are not mapped.
PLAN = ("100x1m", "e:997x630k", "-50", "k", "p:8x8m", "q:2x16m", "a:4x4m", "-6", "v:2x4m", "h:2x4m", "g:2x4m", "m:2x8m", "~150", "1x200m")
WORDS = r"card .*when the request failed:\n(?:gpumem:     .*\n)*gpumem:   why  +(.*)\n"


def from_text(text):
    """The figures by name, and by how much rounding may have the sum wrong."""
    found = re.findall(rf"\b({'|'.join(ROWS)}|rest|elsewhere) +(-?[0-9.]+) ([KMG]?i?B)\b", re.sub(r";.*", "", text))
    figures = {name: float(number) * UNITS[unit] for name, number, unit in found}
    return figures, sum(0.006 * UNITS[unit] for _, number, unit in found if "." in number)


def wrong_in_text(text, card):
    """None, or what is wrong."""
    figures, tolerance = from_text(text)
    total = sum(figures.values())
    good = {"live", "free"} <= figures.keys() and abs(total - card) <= tolerance
    return None if good else f"{total} of {card}: {text}"


def from_trace(events):
    """The accounts in the events of a trace, each with the flags of its event "beyond"."""
    accounts, items, flags = [], {}, 0
    for event in events:
        if event["action"] == "beyond":
            items, flags = {}, int(event["flags"])
        elif event["action"] == "account" and int(event["site"]) < 39:
            items[int(event["site"])] = int(event["bytes"])
            if int(event["site"]) == TOTAL:
                accounts.append(({**{name: items.get(at, 0) for at, name in enumerate(ROWS)}, "elsewhere": items.get(ELSEWHERE, 0),
                                  "card": items[TOTAL]}, flags))
    return accounts


def missing(account):
    """The bytes by which an account does not add up."""
    return account["card"] - sum(account[row] for row in ROWS) + account["elsewhere"]
