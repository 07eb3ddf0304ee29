/* One counter of live bytes for each device: of this process, or a place in the memory of its group (limit.h). */
#include "shim/accounts/limit.h"
#include "shim/base/events.h"
#include "shim/accounts/group.h"
#include "shim/base/once.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"

#include <string.h>

uint64_t gm_limit_bytes;

static uint64_t live[GM_LIMIT_DEVICES];
static struct gm_group *group;            /* NULL = none */
static char group_name[GM_GROUP_NAME];    /* "" = none */
static bool denied;                       /* the group cannot be had: its limit would not hold, so nothing is granted */
static int16_t numbers[GM_LIMIT_DEVICES]; /* of each device in the group, plus 1; 0 = not looked up, -1 = no room */
static uint64_t hashes[GM_LIMIT_DEVICES]; /* of each device's UUID; 0 = not looked up */
static uint64_t totals[GM_LIMIT_DEVICES]; /* bytes of each device; 0 = not looked up */
static struct gm_once starting;

/* ---- the group */

static void deny(const char *why) {
    denied = true;
    gm_log(GM_LOG_ERROR,
           "GPUMEM_GROUP=%s: the group %s; requests for memory of a device fail, as they would not count in the group",
           group_name, why);
}

static void join_group(const uint64_t *bytes) {
    const char *why;
    group = gm_group_join(group_name, bytes, &why);
    memset(numbers, 0, sizeof numbers);
    if (!group)
        deny(why);
}

void gm_limit_start(const char *name, uint64_t bytes) {
    if (!gm_once_begin(&starting))
        return;
    gm_limit_bytes = bytes;
    if (*name) {
        gm_limit_bytes = bytes ? bytes : UINT64_MAX;
        gm_format(group_name, sizeof group_name, "%s", name);
        if (gm_group_name_is_valid(name)) /* not cut to the size of group_name */
            join_group(bytes ? &bytes : NULL);
        else
            deny(GM_GROUP_UNNAMED);
    }
    gm_once_end(&starting);
}

void gm_limit_publish(void) {
    gm_format(gm_stats->group, sizeof gm_stats->group, "%s", group_name);
    if (!gm_stats->limit_bytes)
        __atomic_store_n(&gm_stats->limit_bytes, gm_limit_bytes, __ATOMIC_RELAXED);
}

static uint64_t hash_of_device(int device) {
    unsigned char uuid[16] = {0};
    uint64_t hash = __atomic_load_n(&hashes[device], __ATOMIC_RELAXED);
    if (hash)
        return hash;
    if (!GM_ASK(device_uuid, device, uuid))
        uuid[0] = (unsigned char)(device + 1);
    hash = gm_group_hash(uuid);
    __atomic_store_n(&hashes[device], hash, __ATOMIC_RELAXED);
    return hash;
}

/* Where the bytes of a device count: in this process' own counter, nowhere, or at this number in the group. A group
 * that has no room for the device grants nothing there. */
enum { OWN = -1, NOWHERE = -2, NO_ROOM = -3 };

static int place_of_device(int device) {
    if (device < 0 || device >= GM_LIMIT_DEVICES)
        return NOWHERE;
    if (!group)
        return OWN;
    int number = __atomic_load_n(&numbers[device], __ATOMIC_RELAXED);
    if (!number) {
        int found = gm_group_device(group, hash_of_device(device), true);
        number = found < 0 ? -1 : found + 1;
        __atomic_store_n(&numbers[device], (int16_t)number, __ATOMIC_RELAXED);
    }
    return number < 0 ? NO_ROOM : number - 1;
}

/* ---- bytes */

static uint64_t total_of(int device) {
    if (device < 0 || device >= GM_LIMIT_DEVICES)
        return 0;
    uint64_t total = __atomic_load_n(&totals[device], __ATOMIC_RELAXED);
    if (!total)
        __atomic_store_n(&totals[device], total = GM_ASK(device_total, device), __ATOMIC_RELAXED);
    return total;
}

/* Bytes, or a part of each device. */
static uint64_t limit_value(void) {
    if (denied)
        return 0;
    const struct gm_stats *stats = __atomic_load_n(&gm_stats, __ATOMIC_ACQUIRE); /* a query of NVML may come early */
    uint64_t bytes = __atomic_load_n(group ? &group->limit : &stats->limit_bytes, __ATOMIC_RELAXED);
    if (!bytes && !group)
        bytes = gm_limit_bytes;
    return bytes ? bytes : UINT64_MAX;
}

uint64_t gm_limit_now(int device) {
    uint64_t value = limit_value();
    return gm_memory_is_part(value) ? gm_memory_of(value, total_of(device)) : value;
}

bool gm_limit_take(int device, uint64_t bytes) {
    int place = place_of_device(device);
    if (denied || place == NO_ROOM)
        return false;
    if (place != OWN)
        return place == NOWHERE || gm_group_take((unsigned)place, bytes, total_of(device));
    uint64_t limit = gm_limit_now(device), seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED);
    do {
        if (bytes > limit || seen > limit - bytes)
            return false;
    } while (
        !__atomic_compare_exchange_n(&live[device], &seen, seen + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

void gm_limit_force(int device, uint64_t bytes) {
    int place = place_of_device(device);
    if (place == OWN)
        __atomic_add_fetch(&live[device], bytes, __ATOMIC_RELAXED);
    else if (place >= 0)
        gm_group_force((unsigned)place, bytes);
}

void gm_limit_give(int device, uint64_t bytes) {
    int place = place_of_device(device);
    if (place >= 0)
        gm_group_give((unsigned)place, bytes);
    if (place != OWN)
        return;
    uint64_t seen = __atomic_load_n(&live[device], __ATOMIC_RELAXED), remaining;
    do {
        remaining = seen > bytes ? seen - bytes : 0; /* a child may free a block of its parent */
    } while (!__atomic_compare_exchange_n(&live[device], &seen, remaining, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

uint64_t gm_limit_live(int device) {
    int place = place_of_device(device);
    if (place == OWN)
        return __atomic_load_n(&live[device], __ATOMIC_RELAXED);
    return place < 0 ? 0 : gm_group_live(group, (unsigned)place);
}

/* ---- what queries answer */

static void view(uint64_t used, uint64_t *free_bytes, uint64_t *total) {
    uint64_t limit = gm_memory_of(limit_value(), *total), remaining = limit > used ? limit - used : 0;
    if (limit && *total > limit) /* programs divide by the total */
        *total = limit;
    if (free_bytes && *free_bytes > remaining)
        *free_bytes = remaining;
}

void gm_limit_view(int device, size_t *free_bytes, size_t *total) {
    uint64_t room = free_bytes ? *free_bytes : 0, all = *total;
    if (!gm_limit_on())
        return;
    if (free_bytes)
        gm_group_refresh();
    view(free_bytes ? gm_limit_live(device) : 0, &room, &all);
    *total = (size_t)all;
    if (free_bytes)
        *free_bytes = (size_t)room;
}

void gm_limit_view_uuid(const unsigned char uuid[16], uint64_t *free_bytes, uint64_t *total) {
    uint64_t hash = gm_group_hash(uuid), used = 0;
    if (!gm_limit_on())
        return;
    gm_group_refresh();
    int number = group ? gm_group_device(group, hash, false) : -1;
    if (number >= 0)
        used = gm_group_live(group, (unsigned)number);
    for (int device = 0; !group && device < GM_LIMIT_DEVICES; device++)
        if (gm_limit_live(device) && hash_of_device(device) == hash)
            used = gm_limit_live(device);
    view(used, free_bytes, total);
}

void gm_limit_after_fork(void) {
    memset(live, 0, sizeof live);
    gm_group_after_fork();
    if (group)
        join_group(NULL);
}
