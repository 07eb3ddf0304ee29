/* The managed quota (managed_quota.h). A charge first uses the last reported free memory, if it is young and the sum is
 * below half of it. Otherwise it queries the driver. If the sum is too large then, it releases free blocks and tries
 * once more. */
#include "shim/accounts/account.h"
#include "shim/base/events.h"
#include "shim/base/hostmem.h"
#include "shim/base/options.h"
#include "shim/driver/driver.h"
#include "shim/resource/byte_counters.h"
#include "shim/resource/managed_quota.h"

#define FRESH_NS 1000000 /* a reported figure of free memory may be used again for this time */

enum { DEVICES = 64 };

static struct gm_byte_counters own_bytes; /* blocks that gpumem serves, by context */
GM_ZERO_IN_CHILD(own_bytes.lock);
static int64_t program_bytes; /* blocks of the program's own calls */
static uint64_t retained;     /* upper bound of the bytes that pools hold beyond live blocks */

static struct { uint64_t free, at_ns; } figures[DEVICES]; /* the last reported free memory */

static struct gm_managed_maker *makers;
#define EACH_MAKER(maker) \
    for (const struct gm_managed_maker *maker = __atomic_load_n(&makers, __ATOMIC_ACQUIRE); maker; maker = maker->next)

void gm_managed_quota_add(struct gm_managed_maker *maker) {
    if (__atomic_exchange_n(&maker->added, true, __ATOMIC_RELAXED))
        return;
    maker->next = __atomic_load_n(&makers, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&makers, &maker->next, maker, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        ;
}

uint64_t gm_managed_alive(void) {
    int64_t program = __atomic_load_n(&program_bytes, __ATOMIC_RELAXED);
    return gm_byte_counters_total(&own_bytes) + (program > 0 ? (uint64_t)program : 0);
}

/* The highest total of own_bytes for which `available` bytes also have room for everything else and the headroom. */
static uint64_t ceiling_for(uint64_t available) {
    int64_t program = __atomic_load_n(&program_bytes, __ATOMIC_RELAXED);
    uint64_t other = gm_option_number(GM_OPT_MANAGED_HEADROOM) + (program > 0 ? (uint64_t)program : 0) +
                     __atomic_load_n(&retained, __ATOMIC_RELAXED);
    return available > other ? available - other : 0;
}

static bool charge_by_fresh_figure(uint64_t context_id, int device, uint64_t bytes) {
    uint64_t at = __atomic_load_n(&figures[device].at_ns, __ATOMIC_ACQUIRE);
    if (!at || gm_now_ns() - at > FRESH_NS)
        return false;
    return gm_byte_counters_add(&own_bytes, context_id, bytes,
                                ceiling_for(__atomic_load_n(&figures[device].free, __ATOMIC_RELAXED) / 2));
}

/* Queries the driver and the pools. `retained` is set to 0 first: a free meanwhile is then counted twice rather than
 * not at all. */
static gm_status charge_by_new_figure(uint64_t context_id, int device, uint64_t bytes, uint64_t *available) {
    size_t free_bytes, total;
    gm_status status = gm_drv.mem_get_info(&free_bytes, &total);
    if (status)
        return status;
    __atomic_store_n(&retained, 0, __ATOMIC_SEQ_CST);
    EACH_MAKER(maker)
    if (maker->excess)
        __atomic_add_fetch(&retained, maker->excess(), __ATOMIC_SEQ_CST);

    __atomic_store_n(&figures[device].free, free_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&figures[device].at_ns, gm_now_ns(), __ATOMIC_RELEASE);
    *available = free_bytes;
    return gm_byte_counters_add(&own_bytes, context_id, bytes, ceiling_for(free_bytes)) ? GM_OK : GM_OUT_OF_MEMORY;
}

static void release_all(void) {
    GM_PUBLISH(quota_short);
    EACH_MAKER(maker)
    maker->release();
}

static bool is_alone(int device) {
    struct gm_card card = {0};
    return GM_ASK(card_asked, &device, true, &card) && card.alone;
}

/* GPUMEM_MANAGED_OVERSUBSCRIBE (hybrid-allocation-he, III.A and III.B): the host has room for what the device has not.
 */
static bool charge_beyond(uint64_t context_id, int device, uint64_t bytes, uint64_t available) {
    static int refused, once;
    struct gm_hostmem host;
    if (!gm_option_bool(GM_OPT_MANAGED_OVERSUBSCRIBE) || !gm_hostmem_read("", -1, &host))
        return false;
    if (!is_alone(device)) {
        gm_log_once(
            &refused, GM_LOG_WARN,
            "GPUMEM_MANAGED_OVERSUBSCRIBE: device %d is not known to be free of other processes: managed memory "
            "stays below its free memory",
            device);
        return false;
    }
    if (!gm_byte_counters_add(&own_bytes, context_id, bytes, ceiling_for(available + gm_hostmem_takeable(&host))))
        return false;
    gm_log_once(&once, GM_LOG_WARN,
                "GPUMEM_MANAGED_OVERSUBSCRIBE: managed memory exceeds the free memory of device %d from now on: pages "
                "move to and from the host at each use, and the device can hang",
                device);
    return true;
}

gm_status gm_managed_charge(uint64_t context_id, int device, uint64_t bytes) {
    static int once;
    uint64_t available = 0;

    if (device < 0 || device >= DEVICES)
        return GM_NOT_SUPPORTED;
    if (charge_by_fresh_figure(context_id, device, bytes))
        return GM_OK;
    gm_status status = charge_by_new_figure(context_id, device, bytes, &available);
    if (status != GM_OUT_OF_MEMORY)
        return status;
    release_all();
    status = charge_by_new_figure(context_id, device, bytes, &available);
    if (status == GM_OUT_OF_MEMORY && charge_beyond(context_id, device, bytes, available))
        return GM_OK;
    if (status == GM_OUT_OF_MEMORY)
        gm_log_once(&once, GM_LOG_WARN,
                    "managed memory refused: %llu bytes requested, %llu managed bytes live, %llu free on device %d, "
                    "headroom %llu "
                    "(GPUMEM_MANAGED_HEADROOM)",
                    (unsigned long long)bytes, (unsigned long long)gm_managed_alive(), (unsigned long long)available,
                    device, (unsigned long long)gm_option_number(GM_OPT_MANAGED_HEADROOM));
    return status;
}

void gm_managed_discharge(uint64_t context_id, uint64_t bytes) {
    gm_byte_counters_subtract(&own_bytes, context_id, bytes);
}

void gm_managed_retain(uint64_t context_id, uint64_t bytes) {
    __atomic_add_fetch(&retained, bytes, __ATOMIC_SEQ_CST);
    gm_byte_counters_subtract(&own_bytes, context_id, bytes);
}

void gm_managed_forget(uint64_t context_id) { gm_byte_counters_forget(&own_bytes, context_id); }

void gm_managed_note(int64_t delta) { __atomic_add_fetch(&program_bytes, delta, __ATOMIC_RELAXED); }
