/* The name of the function at an address, read from the symbol table of a file. Uses no heap, no loader and 256 bytes
 * of stack. */
#ifndef GM_BASE_SYMBOL_H
#define GM_BASE_SYMBOL_H

#include "shim/base/base.h"

/* Writes the name (not demangled) of the function that contains `address`, an address as the ELF file states it: less
 * the base at which the file is loaded. False: the file cannot be read, or has no symbol there. */
GM_INTERNAL bool gm_symbol_find(const char *path, uint64_t address, char *name, size_t size);

#endif
