/* cuGetProcAddress: the highest variant of a name that is not above the requested version. */
#include "sim.h"
#include <string.h>

static const struct sim_symbol *best(const char *name, int version, bool twins, bool *exists) {
    const struct sim_symbol *found = NULL, *end = sim_symbols + sim_symbol_count;
    unsigned first = 0, last = sim_symbol_count; /* the table is sorted by name */
    while (first < last) {
        unsigned middle = (first + last) / 2;
        if (strcmp(sim_symbols[middle].name, name) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    for (const struct sim_symbol *s = sim_symbols + first; s < end && strcmp(s->name, name) == 0; s++) {
        if (s->per_thread != twins || s->version > sim_opt.version || sim_hidden(s->symbol, s->name))
            continue;
        *exists = true;
        if (s->version <= version && (!found || s->version > found->version))
            found = s;
    }
    return found;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *symbolFound) {
    bool exists = false;
    if (!symbol || !pfn || (flags & ~(cuuint64_t)3) || flags == 3 || driverVersion > sim_opt.version)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_symbol *s = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        s = best(symbol, driverVersion, true, &exists);
    if (!s)
        s = best(symbol, driverVersion, false, &exists);
    *pfn = s ? s->fn : NULL;
    if (symbolFound)
        *symbolFound = s        ? CU_GET_PROC_ADDRESS_SUCCESS
                       : exists ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    /* Requested with symbolStatus, an unknown name is an answer; without it, an error. */
    if (!s && (!symbolFound || !*symbol))
        return CUDA_ERROR_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags) {
    return sim_cuGetProcAddress_v2(symbol, pfn, driverVersion, flags, NULL);
}
