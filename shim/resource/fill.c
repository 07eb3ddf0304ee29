/* Adaptor "fill": fills memory before the program gets it, with zeros or with poison. Poison is also written when the
 * program frees the memory. So a read of memory that was never written, or that was freed, shows a wrong value. */
#include <string.h>

#include "shim/resource/adaptor.h"
#include "shim/base/error.h"
#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/rows.h"

/* Read as float or double it is a large negative number; read as an index it is out of any range. */
#define POISON 0xdb

struct state {
    enum fill { FILL_OFF, FILL_ZERO, FILL_POISON } fill;
};

static gm_status fill_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    static const char *const names[] = {"off", "zero", "poison"};
    struct state *state = self->state;
    if (self->kind == GM_KIND_SIM)
        return gm_refuse(error, error_size, "\"fill\" cannot wrap sim: there is no memory at its addresses");
    for (int i = 0; argument && i < 3; i++)
        if (!strcmp(argument, names[i])) {
            state->fill = (enum fill)i;
            return GM_OK;
        }
    return gm_refuse(error, error_size, "\"%s\" is not a fill value; accepted: off, zero, poison",
                     argument ? argument : "");
}

static size_t bytes_to_fill(const struct gm_block *block) { return block->pitch ? block->reserved : block->size; }

static gm_status fill_on_stream(const struct gm_block *block, unsigned char value, uint64_t stream, bool per_thread) {
    __typeof__(gm_drv.memset_d8_async) set = per_thread ? gm_drv.memset_d8_async_ptsz : gm_drv.memset_d8_async;
    return set(block->address, value, bytes_to_fill(block), (CUstream)stream);
}

/* Fills the block on an internal stream of its context. `behind`: after all work submitted so far; else the fill is
 * complete at return. Does nothing during a capture, because the calls would not be legal then. */
static gm_status fill_privately(const struct gm_block *block, unsigned char value, bool behind) {
    CUcontext context = (CUcontext)(uintptr_t)block->context;
    CUstreamCaptureMode mode;
    struct gm_internal internal;
    CUstream stream;
    bool pushed;

    if (!gm_internal_of(context, block->context_id, block->device, &internal)) {
        static int once;
        gm_log_once(&once, GM_LOG_WARN, "fill: more than %d contexts are in use, memory of the others is not filled",
                    GM_INTERNAL_CONTEXTS);
        return GM_OK;
    }
    if (!gm_capture_guard_enter(&mode))
        return GM_OK;
    gm_status status = gm_context_enter(context, &pushed);
    if (status)
        goto leave;
    status = gm_internal_stream(&internal, behind ? GM_INTERNAL_FREE : GM_INTERNAL_ALLOC, &stream);
    if (!status && behind)
        status = gm_fence_stream_behind(context, block->context_id, block->device, stream);
    if (!status)
        status = gm_drv.memset_d8_async(block->address, value, bytes_to_fill(block), stream);
    if (!status && !behind)
        status = gm_drv.stream_synchronize(stream);
    gm_context_leave(pushed);
leave:
    gm_capture_guard_leave(mode);
    return status;
}

static gm_status fill_alloc(struct gm_resource *self, const struct gm_request *request,
                            const struct gm_decision *decision, struct gm_block *block) {
    const struct state *state = self->state;
    unsigned char value = state->fill == FILL_ZERO ? 0 : POISON;
    bool ordered = request->call == GM_CALL_ALLOC_ASYNC;
    struct gm_block got = *block;
    gm_status status = gm_adaptor_alloc(self, request, decision, &got);
    if (status)
        return status;
    if (state->fill != FILL_OFF)
        status = ordered ? fill_on_stream(&got, value, request->stream, request->per_thread)
                         : fill_privately(&got, value, false);
    if (status)
        gm_adaptor_undo(self, request, &got);
    else
        *block = got;
    return status;
}

static gm_status fill_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    const struct state *state = self->state;
    struct gm_free_request behind = *how;
    /* A failed fill is no error of the free. While a stream captures, nothing is filled: the fill could become part of
     * a graph, and a later run of the graph would overwrite memory that has another owner by then. */
    if (state->fill == FILL_POISON && gm_driver_ready(true) && !gm_capture_any()) {
        gm_status status = how->call == GM_CALL_FREE_ASYNC ? fill_on_stream(block, POISON, how->stream, how->per_thread)
                                                           : fill_privately(block, POISON, true);
        if (status)
            gm_log(GM_LOG_DEBUG, "block at %p was freed without poison: error %d", (void *)(uintptr_t)block->address,
                   status);
        behind.settled = behind.idle = false; /* the fill itself may still be running */
    }
    return gm_adaptor_free(self, block, &behind);
}

const struct gm_resource_ops gm_resource_fill = {
    .name = "fill",
    .summary = "fills memory with zeros or poison at allocation, and with poison at free",
    .properties = ~(uint32_t)GM_PROP_GROWABLE,
    .needs = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_READY_ANYWHERE,
    .breaks =
        "each call writes all of the memory; while a stream captures, only allocations in stream order are filled; a "
        "free that fails has poisoned the block; managed pages move to the device",
    .adaptor = true,
    .arguments = "off|zero|poison",
    .state_size = sizeof(struct state),
    .open = fill_open,
    .alloc = fill_alloc,
    .free = fill_free,
};
