/* The size-keyed active list (hybrid-allocation-he, III.D), shared by the policies that use its answer.
 *
 * For each pair of device and requested bytes it keeps the number of live blocks and the latest L such numbers, one
 * pushed at every allocation. Few entries: unknown; a range below X: blocks of this size come and go; else they pile
 * up. */
#ifndef GM_ACTIVE_LIST_H
#define GM_ACTIVE_LIST_H

#include "policy/policy.h"

#define GM_LIST_LENGTH_MAX 64
#define GM_LIST_SIZES      65536 /* different pairs of device and size that are watched */
#define GM_LIST_HISTORY    32    /* entries kept behind the list's end for failed allocations to bring back */

/* Forgets everything and starts with L = setup->list_length, X = setup->list_range. Not to be called beside the other
 * functions. GM_OK with text in setup->error is a warning. GM_INVALID_VALUE: L out of range; GM_OUT_OF_MEMORY: no
 * memory for the tables. */
gm_status gm_active_list_setup(struct gm_policy_setup *setup);

/* Counts the allocation and answers GM_KIND_ASYNC or the setup's managed kind; *reason is GM_REASON_LIST_*. Threads
 * that allocate one size at the same moment do not wait for each other: one of them pushes an entry, the others go by
 * the verdict before. */
enum gm_kind gm_active_list_allocated(const struct gm_request *request, enum gm_reason *reason);

/* The allocation that this thread counted last did not happen. Leaves the list as if it never had been counted: its
 * entry goes, entries that other threads pushed after it shrink by one because they counted it as live, and the entry
 * it had pushed out comes back. When this thread's last count was of another device or size, the newest entry of the
 * request's is meant. Entries behind the list's end are kept for GM_LIST_HISTORY threads that fail for one size at the
 * same moment; with more, the list ends up short by the rest and answers as one still filling. */
void gm_active_list_failed(const struct gm_request *request);

/* A counted block was freed. */
void gm_active_list_freed(const struct gm_request *request);

/* Whether, of the request's size, which this thread counted last, more blocks were freed so far than are alive, and at
 * least L: they come and go, if in waves too large for the list. While the list of the size is filling, the same of all
 * such sizes from one power of two to the next, on the device: a program that asks for another size each time. */
bool gm_active_list_turns_over(const struct gm_request *request);

/* In the child of a fork: locks may be held by threads that stayed behind. */
void gm_active_list_after_fork(void);

/* For tests: copies the list of device and size, oldest entry first, into entries[GM_LIST_LENGTH_MAX]; returns its
 * length and writes the live count. */
unsigned gm_active_list_read(int device, size_t size, uint32_t *entries, uint32_t *live);

#endif
