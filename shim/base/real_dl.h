/* The C library's own dynamic-linking functions, found by reading the loaded objects' symbol tables: our library
 * exports dlsym and dlvsym itself, and on glibc before 2.34 these live in libdl.so.2, which nobody may have linked. */
#ifndef GM_REAL_DL_H
#define GM_REAL_DL_H

#include <link.h>
#include <stddef.h>

/* Address of the default version of `symbol` in the first loaded object whose file name begins with `soname` (e.g.
 * "libc.so"), NULL when absent. Reads only memory that is already mapped. For objects that are never unloaded. */
void *gm_elf_symbol(const char *soname, const char *symbol);
/* The same in one loaded object (only l_addr and l_ld are read). */
void *gm_elf_symbol_of(const struct link_map *map, const char *symbol);

/* libc's own functions (libdl's before glibc 2.34); NULL when the process has none. */
void *gm_real_dlsym(void *handle, const char *name);
void *gm_real_dlopen(const char *file, int mode);
int gm_real_dlclose(void *handle);

/* Calls that only the preloaded library exports, by which a core library in the same process finds it. The names change
 * with the contract. */
#define GM_PRELOADED_MARK           gpumem_preloaded_mark_1
#define GM_PRELOADED_TRIM           gpumem_preloaded_trim_2
#define GM_NAME_OF(symbol)          GM_NAME_OF_EXPANDED(symbol)
#define GM_NAME_OF_EXPANDED(symbol) #symbol

/* Looks up what gm_thread_start needs, which then waits for no lock of the loader. */
void gm_thread_find(void);
/* Starts a detached-from-signals thread through the process's libpthread; 0 on success, -1 when it has none. */
int gm_thread_start(void *(*run)(void *), void *arg);
/* Calls `leave(value)` when the calling thread ends; 0 on success. value must not be NULL. */
int gm_thread_at_exit(void (*leave)(void *), void *value);

#endif
