/* The stacks are grouped by the function of their present frame; the groups decide which stacks step (own_wrappers.h).
 */
#include "tools/cli/own_wrappers.h"
#include "tools/cli/sort.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS_PER_LINE = 4 };

struct entry {
    struct gm_own_stack *stack;
    uint64_t function, line, caller;
};

struct group {
    size_t from, until; /* entries */
    size_t lines, callers;
};

static bool is_most(size_t part, size_t all) { return part && part * 4 >= all * 3; }

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_function(const void *x, const void *y) {
    const struct entry *a = x, *b = y;
    int order = compare(a->function, b->function);
    return order ? order : compare(a->line, b->line);
}

static int by_number(const void *x, const void *y) { return compare(*(const uint64_t *)x, *(const uint64_t *)y); }

static size_t count_different(uint64_t *numbers, size_t count) {
    size_t different = 0;
    gm_sort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count; i++)
        different += !i || numbers[i] != numbers[i - 1];
    return different;
}

/* Each entry is the present frame of a stack. The last stacks of a step may have no caller. */
static void list(struct entry *entries, struct gm_own_stack *stacks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct gm_own_stack *s = &stacks[i];
        const struct gm_own_frame *frame = &s->frames[s->at];
        bool ends = s->at + 1 >= s->count;
        entries[i] = (struct entry){s, frame->function, frame->line, ends ? 0 : s->frames[s->at + 1].line};
    }
    gm_sort(entries, count, sizeof *entries, by_function);
}

static struct group next_group(const struct entry *entries, size_t from, size_t count, uint64_t *scratch) {
    struct group g = {.from = from, .until = from};
    for (; g.until < count && entries[g.until].function == entries[from].function; g.until++) {
        g.lines += g.until == from || entries[g.until].line != entries[g.until - 1].line;
        scratch[g.until - from] = entries[g.until].caller;
    }
    g.callers = count_different(scratch, g.until - from);
    return g;
}

static bool fans_out(const struct group *g) { return g->callers >= CALLERS_PER_LINE * g->lines; }

/* Moves the stacks of a group to the callers of its function. False: it is full, or the stacks end there. */
static bool step(struct gm_own_wrappers *found, const struct entry *entries, const struct group *g) {
    const struct gm_own_frame *first = &entries[g->from].stack->frames[entries[g->from].stack->at];
    size_t ended = 0;
    if (found->count == GM_OWN_WRAPPERS)
        return false;
    found->functions[found->count] = first->function;
    snprintf(found->names[found->count++], sizeof found->names[0], "%s", first->name);
    for (size_t i = g->from; i < g->until; i++) {
        struct gm_own_stack *s = entries[i].stack;
        while (s->at + 1 < s->count && s->frames[s->at].function == first->function)
            s->at++;
        ended += s->frames[s->at].function == first->function;
    }
    return !is_most(ended, g->until - g->from);
}

/* Steps past the functions that request for most stacks. False: there are none. */
static bool step_all(struct gm_own_wrappers *found, struct entry *entries, size_t count, uint64_t *scratch) {
    size_t fanned = 0;
    bool stepped = false, done = true;
    struct group g;
    for (size_t i = 0; i < count; i = g.until) {
        g = next_group(entries, i, count, scratch);
        if (entries[i].function && is_most(g.until - i, count))
            return step(found, entries, &g);
        fanned += entries[i].function && fans_out(&g) ? g.until - i : 0;
    }
    if (!is_most(fanned, count))
        return false;
    for (size_t i = 0; i < count; i = g.until) {
        g = next_group(entries, i, count, scratch);
        if (!entries[i].function || !fans_out(&g))
            continue;
        done = step(found, entries, &g) && done;
        stepped = true;
    }
    return stepped && done;
}

static size_t different_frames(const struct gm_own_stack *stacks, size_t count, uint64_t *scratch) {
    for (size_t i = 0; i < count; i++)
        scratch[i] = stacks[i].frames[stacks[i].at].line;
    return count_different(scratch, count);
}

static size_t count_stepped(const struct gm_own_stack *stacks, size_t count) {
    size_t stepped = 0;
    for (size_t i = 0; i < count; i++)
        stepped += stacks[i].at > 0;
    return stepped;
}

void gm_own_wrappers_find(struct gm_own_wrappers *found, struct gm_own_stack *stacks, size_t count) {
    struct entry *entries = malloc((count + 1) * sizeof *entries);
    uint64_t *scratch = malloc((count + 1) * sizeof *scratch);
    unsigned accepted = 0;
    *found = (struct gm_own_wrappers){.stacks = count};
    if (!entries || !scratch || !count)
        goto done;
    size_t different = different_frames(stacks, count, scratch);
    for (list(entries, stacks, count); step_all(found, entries, count, scratch); list(entries, stacks, count)) {
        size_t now = different_frames(stacks, count, scratch);
        if (now < 2 * different)
            continue;
        different = now;
        accepted = found->count;
        found->passing = count_stepped(stacks, count);
    }
done:
    found->count = accepted;
    free(entries);
    free(scratch);
}
