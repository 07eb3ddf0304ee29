#!/usr/bin/env python3
"""The table of a block's states in shim/README.md is that of shim/resource/record.h.

usage: check_states.py RECORD-HEADER README [--update]
"""
import re
import sys

TABLE = re.compile(r'(<!-- states -->\n)(.*?)(<!-- /states -->)', re.DOTALL)


def rows(header, name):
    body = re.search(rf'#define {name}\(X\)((?:.*\\\n)*.*\n)', header)[1]
    body = re.sub(r'\s*\\\n\s*', ' ', body)
    found = [re.findall(r'"(?:[^"\\]|\\.)*"|\w+', row) for row in re.findall(r'X\((.*?"(?:[^"\\]|\\.)*")\)', body)]
    return [[word.strip('"') for word in row] for row in found]


def table(header):
    states = {enumerator.removeprefix('GM_BLOCK_'): (name, what) for enumerator, name, what in rows(header, 'GM_BLOCK_STATES')}
    lines = ['| state | the block is | next state | when |', '| --- | --- | --- | --- |']
    for state, (name, what) in states.items():
        for of, to, when in rows(header, 'GM_BLOCK_TRANSITIONS'):
            if of == state:
                lines.append(f'| {name} | {what} | {states[to][0]} | {when} |')
                name = what = ''
    return '\n'.join(lines) + '\n'


def main(header, readme, *update):
    with open(header, encoding='utf-8') as file:
        wanted = table(file.read())
    with open(readme, encoding='utf-8') as file:
        text = file.read()
    assert wanted.count('\n') > 12, wanted
    now = TABLE.sub(lambda found: found[1] + wanted + found[3], text)
    if update == ('--update',):
        with open(readme, 'w', encoding='utf-8') as file:
            file.write(now)
    elif now != text:
        return f'the table of states in {readme} is another one: --update writes it'
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
