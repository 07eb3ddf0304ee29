/* The cage model of DNA electrophoresis, from which the cage matrices come.
 *
 * Model: a polymer of L monomers is a walk of L - 1 steps on an infinite tree. Every vertex of the tree has three '+'
 * neighbours, along the electric field, and three '-' neighbours, against it. A step back over an edge has the opposite
 * sign. A state is a walk up to automorphisms of the tree that keep signs, and up to the direction of reading. A move
 * puts one monomer elsewhere: an end monomer to any neighbour of the next monomer; an inner monomer, if both neighbours
 * are on one vertex, to any neighbour of that vertex. Row i of the matrix has the states that one move from state i
 * leads to, and the diagonal.
 *
 * Method: a walk is written as a code of 4 bits for each step. Vertices are numbered in the order of the first visit; a
 * step is the number of the visited vertex it goes to, or PLUS or MINUS for a new vertex. Two walks are equal up to
 * automorphisms exactly when their codes are equal. A state is the smaller code of the walk's two directions. States
 * are enumerated in the order of their codes, and found again by a hash table.
 *
 * Number of states: 5, 9, 37, 93, 340, ... for L = 3, 4, 5, 6, 7. Memory: 16 to 32 bytes for each state.
 * Source: van Heukelum, Barkema, Bisseling: DNA electrophoresis studied with the cage model, J. Comput. Phys. 180,
 * 2002.
 */
#include "spgemm/generate.h"
#include "spgemm/random.h"

#include <stdlib.h>
#include <string.h>

#define MONOMERS_MAX 16
#define PLUS         14
#define MINUS        15
#define SAME_SIGN    3 /* neighbours of a vertex with one sign */
/* Every monomer moves to at most 6 vertices; the diagonal is one more entry. */
#define MOVES_MAX (6 * MONOMERS_MAX + 1)

/* The vertices that a walk visits, with room for one more that a monomer moves to. */
struct walk {
    int monomers, vertices;
    int8_t at[MONOMERS_MAX];         /* vertex of each monomer */
    int8_t parent[MONOMERS_MAX + 1]; /* of each vertex; that of vertex 0 is -1 */
    int8_t sign[MONOMERS_MAX + 1];   /* of the step from the parent: +1 or -1 */
};

struct states {
    int monomers;
    int64_t count, capacity;
    uint64_t *codes; /* ascending */
    int32_t *table;  /* open addressing: state by code; -1 = free */
    uint64_t mask;
};

/* Sign of the step between two vertices; 0 if they are not neighbours. */
static int step_sign(const struct walk *w, int from, int to) {
    if (w->parent[to] == from)
        return w->sign[to];
    return w->parent[from] == to ? -w->sign[from] : 0;
}

static uint64_t code_in_direction(const struct walk *w, int first, int direction) {
    int8_t number[MONOMERS_MAX + 1];
    memset(number, -1, sizeof number);
    int last = w->at[first], next = 0;
    number[last] = (int8_t)next++;
    uint64_t code = 0;
    for (int i = 1; i < w->monomers; i++) {
        int to = w->at[first + direction * i];
        if (number[to] >= 0) {
            code = code << 4 | (uint64_t)number[to];
        } else {
            code = code << 4 | (uint64_t)(step_sign(w, last, to) > 0 ? PLUS : MINUS);
            number[to] = (int8_t)next++;
        }
        last = to;
    }
    return code;
}

static uint64_t code_of(const struct walk *w) {
    uint64_t forth = code_in_direction(w, 0, 1), back = code_in_direction(w, w->monomers - 1, -1);
    return forth < back ? forth : back;
}

/* Number of neighbours of a vertex, with this sign, that the walk has. */
static int known_neighbours(const struct walk *w, int vertex, int sign) {
    int count = 0;
    for (int v = 0; v < w->vertices; v++)
        count += v != vertex && step_sign(w, vertex, v) == sign;
    return count;
}

static void add_vertex(struct walk *w, int parent, int sign) {
    w->parent[w->vertices] = (int8_t)parent;
    w->sign[w->vertices++] = (int8_t)sign;
}

static void decode(struct walk *w, uint64_t code, int monomers) {
    *w = (struct walk){.monomers = monomers, .vertices = 1, .parent = {-1}};
    for (int i = 1; i < monomers; i++) {
        int step = (int)(code >> 4 * (monomers - 1 - i) & 15), from = w->at[i - 1];
        if (step < PLUS) {
            w->at[i] = (int8_t)step;
        } else {
            w->at[i] = (int8_t)w->vertices;
            add_vertex(w, from, step == PLUS ? 1 : -1);
        }
    }
}

/* ---- all states */

static bool keep_state(struct states *s, const struct walk *w) {
    uint64_t code = code_in_direction(w, 0, 1);
    if (code > code_in_direction(w, w->monomers - 1, -1))
        return true;
    if (s->count == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 1024;
        uint64_t *codes = realloc(s->codes, (size_t)capacity * sizeof *codes);
        if (!codes)
            return false;
        s->codes = codes;
        s->capacity = capacity;
    }
    s->codes[s->count++] = code;
    return true;
}

/* Enumerates all positions of the monomers from number `next` on, in the order of the codes. */
static bool extend(struct states *s, struct walk *w, int next) {
    if (next == w->monomers)
        return keep_state(s, w);
    int from = w->at[next - 1];
    for (int v = 0; v < w->vertices; v++) {
        if (v == from || !step_sign(w, from, v))
            continue;
        w->at[next] = (int8_t)v;
        if (!extend(s, w, next + 1))
            return false;
    }
    for (int sign = 1; sign >= -1; sign -= 2) {
        if (known_neighbours(w, from, sign) == SAME_SIGN)
            continue;
        w->at[next] = (int8_t)w->vertices;
        add_vertex(w, from, sign);
        bool done = extend(s, w, next + 1);
        w->vertices--;
        if (!done)
            return false;
    }
    return true;
}

static uint64_t slot_of(const struct states *s, uint64_t code) { return spg_random_at(code, 0) & s->mask; }

static bool make_table(struct states *s) {
    uint64_t size = 1;
    while (size < 2 * (uint64_t)s->count)
        size *= 2;
    s->mask = size - 1;
    s->table = malloc(size * sizeof *s->table);
    if (!s->table)
        return false;
    memset(s->table, -1, size * sizeof *s->table);
    for (int64_t i = 0; i < s->count; i++) {
        uint64_t slot = slot_of(s, s->codes[i]);
        while (s->table[slot] >= 0)
            slot = (slot + 1) & s->mask;
        s->table[slot] = (int32_t)i;
    }
    return true;
}

/* Every move leads to a state, so the code is always found. */
static int32_t find_state(const struct states *s, uint64_t code) {
    uint64_t slot = slot_of(s, code);
    while (s->codes[s->table[slot]] != code)
        slot = (slot + 1) & s->mask;
    return s->table[slot];
}

/* ---- moves */

/* Inserts `state` into the ascending columns, unless it is there. */
static int32_t insert(int32_t *columns, int32_t count, int32_t state) {
    int32_t at = count;
    while (at > 0 && columns[at - 1] > state)
        at--;
    if (at > 0 && columns[at - 1] == state)
        return count;
    memmove(columns + at + 1, columns + at, (size_t)(count - at) * sizeof *columns);
    columns[at] = state;
    return count + 1;
}

/* Moves the monomer to each neighbour of `around`. Of the neighbours that no monomer has visited, one of each sign is
 * enough: the others differ by an automorphism. */
static int32_t move_monomer(const struct states *s, struct walk *w, int monomer, int around, int32_t *columns,
                            int32_t count) {
    int8_t was = w->at[monomer];
    for (int v = 0; v < w->vertices; v++) {
        if (v == around || v == was || !step_sign(w, around, v))
            continue;
        w->at[monomer] = (int8_t)v;
        count = insert(columns, count, find_state(s, code_of(w)));
    }
    for (int sign = 1; sign >= -1; sign -= 2) {
        if (known_neighbours(w, around, sign) == SAME_SIGN)
            continue;
        w->at[monomer] = (int8_t)w->vertices;
        add_vertex(w, around, sign);
        count = insert(columns, count, find_state(s, code_of(w)));
        w->vertices--;
    }
    w->at[monomer] = was;
    return count;
}

static int32_t cage_row(const void *context, int32_t row, int32_t *columns) {
    const struct states *s = context;
    int32_t count = 1, last = s->monomers - 1;
    struct walk w;
    decode(&w, s->codes[row], s->monomers);
    columns[0] = row;
    count = move_monomer(s, &w, 0, w.at[1], columns, count);
    count = move_monomer(s, &w, last, w.at[last - 1], columns, count);
    for (int i = 1; i < last; i++)
        if (w.at[i - 1] == w.at[i + 1])
            count = move_monomer(s, &w, i, w.at[i - 1], columns, count);
    return count;
}

bool spg_generate_cage(struct spg_csr *m, int64_t monomers, struct spg_error *error) {
    struct states s = {.monomers = (int)monomers};
    struct walk w = {.monomers = (int)monomers, .vertices = 1, .parent = {-1}};
    *m = (struct spg_csr){0};
    bool made = extend(&s, &w, 1) && make_table(&s);
    if (made)
        made = spg_csr_from_rows(m, (int32_t)s.count, (int32_t)s.count, MOVES_MAX, cage_row, &s, error);
    else
        spg_fail(error, "out of memory after %lld states", (long long)s.count);
    free(s.codes);
    free(s.table);
    return made;
}
