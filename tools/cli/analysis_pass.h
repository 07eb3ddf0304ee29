/* What the files of an analysis share; only they include it. Totals change in one thread. */
#ifndef GM_ANALYSIS_PASS_H
#define GM_ANALYSIS_PASS_H

#include "tools/cli/analysis.h"

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
    uint32_t *site_index; /* id -> index in a->sites, plus 1, of its latest device; `other` leads on */
    struct size_entry *sizes;
    struct size_entry *recent_sizes[RECENT_SIZES]; /* cache of `sizes`: most allocations repeat a size */
    struct thread_entry *threads, *last_thread;
    struct sum_entry *sums; /* of a summary, by site, kind and device */
    uint64_t trim_ns;       /* of the latest trim: one trim has an event for each kind */
    uint32_t peak;          /* number of peaks so far; shows whether a total changed since the latest one */
    bool failed;
};

/* analysis.c. NULL: no memory, and the pass has failed. */
struct gm_site_totals *gm_pass_site(struct gm_analysis_pass *pass, uint32_t id, int device_or_none);

/* analysis_block.c */
bool gm_live_block_is_handle(const struct gm_live_block *block); /* of memory that the program maps */
uint64_t gm_handle_key(uint64_t handle);

/* analysis_amounts.c */
void gm_pass_live(struct gm_analysis_pass *pass, const struct gm_live_block *block, bool created, uint64_t now);
void gm_pass_device_peak(struct gm_device_totals *device, uint64_t now);
void gm_pass_reserved(struct gm_analysis *analysis, int device, uint64_t now); /* after reserved bytes changed */
void gm_pass_reserve(struct gm_analysis *analysis, const struct gm_live_block *block);
void gm_pass_unreserve(struct gm_analysis *analysis, const struct gm_live_block *block, const struct gm_event *event);
void gm_pass_trim(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_untracked(struct gm_analysis *analysis, const struct gm_event *event);
void gm_pass_held(struct gm_analysis *analysis, const struct gm_event *event);
void gm_pass_leak(struct gm_analysis *analysis, int device, uint64_t count, uint64_t bytes);

/* analysis_summary.c */
void gm_pass_sum(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_peak(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_total(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_conclude_sums(struct gm_analysis_pass *pass);

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
