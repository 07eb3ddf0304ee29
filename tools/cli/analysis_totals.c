#include "tools/cli/analysis_totals.h"

#include "tools/cli/memory_kinds.h"

bool gm_sum_is_leak(const struct gm_sum *sum) { return sum->live && gm_kind_can_leak((enum gm_kind)sum->kind); }

struct gm_amounts gm_analysis_amounts(const struct gm_analysis *a) {
    return (struct gm_amounts){a->live_bytes, a->reserved.kept, a->reserved.bytes};
}

struct gm_amounts gm_analysis_amounts_on(const struct gm_analysis *a, unsigned device) {
    const struct gm_reserved_device *on = &a->reserved.on[device];
    if (gm_analysis_device_count(a) < 2)
        return gm_analysis_amounts(a);
    return (struct gm_amounts){a->devices[device].live, on->kept, on->bytes};
}

bool gm_analysis_has_device(const struct gm_analysis *a, unsigned device) {
    const struct gm_device_totals *d = &a->devices[device];
    return d->allocs || d->failed_allocs || d->peak_reserved;
}

unsigned gm_analysis_device_count(const struct gm_analysis *a) {
    unsigned count = 0;
    for (unsigned device = 0; device < a->device_end; device++)
        count += gm_analysis_has_device(a, device);
    return count;
}

bool gm_analysis_account(const struct gm_analysis *a, const struct gm_event *e, struct gm_account *account) {
    const struct gm_account_pool none = {0};
    if (e->action != GM_ACT_ACCOUNT || e->site != GM_ACCOUNT_ITEM_TOTAL)
        return false;
    *account = a->devices[gm_device_index(e->device)].accounts.taking;
    gm_account_add(account, e->site, e->bytes, &none);
    return gm_account_is_known(account);
}

struct gm_count_and_bytes gm_analysis_trims(const struct gm_analysis *a) {
    struct gm_count_and_bytes sum = {0};
    for (int why = 0; why < GM_REASON_COUNT; why++) {
        sum.count += a->trims[why].count;
        sum.bytes += a->trims[why].bytes;
    }
    return sum;
}
