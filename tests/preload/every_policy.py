"""The usual case: a small program natively and under every policy, its trace checked event by event."""

import itertools

from place import check_same_output, is_simulated
from traces import check_trace

POLICIES = ("observe", "cache", "async", "managed", "active-list", "auto")


def plain(program, policies=POLICIES, leaks=0, arguments=None, further=None, warnings=False, settings=({},)):
    """The usual case: native run, then each policy with a trace that is checked event by event.

    leaks: blocks the program leaves behind; further(events, label): more checks; warnings: the shim may warn
    on stderr, because what the program does is worth one; settings: options, with each of which every policy runs,
    those of the simulated driver only on that."""

    def case(place):
        command = [place.program(program)] + (arguments(place) if arguments else [])
        native = place.run_native(command)
        usable = [options for options in settings if is_simulated(place) or not any("SIMCUDA" in name for name in options)]
        for policy, options in itertools.product(policies, usable):
            label = f"{program} under {policy}" + "".join(f" {name}={value}" for name, value in options.items())
            done = place.run_shimmed(command, policy, **options)
            check_same_output(native, done, label, warnings)
            events = check_trace(done, policy, leaks, label)
            if further:
                further(events, label)
        # Without a trace the shim takes other ways through its code; the program must not notice that either.
        check_same_output(
            native, place.run_shimmed(command, policies[-1], trace=False), f"{program} without a trace", warnings
        )

    return case


def all_rows(events):
    return [row for rows in events.values() for row in rows]
