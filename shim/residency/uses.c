/* Uses that the program holds. Each has a number, so that a second release of one does not end another of the object.
 */
#include "shim/residency/parts.h"

#include <stdlib.h>

enum { FIRST_ROOM = 64 };

bool gm_residency_reserve_uses(struct gpumem_residency *r) {
    size_t room = r->held_room ? r->held_room : FIRST_ROOM;
    while (room < r->uses)
        room *= 2;
    if (room == r->held_room)
        return true;
    struct gm_residency_held *held = room < UINT32_MAX ? realloc(r->held, room * sizeof *held) : NULL;
    if (!held)
        return false;
    for (size_t i = r->held_room; i < room; i++) {
        held[i] = (struct gm_residency_held){.object = GM_RESIDENCY_NONE, .next = r->held_free};
        r->held_free = (uint32_t)i;
    }
    r->held = held;
    r->held_room = (uint32_t)room;
    return true;
}

uint64_t gm_residency_hold(struct gpumem_residency *r, const struct gm_residency_object *object) {
    const uint32_t index = r->held_free;
    struct gm_residency_held *held = &r->held[index];
    r->held_free = held->next;
    held->object = gm_residency_index(r, object);
    return (uint64_t)held->generation << 32 | (index + 1);
}

struct gm_residency_held *gm_residency_held(struct gpumem_residency *r, const struct gpumem_use *use) {
    const uint32_t index = (uint32_t)use->number - 1;
    struct gm_residency_held *held = index < r->held_room ? &r->held[index] : NULL;
    const bool same = held && held->object != GM_RESIDENCY_NONE && held->generation == use->number >> 32 &&
                      gm_residency_number(r, &r->objects[held->object]) == use->object;
    return same ? held : NULL;
}

void gm_residency_let_go(struct gpumem_residency *r, struct gm_residency_held *held) {
    *held = (struct gm_residency_held){
        .object = GM_RESIDENCY_NONE, .generation = held->generation + 1, .next = r->held_free};
    r->held_free = (uint32_t)(held - r->held);
}
