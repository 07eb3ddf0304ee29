/* The state of an analysis while it reads events, and its tables. Only its files include it; one thread at a time. */
#ifndef GM_ANALYSIS_PASS_H
#define GM_ANALYSIS_PASS_H

#include "tools/cli/analysis_totals.h"

#include <uthash.h>

#define SITE_IDS     (1u << 22) /* larger ids occur only in damaged files and count as unknown */
#define SIZES_MAX    65536u
#define RECENT_SIZES 1024u

struct size_entry {
    struct gm_size_totals totals;
    UT_hash_handle hh;
};

struct sum_entry {
    struct gm_sum sum;
    UT_hash_handle hh;
};

struct thread_entry {
    int id;
    uint64_t last_key; /* its latest allocation; 0 after it allocated or freed another block */
    UT_hash_handle hh;
};

struct gm_analysis_pass {
    struct gm_analysis *a;
    struct gm_observer *const *observers; /* ends with NULL */
    struct gm_live_blocks live;
    size_t site_room;     /* capacity of a->sites, which is in order of appearance */
    uint32_t recent_site; /* index in a->sites, plus 1: an event looks its site up several times */
    uint32_t *site_index; /* id -> index in a->sites, plus 1, of its latest device; `other` leads on */
    struct size_entry *sizes;
    struct size_entry *recent_sizes[RECENT_SIZES]; /* cache of `sizes`: most allocations repeat a size */
    struct thread_entry *threads, *last_thread;
    struct sum_entry *sums; /* of a summary, by site, kind and device */
    uint64_t trim_ns;       /* of the latest trim: one trim has an event for each kind */
    uint32_t peak;          /* number of peaks so far; shows whether a total changed since the latest one */
    uint64_t on_device;     /* of the allocation of kind split that is looked at: bytes of its first part */
    bool blocks_only;       /* observers see the blocks, and nothing is counted but their numbers */
    bool failed;
};

/* The totals of the call site on the device. NULL: no memory, and the pass has failed. */
struct gm_site_totals *gm_pass_site(struct gm_analysis_pass *pass, uint32_t id, int device_or_none);
void gm_pass_size(struct gm_analysis_pass *pass, uint64_t size);            /* counts the size */
struct thread_entry *gm_pass_thread(struct gm_analysis_pass *pass, int id); /* NULL: as above */

/* The analysis stores each total's value at the peak without copying all totals at each new peak: the first change of a
 * total since the latest peak saves its old value. */
static inline void gm_pass_change(uint32_t peaks, uint64_t *value, uint64_t *at_peak, uint32_t *seen,
                                  uint64_t difference) {
    if (*seen != peaks) {
        *at_peak = *value;
        *seen = peaks;
    }
    *value += difference;
}

#endif
