/* Products of matrices in host memory that may exceed the device, in slabs of rows.
 *
 * Two workers take slabs by turns. A worker is a multiplier with a stream and memory for operands. In its stream, rows
 * of A are copied to the device and multiplied, and the rows of C are copied back. So copies in both directions and
 * kernels overlap between the workers. Nothing else may wait for them: the sizes that the host reads pass by the copies
 * (spg_read()), and blocks have room for larger slabs, because freeing memory waits for the device.
 *
 * B lies on the device if half of the memory holds it. Otherwise each slab gets the rows of B that its rows of A name
 * (kernels_host.cu). Then the offsets of B lie on the device, and the bus carries a row of B once for each slab that
 * names it. Rows and entries keep their order, so the sums have the bits of an ordinary product.
 *
 * The entries of a slab of C are counted first, so that memory for them is exact. The size of a slab follows from the
 * memory that the slab before it needed. A slab that does not fit is halved.
 *
 * Memory, for a limit T: B or its offsets, and (T - that) / 2 for each worker: operands, C and helpers of its slab. */
#include "spgemm/host.h"
#include "spgemm/gpu_read.h"
#include "spgemm/kernels.h"
#include "spgemm/multiplier.h"

#define ENTRIES_MAX ((int64_t)INT32_MAX - SPG_STEP_MAX)

struct spg_host_settings spg_host_settings = {SIZE_MAX, (size_t)256 << 20, SIZE_MAX, 16};

struct worker {
    struct gpumem_spgemm *multiplier;
    cudaStream_t stream;
    struct spg_block a, b, c; /* rows of A; entries of named rows of B; entries of rows of C */
    struct spg_block named;   /* offsets of named rows of B, and what they are made from */
    struct spg_block wide;    /* 64-bit offsets on their way */
};

struct host {
    struct gpumem_spgemm_csr a, b;
    struct gpumem_spgemm_host_output output;
    struct worker worker[2];
    struct spg_block shared;      /* all of B, or its 64-bit offsets */
    bool whole;                   /* all of B */
    struct spg_operand on_device; /* B, if it is whole */
    size_t value_size;
    size_t share;  /* bytes of each worker */
    double filled; /* part of the share that a slab is meant to use */
    double work;   /* of the next slab: entries and rows of A */
    struct gpumem_spgemm_host_result found;
};

static struct spg_memory *memory_of(const struct worker *w) { return &w->multiplier->product.method.gpu.memory; }

static size_t bytes_of(const struct host *h, int64_t entries) {
    return spg_aligned((size_t)entries * sizeof(int32_t)) + spg_aligned((size_t)entries * h->value_size);
}

static int64_t offset_at(const struct gpumem_spgemm_csr *m, int64_t row) {
    return m->wide_offsets ? m->wide_offsets[row] : m->offsets[row];
}

/* ---- copies to the device */

/* Makes a block of at least `size` bytes, which lose their content. */
static bool ensure(struct spg_block *block, struct worker *w, size_t size, const char *what, struct spg_error *error) {
    if (block->size >= size)
        return true;
    spg_block_drop(block, memory_of(w));
    return spg_block_make(block, memory_of(w), size, what, error);
}

static bool send(struct host *h, struct worker *w, void *to, const void *from, size_t size, const char *what,
                 struct spg_error *error) {
    h->found.sent += (int64_t)size;
    return spg_send(w->stream, to, from, size, what, error);
}

/* Offsets of rows `first` to first + rows; if they had 64 bits, the first becomes 0. */
static bool send_offsets(struct host *h, struct worker *w, const struct gpumem_spgemm_csr *m, int64_t first,
                         int64_t rows, int32_t *to, const char *what, struct spg_error *error) {
    size_t count = (size_t)rows + 1;
    if (!m->wide_offsets)
        return send(h, w, to, m->offsets + first, count * sizeof *m->offsets, what, error);
    return ensure(&w->wide, w, count * sizeof *m->wide_offsets, "64-bit offsets", error) &&
           send(h, w, w->wide.at, m->wide_offsets + first, count * sizeof *m->wide_offsets, what, error) &&
           spg_cuda(spg_launch_narrow(w->wide.at, m->wide_offsets[first], (int64_t)count, to, w->stream), what, error);
}

/* Rows of a matrix as one on the device, in `block`. Its offsets may begin with another number than 0: then the other
 * pointers are those that the whole matrix would have. */
static bool send_rows(struct host *h, struct worker *w, const struct gpumem_spgemm_csr *m, int64_t first, int64_t rows,
                      struct spg_block *block, const char *what, struct spg_operand *sent, struct spg_error *error) {
    int64_t base = offset_at(m, first), stored = offset_at(m, first + rows) - base;
    size_t offsets = spg_aligned(((size_t)rows + 1) * sizeof(int32_t)), skipped = m->wide_offsets ? 0 : (size_t)base;
    if (stored > ENTRIES_MAX)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED,
                           "rows from %lld on have %lld entries, and 32-bit offsets end at %lld", (long long)first,
                           (long long)stored, (long long)ENTRIES_MAX);
    if (!ensure(block, w, offsets + bytes_of(h, stored), what, error))
        return false;
    char *indices = (char *)block->at + offsets, *values = indices + spg_aligned((size_t)stored * sizeof(int32_t));
    *sent = (struct spg_operand){.rows = (int32_t)rows,
                                 .columns = (int32_t)m->columns,
                                 .stored = stored,
                                 .first = (int32_t)skipped,
                                 .offsets = block->at,
                                 .indices = (int32_t *)((uintptr_t)indices - skipped * sizeof(int32_t)),
                                 .values = (void *)((uintptr_t)values - skipped * h->value_size)};
    return send_offsets(h, w, m, first, rows, block->at, what, error) &&
           send(h, w, indices, m->indices + base, (size_t)stored * sizeof(int32_t), what, error) &&
           send(h, w, values, (const char *)m->values + (size_t)base * h->value_size, (size_t)stored * h->value_size,
                what, error);
}

/* ---- B */

/* B's array as kernels see it. */
static bool see(const void *array, const void **at, struct spg_error *error) {
    struct cudaPointerAttributes about = {0};
    if (!spg_cuda(cudaPointerGetAttributes(&about, array), "B", error))
        return false;
    *at = about.devicePointer;
    return *at || spg_fail_as(error, GPUMEM_INVALID_VALUE,
                              "B exceeds half of the device memory, and its arrays are not in pinned memory");
}

/* All of B, or its offsets, by the first worker. */
static bool place_b(struct host *h, size_t total, struct spg_error *error) {
    struct worker *w = &h->worker[0];
    const struct gpumem_spgemm_csr *b = &h->b;
    const void *indices = NULL, *values = NULL;
    size_t count = (size_t)b->rows + 1, whole = spg_aligned(count * sizeof(int32_t)) + bytes_of(h, b->stored);
    h->whole = b->stored <= ENTRIES_MAX && whole <= total / 2 && whole <= spg_host_settings.whole;
    if (!h->whole && (!see(b->indices, &indices, error) || (h->value_size && !see(b->values, &values, error))))
        return false;
    if (!spg_block_make(&h->shared, memory_of(w), h->whole ? whole : count * sizeof(int64_t), "B", error))
        return false;
    if (h->whole)
        return send_rows(h, w, b, 0, b->rows, &h->shared, "B", &h->on_device, error);
    h->b.indices = indices;
    h->b.values = values;
    if (b->wide_offsets)
        return send(h, w, h->shared.at, b->wide_offsets, count * sizeof(int64_t), "offsets of B", error);
    return ensure(&w->wide, w, count * sizeof(int32_t), "offsets of B", error) &&
           send(h, w, w->wide.at, b->offsets, count * sizeof(int32_t), "offsets of B", error) &&
           spg_cuda(spg_launch_widen(w->wide.at, 0, (int64_t)count, h->shared.at, w->stream), "offsets of B", error);
}

/* The rows of B that the columns name. */
static bool fetch_b(struct host *h, struct worker *w, const int32_t *columns, int64_t entries, struct spg_operand *b,
                    struct spg_error *error) {
    int32_t rows = (int32_t)h->b.rows;
    size_t count = (size_t)rows + 1, starts = spg_aligned(count * sizeof(int64_t)),
           lengths = spg_aligned(count * sizeof(int32_t)), scan = 0;
    if (!spg_cuda(spg_scan(NULL, &scan, NULL, NULL, rows, w->stream), "scan", error) ||
        !ensure(&w->named, w, starts + lengths + scan, "named rows of B", error))
        return false;
    int64_t stored, *start = w->named.at;
    int32_t *length = (int32_t *)((char *)w->named.at + starts);
    if (!spg_clear(w->stream, length, count * sizeof *length, error) ||
        !spg_cuda(spg_launch_name_rows(columns, entries, h->shared.at, rows, length, w->stream), "named rows of B",
                  error) ||
        !spg_cuda(spg_scan((char *)length + lengths, &scan, length, start, rows, w->stream), "scan", error) ||
        !spg_read(memory_of(w), &stored, start + rows, sizeof stored, "named rows of B", error))
        return false;
    if (stored > ENTRIES_MAX)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED, "rows of B have %lld entries, and 32-bit offsets end at %lld",
                           (long long)stored, (long long)ENTRIES_MAX);
    /* The offsets take the place of the lengths. */
    if (!ensure(&w->b, w, bytes_of(h, stored), "rows of B", error) ||
        !spg_cuda(spg_launch_narrow(start, 0, (int64_t)count, length, w->stream), "named rows of B", error))
        return false;
    *b = (struct spg_operand){.rows = rows,
                              .columns = (int32_t)h->b.columns,
                              .stored = stored,
                              .offsets = length,
                              .indices = w->b.at,
                              .values = (char *)w->b.at + spg_aligned((size_t)stored * sizeof(int32_t))};
    h->found.sent += stored * (int64_t)(sizeof(int32_t) + h->value_size);
    return spg_cuda(spg_launch_fetch_rows(h->value_size, b, h->shared.at, h->b.indices, h->b.values, w->stream),
                    "rows of B", error);
}

/* ---- C */

static bool receive(struct host *h, struct worker *w, void *to, const void *from, size_t size,
                    struct spg_error *error) {
    h->found.received += (int64_t)size;
    return !size || spg_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, w->stream), "rows of C", error);
}

static bool receive_rows(struct host *h, struct worker *w, int64_t first, const int32_t *indices, const void *values,
                         struct spg_error *error) {
    const struct spg_result *c = &w->multiplier->product.method.gpu.c;
    struct gpumem_spgemm_rows rows = {.struct_size = sizeof rows,
                                      .first_row = first,
                                      .rows = c->rows,
                                      .before = h->found.stored,
                                      .stored = c->stored};
    size_t offsets = (size_t)c->rows * sizeof(int64_t), stored = (size_t)c->stored;
    if (!ensure(&w->wide, w, offsets, "64-bit offsets", error) ||
        !spg_cuda(spg_launch_widen((int32_t *)c->offsets.at + 1, h->found.stored, c->rows, w->wide.at, w->stream),
                  "64-bit offsets", error))
        return false;
    h->found.slabs++;
    enum gpumem_status status = h->output.place(h->output.context, &rows);
    if (status)
        return spg_fail_as(error, (int)status, "the caller has no memory for rows %lld to %lld of C, with %lld entries",
                           (long long)first, (long long)(first + c->rows - 1), (long long)c->stored);
    if (stored && (!rows.indices || (h->value_size && !rows.values)))
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "an array for rows %lld to %lld of C is NULL", (long long)first,
                           (long long)(first + c->rows - 1));
    h->found.stored += c->stored;
    h->found.products += w->multiplier->product.work.totals.bound;
    return receive(h, w, h->output.offsets + first + 1, w->wide.at, offsets, error) &&
           receive(h, w, rows.indices, indices, stored * sizeof(int32_t), error) &&
           receive(h, w, rows.values, values, stored * h->value_size, error);
}

/* Memory for the entries of a slab of C, once they are counted. */
struct slab {
    const struct host *host;
    struct worker *worker;
};

static bool provide(void *context, int64_t stored, int32_t **indices, void **values, struct spg_error *error) {
    const struct slab *slab = context;
    struct spg_block *c = &slab->worker->c;
    if (!ensure(c, slab->worker, bytes_of(slab->host, stored), "rows of C", error))
        return false;
    *indices = c->at;
    *values = slab->host->value_size ? (char *)c->at + spg_aligned((size_t)stored * sizeof(int32_t)) : NULL;
    return true;
}

/* ---- slabs */

/* What a slab of rows costs: its entries of A, and its rows. */
static double work_of(const struct host *h, int64_t first, int64_t rows) {
    return (double)(offset_at(&h->a, first + rows) - offset_at(&h->a, first) + rows);
}

/* The most rows from `first` on whose work is that of the next slab; at least one. */
static int64_t next_rows(const struct host *h, int64_t first) {
    int64_t low = 1, high = h->a.rows - first;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (work_of(h, first, middle) <= h->work)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Bytes that a slab is meant to use. */
static double wanted(const struct host *h) {
    double most = (double)(h->whole ? spg_host_settings.slab : spg_host_settings.fetching_slab),
           room = h->filled * ((double)h->share - (double)h->worker[0].named.size);
    return room < most ? room : most;
}

/* Bytes that a slab uses for so many entries, and for helpers of rows. */
static double used(const struct host *h, int64_t entries, int64_t rows) {
    return (double)(4 + h->value_size) * (double)entries + 64 * (double)rows;
}

static bool multiply_rows(struct host *h, struct worker *w, int64_t first, int64_t rows, struct spg_error *error) {
    struct spg_product *p = &w->multiplier->product;
    struct spg_operand a, b = h->on_device;
    struct slab slab = {h, w};
    struct spg_place place = {&slab, provide};
    int32_t *indices;
    void *values;
    if (!send_rows(h, w, &h->a, first, rows, &w->a, "rows of A", &a, error) ||
        (!h->whole && !fetch_b(h, w, a.indices + (h->a.wide_offsets ? 0 : h->a.offsets[first]), a.stored, &b, error)))
        return false;
    spg_multiplier_take(w->multiplier, &a, &b);
    if (!spg_product_compute(p, &place, &indices, &values, error) || !receive_rows(h, w, first, indices, values, error))
        return false;
    int64_t entries = a.stored + p->method.gpu.c.stored + (h->whole ? 0 : b.stored);
    double next = work_of(h, first, rows) / used(h, entries, rows) * wanted(h);
    h->work = next < 4 * h->work ? next : 4 * h->work;
    return true;
}

/* Frees all that the worker keeps. */
static void empty(struct worker *w) {
    struct spg_block *blocks[] = {&w->a, &w->b, &w->c, &w->named, &w->wide};
    spg_product_forget(&w->multiplier->product);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        spg_block_drop(blocks[i], memory_of(w));
    spg_cache_empty(memory_of(w));
}

static bool wait_for(const struct worker *w, struct spg_error *error) {
    return spg_cuda(cudaStreamSynchronize(w->stream), "a slab", error);
}

static bool multiply_all(struct host *h, struct spg_error *error) {
    int turn = 0;
    h->work = wanted(h) / used(h, 1 + spg_host_settings.entries, 1);
    for (int64_t row = 0; row < h->a.rows;) {
        struct worker *w = &h->worker[turn];
        int64_t rows = next_rows(h, row), placed = h->found.slabs;
        if (multiply_rows(h, w, row, rows, error)) {
            row += rows;
            turn = !turn;
            continue;
        }
        bool too_large = error->status == GPUMEM_OUT_OF_MEMORY || error->status == GPUMEM_NOT_SUPPORTED;
        if (!too_large || rows == 1 || h->found.slabs > placed || !wait_for(w, error))
            return false;
        empty(w);
        h->work = work_of(h, row, rows / 2);
        h->filled *= 0.8;
    }
    return true;
}

/* ---- the call */

static bool read_offsets(const char *name, const struct gpumem_spgemm_csr *m, struct spg_error *error) {
    int64_t first = offset_at(m, 0), last = offset_at(m, m->rows);
    if (first || last != m->stored)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the offsets of %s go from %lld to %lld, not from 0 to %lld",
                           name, (long long)first, (long long)last, (long long)m->stored);
    /* Slabs are cut by them. */
    for (int64_t row = 0; row < m->rows; row++)
        if (offset_at(m, row + 1) < offset_at(m, row))
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the offsets of %s at row %lld do not ascend", name,
                               (long long)row);
    return true;
}

static bool read_arguments(struct host *h, const struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a,
                           const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_host_output *output,
                           uint64_t flags, struct spg_error *error) {
    struct spg_request r;
    if (!spg_request_flags(flags, 0, error) || !spg_request_read(m, &r, a, b, NULL, true, error))
        return false;
    for (int i = 0; i < 2; i++)
        if (r.csr[i].operation || r.csr[i].scale)
            return spg_fail_as(error, GPUMEM_NOT_SUPPORTED, "matrices in host memory must be plain");
        else if (!read_offsets(spg_request_names[i], &r.csr[i], error))
            return false;
    if (!output)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output is NULL");
    if (!spg_struct_read("gpumem_spgemm_host_output", &h->output, sizeof h->output, output, error))
        return false;
    h->a = r.csr[0];
    h->b = r.csr[1];
    h->value_size = spg_value_size(m->job.precision);
    return (h->output.offsets && h->output.place) ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has no offsets, or no function");
}

/* Bytes of device memory that the call may use. */
static bool measure(const struct gpumem_spgemm *m, size_t *total, struct spg_error *error) {
    size_t available, all;
    *total = m->job.limit;
    if (*total)
        return true;
    if (!spg_cuda(cudaMemGetInfo(&available, &all), "the device's memory", error))
        return false;
    *total = available / 10 * 9;
    return true;
}

static bool prepare(const struct host *h, struct worker *w, size_t limit, struct spg_error *error) {
    struct spg_memory *memory = memory_of(w);
    memory->limit = limit;
    memory->room = (size_t)wanted(h) / 64;
    return spg_cuda(cudaMallocHost(&memory->mailbox, SPG_MAILBOX), "pinned memory", error);
}

/* The multiplier and its inner one become workers: the first in the caller's stream, the second in one of its own. */
static bool start(struct host *h, struct gpumem_spgemm *m, struct spg_error *error) {
    struct worker *first = &h->worker[0], *second = &h->worker[1];
    cudaEvent_t started = m->product.method.gpu.started;
    size_t total;
    if (!m->inner && !(m->inner = spg_multiplier_like(m, error)))
        return false;
    spg_multiplier_empty(m);
    memory_of(first)->peak = 0;
    if (!spg_cuda(cudaStreamCreateWithFlags(&second->stream, cudaStreamNonBlocking), "stream", error))
        return false;
    second->multiplier = m->inner;
    if (!spg_multiplier_enter(m->inner, false, second->stream, error) || !measure(m, &total, error))
        return false;
    memory_of(first)->limit = total;
    if (!place_b(h, total, error))
        return false;
    h->share = (total - h->shared.size) / 2;
    h->filled = 0.8;
    return prepare(h, first, h->shared.size + h->share, error) && prepare(h, second, h->share, error) &&
           spg_cuda(cudaEventRecord(started, first->stream), "event", error) &&
           spg_cuda(cudaStreamWaitEvent(second->stream, started, 0), "event", error);
}

/* Waits for the workers and frees all memory of the multiplier. */
static bool finish(struct host *h, struct gpumem_spgemm *m, struct spg_error *error) {
    bool done = true;
    for (int i = 0; i < 2; i++) {
        struct worker *w = &h->worker[i];
        if (!w->multiplier)
            continue;
        done = wait_for(w, error) && done;
        empty(w);
    }
    spg_block_drop(&h->shared, memory_of(&h->worker[0]));
    spg_multiplier_empty(m);
    for (int i = 0; i < 2; i++) {
        struct spg_memory *memory = memory_of(&h->worker[i]);
        if (!h->worker[i].multiplier)
            continue;
        h->found.peak += memory->peak;
        memory->limit = m->job.limit;
        memory->room = 0;
        cudaFreeHost(memory->mailbox);
        memory->mailbox = NULL;
    }
    if (h->worker[1].stream)
        cudaStreamDestroy(h->worker[1].stream);
    return done;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_multiply_host(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a,
                            const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_host_output *output,
                            uint64_t flags, struct CUstream_st *stream, struct gpumem_spgemm_host_result *result) {
    struct host h = {.worker[0] = {.multiplier = m, .stream = stream}};
    struct spg_error error, last;
    size_t size;
    if (!spg_given(m, "the multiplier", &error) ||
        !spg_struct_size("gpumem_spgemm_host_result", result, &size, &error) ||
        !read_arguments(&h, m, a, b, output, flags, &error) || !spg_multiplier_enter(m, false, stream, &error))
        return spg_failed(&error);
    h.found.rows = h.a.rows;
    h.found.columns = h.b.columns;
    h.output.offsets[0] = 0;
    bool done = start(&h, m, &error) && multiply_all(&h, &error);
    if (!finish(&h, m, done ? &error : &last) || !done)
        return spg_failed(&error);
    spg_struct_write(result, &h.found, sizeof h.found);
    return GPUMEM_OK;
}
