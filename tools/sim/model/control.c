/* What simcuda.h offers to tests, beyond the options. */
#include "sim.h"

void simcuda_reset_counters(void) {
    sim_lock();
    sim_reset_violations();
    sim_reset_checks();
    sim_reset_calls();
    sim_unlock();
}

int simcuda_step(void *stream) {
    int ran = 0;
    struct sim_stream *s = NULL;
    sim_lock();
    if (stream == SIMCUDA_ANY_STREAM || sim_stream_get(stream, &s) != CUDA_ERROR_INVALID_HANDLE)
        ran = sim_step(stream == SIMCUDA_ANY_STREAM ? NULL : s);
    sim_unlock();
    return ran;
}

int simcuda_run_all(void) {
    int ran = 0;
    sim_lock();
    while (sim_step(NULL))
        ran++;
    sim_unlock();
    return ran;
}

int simcuda_pending(void) {
    int n = 0;
    sim_lock();
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        for (struct sim_op *op = s->head; op; op = op->next)
            n++;
    }
    sim_unlock();
    return n;
}

static bool uses(const struct sim_op *op, uintptr_t addr, size_t size) {
    for (unsigned i = 0; i < op->range_count; i++) {
        const struct sim_range *r = &op->ranges[i];
        uintptr_t start = r->addr;
        size_t n = r->size;
        if (op->kind == OP_KERNEL) { /* a kernel may use the whole block */
            n = r->block->user_size && start == r->block->addr ? r->block->user_size : r->size;
            n = n > 1 ? n : r->block->addr + r->block->size - start;
        }
        if (start < addr + size && addr < start + n)
            return true;
    }
    return false;
}

int simcuda_declare_alloc(uint64_t ptr, size_t size, void *stream) {
    int hazards = 0;
    struct sim_stream *user = NULL;
    sim_lock();
    if (stream != SIMCUDA_ANY_STREAM)
        sim_stream_get(stream, &user);
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        for (struct sim_op *op = s->head; op; op = op->next) {
            if (!uses(op, (uintptr_t)ptr, size) || (user && sim_ordered_after(user, s, op->seq)))
                continue;
            hazards++;
            sim_violation(NULL, "memory handed out again while earlier work on it is queued", (uintptr_t)ptr, size);
        }
    }
    struct sim_block *b = sim_block_at((uintptr_t)ptr);
    if (b && b->addr == ptr)
        b->user_size = size;
    sim_unlock();
    return hazards;
}

int simcuda_declare_free(uint64_t ptr) {
    int queued = 0;
    sim_lock();
    struct sim_block *b = sim_block_at((uintptr_t)ptr);
    size_t size = b ? (b->user_size ? b->user_size : b->addr + b->size - (uintptr_t)ptr) : 1;
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        for (struct sim_op *op = s->head; op; op = op->next)
            queued += uses(op, (uintptr_t)ptr, size);
    }
    sim_unlock();
    return queued;
}

static size_t bytes_of(int device, bool most) {
    if (device < 0 || device >= SIM_MAX_DEVICES)
        return 0;
    sim_lock();
    size_t bytes = most ? sim_devices[device].peak : sim_devices[device].used;
    sim_unlock();
    return bytes;
}

size_t simcuda_used(int device) { return bytes_of(device, false); }
size_t simcuda_peak(int device) { return bytes_of(device, true); }

void simcuda_set_memory(size_t bytes) {
    sim_lock();
    sim_opt.memory = bytes;
    sim_unlock();
}

static void count(struct sim_block *b, void *n) { *(size_t *)n += b->state != STATE_FREED && !b->free_submitted; }

size_t simcuda_live_blocks(void) {
    size_t n = 0;
    sim_lock();
    sim_blocks_each(count, &n);
    sim_unlock();
    return n;
}
