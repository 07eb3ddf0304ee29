/* The memory map of the process, /proc/self/maps. */
#ifndef GM_MAP_H
#define GM_MAP_H

#include "shim/base/base.h"

struct gm_map_line {
    uint64_t from, to;
    bool readable;
    char name[32]; /* of the file, or [heap] ...; cut, "" = none */
};

/* Finds the line of an address. False: nothing is mapped there, or the map cannot be read. Any thread may call it; it
 * takes no memory but its stack. */
GM_INTERNAL bool gm_map_find(uint64_t address, struct gm_map_line *line);

#endif
