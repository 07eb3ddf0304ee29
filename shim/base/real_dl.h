/* The C library's own dynamic-linking and thread functions. gpumem exports dlsym and dlvsym itself, so it cannot call
 * them by name. Before glibc 2.34 they lie in libdl.so.2 and libpthread.so.0, which the program may not be linked
 * with. They are found by reading the symbol tables of the loaded objects. */
#ifndef GM_REAL_DL_H
#define GM_REAL_DL_H

#include <link.h>
#include <stddef.h>

/* Address of the default version of `symbol` in the first loaded object whose file name begins with `soname` (for
 * example "libc.so"); NULL when absent. Reads only mapped memory. Use it only for objects that are never unloaded. */
void *gm_elf_symbol(const char *soname, const char *symbol);
/* The same in one loaded object (only l_addr and l_ld are read). */
void *gm_elf_symbol_of(const struct link_map *map, const char *symbol);

/* The functions of libc (of libdl before glibc 2.34). Where the process has none they return NULL. */
void *gm_real_dlsym(void *handle, const char *name);
void *gm_real_dlopen(const char *file, int mode);

/* Functions that only the preloaded library exports. By these names a core library in the same process finds it. A
 * name changes when the meaning of its function changes. */
#define GM_PRELOADED_MARK           gpumem_preloaded_mark_1
#define GM_PRELOADED_TRIM           gpumem_preloaded_trim_2
#define GM_PRELOADED_SUSPEND        gpumem_preloaded_suspend_2
#define GM_NAME_OF(symbol)          GM_NAME_OF_EXPANDED(symbol)
#define GM_NAME_OF_EXPANDED(symbol) #symbol

/* Looks up the functions that gm_thread_start needs. Then gm_thread_start does not wait for the loader's lock. */
void gm_thread_find(void);
/* Starts a detached thread with all signals blocked. 0 on success; -1 when the process has no pthread_create or the
 * thread cannot be started. */
int gm_thread_start(void *(*run)(void *), void *arg);
/* Calls `leave(value)` when the calling thread ends; 0 on success. `value` must not be NULL. */
int gm_thread_at_exit(void (*leave)(void *), void *value);

#endif
