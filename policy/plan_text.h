/* Reader of plans. A plan says which memory serves each object of a program, decided from an earlier run
 * (hybrid-allocation-he, III.C).
 *
 * A plan is text with one entry a line:
 *
 *   gpumem-plan 1                  the first line
 *   # ...                          a comment, to the end of the line
 *   site NUMBER FRAME[<FRAME]...   a call site; sites are numbered 1, 2, 3 ...
 *   ID DECISION [SIZE [SITE]]      an object; ids rise; DECISION is native, cache, async, managed, managed-pool, guard;
 *                                  SIZE is in bytes or -; SITE is a number, a call site as text, or -
 *
 * The reader also accepts the paper's plain list: 0 (managed) or 1 (async) for each object in the order of the ids,
 * with or without blanks, commas and line ends between them. */
#ifndef GM_PLAN_TEXT_H
#define GM_PLAN_TEXT_H

#include "policy/policy.h"

#define GM_PLAN_ENTRIES_MAX 100000000u
#define GM_PLAN_VERSION     "gpumem-plan 1"

struct gm_plan_reader {
    const char *at, *end;
    uint32_t line; /* line of the latest item, from 1 */
    bool bare, begun;
    uint32_t id;    /* the latest id */
    uint32_t sites; /* sites read so far */
    enum gm_kind managed;
    const char *error; /* with GM_PLAN_WRONG: what is wrong and what is accepted */
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

/* `text` belongs to the caller and must outlive the reader. */
void gm_plan_open(struct gm_plan_reader *reader, const char *text, size_t bytes, enum gm_kind managed);

/* Returns the next item. Not to be called again after GM_PLAN_END or GM_PLAN_WRONG. */
struct gm_plan_item gm_plan_next(struct gm_plan_reader *reader);

#endif
