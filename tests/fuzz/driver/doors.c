#include "doors.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

enum { BY_DLSYM, BY_PROC_ADDRESS, BY_FIRST_PROC_ADDRESS, BY_LINKER, WAYS };

#ifdef LINKED
#define OWN(symbol) (void *)(uintptr_t)symbol
#else
#define OWN(symbol) NULL
#endif

#define ROW_OF(symbol, name, version) {#symbol, #name, version, 0, OWN(symbol)},
#define ROWS_OF(symbol, name, version, twin)   \
    {#symbol, #name, version, 0, OWN(symbol)}, \
        {#symbol "_" #twin, #name, (version) < 7000 ? 7000 : (version), 1, OWN(symbol##_##twin)},
static const struct {
    const char *symbol, *name;
    int version, per_thread;
    void *linked;
} rows[DOOR_COUNT] = {DOORS(ROW_OF, ROWS_OF)};

static void *driver, *found[DOOR_COUNT][WAYS];
static CUresult (*get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static CUresult (*get_proc_address_first)(const char *, void **, int, cuuint64_t);

void open_doors(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        _exit(77);
    }
    *(void **)&get_proc_address = dlsym(driver, "cuGetProcAddress_v2");
    *(void **)&get_proc_address_first = dlsym(driver, "cuGetProcAddress");
}

void *driver_symbol(const char *name) { return dlsym(driver, name); }

static void *look_up(enum door i, int way) {
    void *function = NULL;
    cuuint64_t flags =
        rows[i].per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    if (way == BY_DLSYM)
        return dlsym(driver, rows[i].symbol);
    if (way == BY_LINKER)
        return rows[i].linked;
    if (way == BY_PROC_ADDRESS && get_proc_address)
        get_proc_address(rows[i].name, &function, rows[i].version, flags, NULL);
    if (way == BY_FIRST_PROC_ADDRESS && get_proc_address_first)
        get_proc_address_first(rows[i].name, &function, rows[i].version, flags);
    return function;
}

void *door(enum door i, uint32_t variant) {
    int way = (int)(variant >> 28) % WAYS;
    if (!found[i][way] && !(found[i][way] = look_up(i, way)) && !(found[i][way] = look_up(i, BY_DLSYM))) {
        fprintf(stderr, "the driver has no %s\n", rows[i].symbol);
        _exit(77);
    }
    return found[i][way];
}
