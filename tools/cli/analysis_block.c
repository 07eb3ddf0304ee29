#include "tools/cli/analysis_block.h"

#include "tools/cli/memory_kinds.h"

bool gm_live_block_is_handle(const struct gm_live_block *b) {
    return b->call == GM_CALL_VMM_CREATE && b->kind == GM_KIND_VMM;
}

bool gm_live_block_allocates(const struct gm_live_block *b) {
    return gm_call_allocates((enum gm_call)b->call, (enum gm_kind)b->kind);
}

/* Handles and addresses are different number spaces. Without the space, equal numbers would collide. */
static uint64_t space_of(enum gm_call call) {
    switch (call) {
    case GM_CALL_ARRAY:
    case GM_CALL_ARRAY3D:
    case GM_CALL_ARRAY_DESTROY:
    case GM_CALL_MIPMAP:
    case GM_CALL_MIPMAP_DESTROY: return 1;
    case GM_CALL_VMM_CREATE:
    case GM_CALL_VMM_IMPORT:
    case GM_CALL_VMM_RELEASE: return 2;
    case GM_CALL_POOL_CREATE:
    case GM_CALL_POOL_DESTROY: return 3;
    case GM_CALL_VMM_RESERVE:
    case GM_CALL_VMM_ADDRESS_FREE: return 4;
    case GM_CALL_VMM_MAP:
    case GM_CALL_VMM_UNMAP: return 5;
    default: return 0;
    }
}

bool gm_event_is_own_trim(const struct gm_event *e) {
    return e->action == GM_ACT_TRIM && e->call != GM_CALL_POOL_CREATE;
}

bool gm_event_is_call(const struct gm_event *e) {
    return e->call != GM_CALL_NONE && e->action != GM_ACT_RELEASE && e->action != GM_ACT_DROP &&
           !gm_event_is_own_trim(e);
}

uint64_t gm_live_block_stream(const struct gm_live_block *b) {
    return b->call == GM_CALL_VMM_MAP || gm_live_block_is_handle(b) ? 0 : b->stream;
}

uint64_t gm_live_block_address(const struct gm_live_block *b) { return b->key ^ space_of((enum gm_call)b->call) << 60; }

uint64_t gm_event_key(const struct gm_event *e) { return e->address ^ space_of((enum gm_call)e->call) << 60; }

uint64_t gm_handle_key(uint64_t handle) { return handle ^ space_of(GM_CALL_VMM_CREATE) << 60; }

bool gm_live_block_is_leak(const struct gm_live_block *b) {
    return (gm_live_block_allocates(b) || gm_live_block_is_handle(b)) && gm_kind_can_leak((enum gm_kind)b->kind);
}
