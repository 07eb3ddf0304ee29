#!/usr/bin/env python3
"""Checks that the trace of pairs on the short path holds every call, in order, with call site, size and reuse.

usage: traced_pairs.py POLICY SHIM FOLDER_OF_SIMULATED_CUDA PROGRAM
"""
import csv
import os
import subprocess
import sys
import tempfile

PAIRS, BYTES = 400, 4000  # after 1000 of the program's own


def events_of(policy, shim, cuda, program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.csv')
        subprocess.run([program, 'pairs', str(PAIRS), str(BYTES)], check=True,
                       env=os.environ | {'LD_PRELOAD': shim, 'LD_LIBRARY_PATH': cuda, 'GPUMEM_POLICY': policy, 'GPUMEM_TRACE': path})
        with open(path) as lines:
            return list(csv.DictReader(line for line in lines if not line.startswith('#')))


def main(policy, shim, cuda, program):
    events = [event for event in events_of(policy, shim, cuda, program) if event['action'] in ('alloc', 'free')]
    assert len(events) == 2 * (1000 + PAIRS), len(events)
    numbers = [int(event['seq']) for event in events]
    assert numbers == sorted(set(numbers)), 'not in order'
    for event, following in zip(events[::2], events[1::2]):
        assert (event['action'], following['action']) == ('alloc', 'free'), (event, following)
        assert event['address'] == following['address'] and event['bytes'] == following['bytes'] == str(BYTES), (event, following)
        assert event['device'] == following['device'] == '0' and event['context'] == following['context'], (event, following)
        assert event['site'] not in ('', '0') and following['site'] not in ('', '0'), (event, following)
    kept = [event for event in events[::2] if event['hit'] == '1']
    assert len(kept) > 1300, len(kept)
    assert {event['kind'] for event in kept} == {'cache'}
    assert len({event['reason'] for event in kept}) <= 2, {event['reason'] for event in kept}
    sites = {event['site'] for event in events[2000:]}
    assert len(sites) == 2, sites  # the allocation's and the free's, in both callers


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
