/* The active list (hybrid-allocation-he, III.D): distinguishes short-lived sizes from lasting ones while the program
 * runs.
 *
 * For each pair of device and requested size the list counts the live blocks. Each allocation appends the live count
 * to the latest L counts. With fewer than L entries the answer is not known yet. When the entries differ by less
 * than X, blocks of this size come and go. Otherwise they accumulate. Policies active-list, auto and plan share the
 * list. */
#ifndef GM_ACTIVE_LIST_H
#define GM_ACTIVE_LIST_H

#include "policy/policy.h"

#define GM_LIST_LENGTH_MAX 64
#define GM_LIST_SIZES      65536 /* pairs of device and size that have a list */
#define GM_LIST_HISTORY    32    /* older entries kept so that a failed allocation can restore them */

/* Clears all lists and starts with L = setup->list_length and X = setup->list_range. No other function may run at
 * the same time. GM_OK with a text in setup->error is a warning. GM_INVALID_VALUE: L is out of range.
 * GM_OUT_OF_MEMORY: no memory for the tables. */
gm_status gm_active_list_setup(struct gm_policy_setup *setup);

/* Counts the allocation and returns GM_KIND_ASYNC or the managed kind of the setup; *reason is GM_REASON_LIST_*.
 * Threads that allocate the same size at the same moment do not wait for each other: one thread appends an entry,
 * the others use the previous verdict. */
enum gm_kind gm_active_list_allocated(const struct gm_request *request, enum gm_reason *reason);

/* The allocation that this thread counted last has failed. Restores the list to its state without that allocation:
 * its entry is removed, later entries of other threads are lowered by one because they counted it as live, and the
 * entry that it displaced returns. When this thread's last count was for another device or size, the newest entry of
 * the request's list is removed instead. GM_LIST_HISTORY older entries are kept for threads whose allocations of one
 * size fail at the same moment. After more failures the list is too short and answers as if it were still filling. */
void gm_active_list_failed(const struct gm_request *request);

/* A counted block was freed. */
void gm_active_list_freed(const struct gm_request *request);

/* In the child of a fork: threads that no longer exist may hold locks. */
void gm_active_list_after_fork(void);

/* For tests: copies the list of a device and size, oldest entry first, into entries[GM_LIST_LENGTH_MAX]. Returns its
 * length and writes the live count. */
unsigned gm_active_list_read(int device, size_t size, uint32_t *entries, uint32_t *live);

#endif
