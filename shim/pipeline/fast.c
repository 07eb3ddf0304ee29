#include "shim/accounts/limit.h"
#include "shim/pipeline/guard.h"
#include "shim/pipeline/parts.h"
#include "shim/sites/site.h"
#ifdef GM_HAVE_CUDA
#include "shim/cache/cache.h"
#include "shim/pipeline/fast.h"
#endif

void gm_pipeline_observe(bool observes) {
    gm_observers_set(GM_OBSERVED_TRACE, observes);
#ifdef GM_HAVE_CUDA
    if (observes && gm_keeper)
        gm_cache_pass(gm_keeper);
#endif
}

void gm_pipeline_observe_blocks(void) {
    gm_observers_set(GM_OBSERVED_BLOCKS, true);
#ifdef GM_HAVE_CUDA
    if (gm_keeper)
        gm_cache_pass(gm_keeper);
#endif
}

#ifdef GM_HAVE_CUDA
void gm_fast_begin(void) {
    bool may = gm_keeper && gm_mine.counts && !gm_observers_now();
    gm_mine.shard = may ? gm_cache_my_shard(gm_keeper) : NULL;
    if (may) {
        gm_context_current_id(&gm_mine.context);
        gm_stats_defer_for(gm_mine.counts, (int16_t)gm_mine.context->device);
    }
}

void gm_fast_open(bool coverage) {
    gm_observers_set(GM_OBSERVED_TRACE, gm_trace_is_on() || gm_sites_are_on());
    gm_observers_set(GM_OBSERVED_TIMES, gm_pipeline_timed);
    gm_observers_set(GM_OBSERVED_POLICY, !gm_pipeline.policy->reuse);
    gm_observers_set(GM_OBSERVED_COVERAGE, coverage);
    gm_observers_set(GM_OBSERVED_GUARD, gm_guard_every == 1);
    bool alone = gm_keeper && !gm_limit_on() && !gm_pipeline.grows && !gm_pipeline.handed_over;
    gm_observers_set(GM_OBSERVED_CACHE, !alone);
    gm_observers_set(GM_OBSERVED_EVENTS, !gm_drv.ctx_record_event);
    gm_observers_set(GM_OBSERVED_START, false);
}
#endif
