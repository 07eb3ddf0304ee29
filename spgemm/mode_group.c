/* Mode auto on several devices: the calls of spgemm.h for groups, as a program makes them. A and B are on the first
 * device before the clock starts; cutting and copying them to the others is inside the clock.
 *
 * Of several processes, each has some rows of A on a device of its own. The first one has B, which the others get by
 * NCCL. Without NCCL, or when processes share a device, each process has B. */
#include "spgemm/client.h"
#include "spgemm/processes.h"

#include <stdlib.h>
#include <string.h>

struct state {
    const struct spg_job *job;
    struct spg_operand first, second; /* `second` is empty when B is A, or when another process gives B */
    struct gpumem_spgemm_group *group;
    int device;  /* the first one of this process */
    bool joined; /* several processes are one group */
    bool has_product;
};

/* NCCL's library for the driver: the file that the variable SPGEMM_NCCL names; "off": none. */
static const char *nccl(void) {
    const char *chosen = getenv("SPGEMM_NCCL");
    return chosen && !strcmp(chosen, "off") ? "" : chosen;
}

/* Chooses a device for this process. The processes are one group if each has a device of its own, and NCCL is there. */
static bool choose_device(struct state *s, int *device, char id[GPUMEM_SPGEMM_ID_BYTES], struct spg_error *error) {
    const struct spg_processes *p = s->job->processes;
    int present = 0;
    if (!spg_devices(&present, error))
        return false;
    double apart = p->local_count > present || (p->rank == 0 && gpumem_spgemm_group_id(nccl(), id));
    p->largest(&apart, 1);
    p->share(id, GPUMEM_SPGEMM_ID_BYTES);
    s->joined = p->count > 1 && apart == 0;
    *device = p->local_rank % present;
    return true;
}

static bool make_group(struct state *s, struct spg_error *error) {
    const struct spg_job *job = s->job;
    char id[GPUMEM_SPGEMM_ID_BYTES] = "";
    struct gpumem_spgemm_group_options o = {.struct_size = sizeof o,
                                            .devices = job->devices,
                                            .count = (size_t)job->devices_count,
                                            .limit = job->limit,
                                            .nccl = nccl(),
                                            .precision = job->precision == SPG_FLOAT ? GPUMEM_SPGEMM_FLOAT
                                                                                     : GPUMEM_SPGEMM_DOUBLE};
    if (job->processes) {
        if (!choose_device(s, &s->device, id, error))
            return false;
        o.devices = &s->device;
        o.count = 1;
    } else if (job->devices_count) {
        s->device = job->devices[0];
    } else {
        o.devices = NULL;
    }
    if (s->joined) {
        o.id = id;
        o.first = (size_t)job->processes->rank;
        o.total = (size_t)job->processes->count;
    }
    return spg_call_worked(gpumem_spgemm_group_create(&o, &s->group), error) &&
           spg_cuda(cudaSetDevice(s->device), "the device", error);
}

static void close_state(void *pointer) {
    struct state *s = pointer;
    if (!s)
        return;
    gpumem_spgemm_group_destroy(s->group);
    spg_operand_drop(&s->first);
    spg_operand_drop(&s->second);
    free(s);
}

static bool gives_b(const struct state *s) { return !s->joined || s->job->processes->rank == 0; }

static void *open_state(const struct spg_job *job, struct spg_error *error) {
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of host memory");
        return NULL;
    }
    s->job = job;
    if (make_group(s, error) && spg_operand_make(&s->first, job->a, job->precision, error) &&
        (job->b == job->a || !gives_b(s) || spg_operand_make(&s->second, job->b, job->precision, error)))
        return s;
    close_state(s);
    return NULL;
}

/* The operand may be empty: another process has the arrays, and the library asks for the size. */
static struct gpumem_spgemm_csr csr_of(const struct spg_operand *o, const struct spg_csr *m) {
    struct gpumem_spgemm_csr argument = spg_argument_of(o);
    argument.rows = m->rows;
    argument.columns = m->columns;
    argument.stored = spg_csr_stored(m);
    return argument;
}

static bool part_of(const struct state *s, int index, struct gpumem_spgemm_part *part, struct spg_error *error) {
    *part = (struct gpumem_spgemm_part){.struct_size = sizeof *part};
    return spg_call_worked(gpumem_spgemm_group_part(s->group, index, part), error);
}

static bool multiply(struct state *s, struct spg_run *run, struct spg_error *error) {
    const struct spg_job *job = s->job;
    struct gpumem_spgemm_csr a = csr_of(&s->first, job->a),
                             b = csr_of(job->b == job->a ? &s->first : &s->second, job->b);
    uint64_t same = s->has_product && !strcmp(job->argument, "same") ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0;
    s->has_product = false;
    if (!spg_cuda(cudaDeviceSynchronize(), "the device", error))
        return false;
    double start = spg_now_ms();
    if (!spg_call_worked(
            gpumem_spgemm_group_distribute(s->group, &a, &b, same | (s->joined ? 0 : GPUMEM_SPGEMM_B_IN_PLACE), NULL),
            error))
        return false;
    run->distribute_ms = spg_now_ms() - start;
    s->has_product = spg_call_worked(gpumem_spgemm_group_multiply(s->group, same), error);
    run->ms = spg_now_ms() - start;
    return s->has_product;
}

static bool run(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct state *s = pointer;
    struct gpumem_spgemm_part part;
    bool cold = !*s->job->argument || !strcmp(s->job->argument, "cold");
    *run = (struct spg_run){0};
    if (cold) {
        s->has_product = false;
        if (!spg_call_worked(gpumem_spgemm_group_trim(s->group), error))
            return false;
    }
    if (!multiply(s, run, error))
        return false;
    for (int i = 0; i < gpumem_spgemm_group_count(s->group); i++) {
        if (!part_of(s, i, &part, error))
            return false;
        run->stored += part.stored;
        run->peak = part.peak > run->peak ? part.peak : run->peak;
    }
    run->entries = run->stored;
    return true;
}

/* Copies one part of C into its rows of the whole. */
static bool fetch_part(const struct state *s, const struct gpumem_spgemm_part *part, int64_t at, struct spg_csr *c,
                       struct spg_error *error) {
    struct spg_csr rows;
    struct spg_result result =
        spg_result_at(part->rows, part->columns, part->stored, part->offsets, part->indices, part->values);
    /* From another device the driver copies no more than one piece of mapped memory at once. */
    if (!spg_cuda(cudaSetDevice((int)part->device), "the device", error))
        return false;
    bool done = spg_result_fetch(&result, s->job->precision, &rows, error);
    if (!spg_cuda(cudaSetDevice(s->device), "the device", error) && done) {
        spg_csr_free(&rows);
        done = false;
    }
    if (!done)
        return false;
    for (int64_t i = 0; i < part->rows; i++)
        c->offsets[part->first_row + i + 1] = (int32_t)(at + rows.offsets[i + 1]);
    memcpy(c->indices + at, rows.indices, (size_t)part->stored * sizeof *rows.indices);
    memcpy(c->values + at, rows.values, (size_t)part->stored * sizeof *rows.values);
    spg_csr_free(&rows);
    return true;
}

static bool fetch(void *pointer, struct spg_csr *c, struct spg_error *error) {
    struct state *s = pointer;
    struct gpumem_spgemm_part part;
    int count = gpumem_spgemm_group_count(s->group);
    int64_t stored = 0, at = 0;
    for (int i = 0; i < count; i++) {
        if (!part_of(s, i, &part, error))
            return false;
        stored += part.stored;
    }
    if (stored > INT32_MAX)
        return spg_fail_as(error, SPG_NOT_SUPPORTED, "C has %lld entries, and offsets on the host end at %d",
                           (long long)stored, INT32_MAX);
    bool done = spg_csr_make(c, s->job->a->rows, s->job->b->columns, stored, error);
    for (int i = 0; done && i < count; i++) {
        done = part_of(s, i, &part, error) && fetch_part(s, &part, at, c, error);
        at += part.stored;
    }
    if (!done)
        spg_csr_free(c);
    return done;
}

static int shares(void *pointer, struct spg_share *shares, int most) {
    static const char *const kinds[] = {
        [GPUMEM_SPGEMM_B_OWN] = "own",
        [GPUMEM_SPGEMM_B_COPIED] = "copied",
        [GPUMEM_SPGEMM_B_BROADCAST] = "broadcast",
        [GPUMEM_SPGEMM_B_READ] = "read",
    };
    struct state *s = pointer;
    struct gpumem_spgemm_part part;
    struct spg_error error;
    int count = gpumem_spgemm_group_count(s->group);
    for (int i = 0; i < count && i < most; i++) {
        if (!part_of(s, i, &part, &error))
            return 0;
        shares[i] = (struct spg_share){.device = (int)part.device,
                                       .rows = part.rows,
                                       .products = part.products,
                                       .stored = part.stored,
                                       .peak = part.peak};
        strcpy(shares[i].b, kinds[part.b]);
    }
    return count < most ? count : most;
}

const struct spg_mode_ops spg_mode_group = {open_state, run, fetch, close_state, NULL, shares};
