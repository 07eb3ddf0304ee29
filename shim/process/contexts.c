/* What gpumem learns of a context or device when it is first seen, and what the trace says of them. */
#include "shim/process/process.h"

#include <string.h>

#include "shim/accounts/stats.h"
#include "shim/driver/free_sync.h"
#include "shim/hook/hook.h"
#include "shim/start/suspender.h"
#include "shim/suspend/suspend.h"
#include "shim/trace/writer.h"

bool gm_process_uuid(int device, unsigned char uuid[16]) {
    CUuuid found;
    if (!gm_drv.device_get_uuid || gm_drv.device_get_uuid(&found, device) != CUDA_SUCCESS)
        return false;
    memcpy(uuid, found.bytes, 16);
    return true;
}

/* Other devices reach memory that gpumem placed as with peer access: no wait covers what their streams copy. */
gm_status gm_process_synchronise(const struct gm_block *block, bool *settled) {
    gm_status status =
        gm_free_sync_before((CUcontext)(uintptr_t)block->context, block->context_id, block->device, settled);
    bool placed = gm_kind_traits(block->kind) & GM_TRAIT_PLACED || gm_suspend_is_on();
    if (*settled && placed && gm_context_other(block->device))
        *settled = false;
    return status;
}

static uint64_t described; /* a bit for each device */
static bool describes;     /* a trace is written, or begins */

static void describe_context(const struct gm_context *context) {
    struct gm_record_context record = {
        .head = {.bytes = sizeof(record), .type = GM_RECORD_CONTEXT},
        .number = context->number,
        .device = context->device,
        .handle = (uint64_t)(uintptr_t)context->handle,
        .id = context->id,
    };
    union {
        struct gm_record_device record;
        char bytes[sizeof(struct gm_record_device) + 128];
        uint64_t align;
    } device = {0};
    size_t total = 0;

    if (!gm_trace_is_on() && !__atomic_load_n(&describes, __ATOMIC_RELAXED))
        return;
    gm_trace_record(&record.head);
    uint64_t bit = 1ull << (context->device & 63);
    if (context->device < 0 || __atomic_fetch_or(&described, bit, __ATOMIC_RELAXED) & bit)
        return;
    char *name = device.bytes + sizeof(device.record);
    if (gm_drv.device_get_name(name, 120, context->device) != CUDA_SUCCESS)
        name[0] = '\0';
    gm_drv.device_total_mem(&total, context->device);
    device.record.device = context->device;
    device.record.total = total;
    device.record.name_bytes = (uint32_t)strlen(name);
    device.record.head.type = GM_RECORD_DEVICE;
    device.record.head.bytes = (uint32_t)(sizeof(device.record) + ((device.record.name_bytes + 7u) & ~7u));
    gm_trace_record(&device.record.head);
}

/* Two threads may use a device for the first time at once. */
static void publish_device(int device) {
    uint64_t words[2];
    if (device < 0 || device >= GM_STATS_DEVICES)
        return;
    __atomic_store_n(&gm_stats->total[device], gm_device_total(device), __ATOMIC_RELAXED);
    bool known = gm_process_uuid(device, (unsigned char *)words);
    for (int i = 0; known && i < 2; i++)
        __atomic_store_n(&gm_stats->uuid[device][i], words[i], __ATOMIC_RELAXED);
}

void gm_process_context(const struct gm_context *context) {
    publish_device(context->device);
    gm_free_sync_context(context);
    gm_suspender_begin();
    gm_hook_device_used(context->handle, context->device);
    describe_context(context);
}

/* A trace begins in the middle of the run. */
void gm_process_describe_contexts(void) {
    __atomic_store_n(&described, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&describes, true, __ATOMIC_RELAXED);
    gm_contexts_each(describe_context);
}
