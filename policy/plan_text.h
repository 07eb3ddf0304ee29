/* Reader of plans: which memory serves each object of a program, decided from an earlier run (hybrid-allocation-he,
 * III.C).
 *
 * Text, one entry a line:
 *
 *   gpumem-plan 1                     the first line
 *   # ...                             a comment, to the end of the line
 *   site NUMBER FRAME[<FRAME]...      a call site; numbers count up from 1
 *   ID DECISION [SIZE [SITE]]         an object; ids rise; DECISION native, cache, async, managed or managed-pool; SIZE
 * bytes or -; SITE a number, a call site as text, or -
 *
 * or the paper's bare list: 0 (managed) or 1 (async) for each object in the order of their ids, with or without blanks,
 * commas and line ends between. */
#ifndef GM_PLAN_TEXT_H
#define GM_PLAN_TEXT_H

#include "policy/policy.h"

#define GM_PLAN_ENTRIES_MAX 100000000u
#define GM_PLAN_VERSION     "gpumem-plan 1"

struct gm_plan_reader {
    const char *at, *end;
    uint32_t line; /* of the latest item, from 1 */
    bool bare, begun;
    uint32_t id;    /* latest */
    uint32_t sites; /* seen so far */
    enum gm_kind managed;
    const char *error; /* GM_PLAN_WRONG: what is wrong and what is accepted */
};

enum gm_plan_item_type { GM_PLAN_END, GM_PLAN_WRONG, GM_PLAN_SITE, GM_PLAN_OBJECT };

struct gm_plan_item {
    enum gm_plan_item_type type;
    uint32_t id; /* object: its id; site: its number */
    enum gm_kind kind;
    bool has_size;
    uint64_t size;
    uint32_t site; /* object: number of its site, 0 = none or given as text */
    uint64_t key;  /* site: its key; object: key of the site given as text, else 0 */
};

/* `text` stays the caller's and must outlive the reader. */
void gm_plan_open(struct gm_plan_reader *reader, const char *text, size_t bytes, enum gm_kind managed);

/* Next item. After GM_PLAN_END or GM_PLAN_WRONG it is not to be called again. */
struct gm_plan_item gm_plan_next(struct gm_plan_reader *reader);

#endif
