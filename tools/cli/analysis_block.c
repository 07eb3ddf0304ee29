#include "tools/cli/analysis_block.h"

#include "tools/cli/memory_kinds.h"

bool gm_live_block_is_handle(const struct gm_live_block *b) {
    return gm_call_holds((enum gm_call)b->call, (enum gm_kind)b->kind);
}

bool gm_live_block_allocates(const struct gm_live_block *b) {
    return gm_call_allocates((enum gm_call)b->call, (enum gm_kind)b->kind);
}

bool gm_event_is_own_trim(const struct gm_event *e) {
    return e->action == GM_ACT_TRIM && e->call != GM_CALL_POOL_CREATE;
}

bool gm_event_is_call(const struct gm_event *e) {
    return e->call != GM_CALL_NONE && e->action != GM_ACT_RELEASE && e->action != GM_ACT_DROP &&
           !gm_event_is_own_trim(e);
}

uint64_t gm_live_block_stream(const struct gm_live_block *b) {
    bool other =
        gm_call_traits((enum gm_call)b->call) & GM_CALL_MAPS || gm_live_block_is_handle(b) || b->kind == GM_KIND_SPLIT;
    return other ? 0 : b->stream;
}

uint64_t gm_live_block_on_device(const struct gm_live_block *b) {
    if (b->kind == GM_KIND_SPLIT)
        return b->on_device < b->bytes ? b->on_device : b->bytes;
    return gm_kind_traits((enum gm_kind)b->kind) & GM_TRAIT_DEVICE ? b->bytes : 0;
}

uint64_t gm_live_block_address(const struct gm_live_block *b) { return gm_key_value(b->key); }

uint64_t gm_event_key(const struct gm_event *e) { return gm_key(gm_call_space((enum gm_call)e->call), e->address); }

bool gm_live_block_is_leak(const struct gm_live_block *b) {
    return (gm_live_block_allocates(b) || gm_live_block_is_handle(b)) && gm_kind_can_leak((enum gm_kind)b->kind);
}
