#include "shim/hook/stream_observer.h"

#include <link.h>
#include <string.h>

#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/streams.h"
#include "shim/grow/grow.h"
#include "shim/hook/observer_rows.h"

#define OBSERVER(symbol, ...)                    \
    GM_INTERNAL void gm_observer_##symbol(void); \
    GM_INTERNAL void *gm_observed_##symbol;      \
    void *gm_observed_##symbol;
GM_OBSERVER_ROWS(OBSERVER, OBSERVER, OBSERVER)
#undef OBSERVER

_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "the watcher of cuLaunchKernelEx reads the stream there");

static const struct {
    const char *symbol;
    void (*watcher)(void);
    void **function;
} rows[] = {
#define OBSERVER(symbol, ...) {#symbol, gm_observer_##symbol, &gm_observed_##symbol},
    GM_OBSERVER_ROWS(OBSERVER, OBSERVER, OBSERVER)
#undef OBSERVER
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool active;

/* ---- objects linked with the driver */

struct search {
    unsigned long long adds, known;
    bool found;
};

static bool needs_driver(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic) {
    const char *strings = NULL;
    for (const ElfW(Dyn) *row = dynamic; row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_STRTAB)
            strings =
                (const char *)(row->d_un.d_ptr < info->dlpi_addr ? row->d_un.d_ptr + info->dlpi_addr : row->d_un.d_ptr);
    for (const ElfW(Dyn) *row = dynamic; strings && row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_NEEDED && strncmp(strings + row->d_un.d_val, "libcuda.so", 10) == 0)
            return true;
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    struct search *search = argument;
    search->adds = size >= offsetof(struct dl_phdr_info, dlpi_subs) ? info->dlpi_adds : 0;
    if (search->adds && search->adds == search->known)
        return 1;
    if (strstr(info->dlpi_name, "linux-vdso"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            search->found |= needs_driver(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    return 0;
}

bool gm_observer_linked(void) {
    static unsigned long long known;
    struct search search = {.known = __atomic_load_n(&known, __ATOMIC_RELAXED)};
    dl_iterate_phdr(visit, &search);
    __atomic_store_n(&known, search.adds, __ATOMIC_RELAXED);
    return search.found;
}

void gm_observer_find(void) {
    for (unsigned i = 0; i < ROWS; i++)
        __atomic_store_n(rows[i].function, gm_driver_symbol(rows[i].symbol), __ATOMIC_RELAXED);
}

void gm_observer_start(bool all_known) {
    if (gm_grow_mode >= GM_GROW_MOVE) /* gates stand in the watchers' place */
        gm_free_sync_note(GM_SYNC_LINKED);
    if (gm_drv.ctx_record_event && !gm_free_sync_observes())
        return;
    active = true;
    gm_streams_observe(gm_observer_linked);
    if (all_known)
        return;
    gm_streams_doubt(GM_STREAMS_LINKED);
    gm_free_sync_note(GM_SYNC_LINKED);
}

void *gm_observer_route(void *function) {
    for (unsigned i = 0; active && i < ROWS; i++)
        if (*rows[i].function == function)
            return (void *)rows[i].watcher;
    return function;
}
