/* Bytes that live, by context, under one ceiling: a context that goes takes its bytes out of the sum without anybody freeing
 * its blocks one by one. All functions are safe from any thread; zeroed memory is an empty ledger. */
#ifndef GM_RESOURCE_LEDGER_H
#define GM_RESOURCE_LEDGER_H

#include "shim/base/base.h"

#define GM_LEDGER_CONTEXTS 128 /* contexts with live bytes at one time */

struct gm_ledger {
    gm_spin lock;
    uint64_t total;
    struct {
        uint64_t context_id, bytes;
    } rows[GM_LEDGER_CONTEXTS];
};

/* Adds `bytes` unless the total would exceed `ceiling` or GM_LEDGER_CONTEXTS contexts hold bytes already; one step, so that
 * parallel requests cannot pass together. False: nothing was added. */
GM_INTERNAL bool gm_ledger_add(struct gm_ledger *ledger, uint64_t context_id, uint64_t bytes, uint64_t ceiling);
/* Takes back what add counted; nothing when the context was forgotten meanwhile. */
GM_INTERNAL void gm_ledger_subtract(struct gm_ledger *ledger, uint64_t context_id, uint64_t bytes);
/* Drops the context's bytes. */
GM_INTERNAL void gm_ledger_forget(struct gm_ledger *ledger, uint64_t context_id);
GM_INTERNAL uint64_t gm_ledger_total(const struct gm_ledger *ledger);

#endif
