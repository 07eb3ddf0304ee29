/* A trace as objects: each block with its creation and destruction, and the order of these. The oracle and the plans
 * evaluate placements on it.
 *
 * The id of an object is its position, from 1, among the requests that a policy may move (gm_call_is_movable), in the
 * order of the trace. Failed requests count, except those without a context, which the CUDA runtime repeats. Policies
 * number requests in the same way, so one thread's ids are the same in every run of a deterministic program. */
#ifndef GM_OBJECTS_H
#define GM_OBJECTS_H

#include "policy/policy.h"
#include "policy/site_key.h"
#include "tools/cli/reader.h"

#define GM_NEVER UINT64_MAX

struct gm_object {
    uint64_t bytes;                    /* requested */
    uint64_t created_ns, destroyed_ns; /* since the trace began; GM_NEVER: alive at its end */
    uint64_t stream;
    uint32_t id;           /* 0: not movable */
    uint32_t site, thread; /* site: index in gm_objects.sites; thread: number from 1, as policies count them */
    uint32_t slack;
    int8_t device;
    uint8_t call, kind, reason, verdict, flags;
    bool failed; /* the request failed */
};

/* A call site, named so that other runs can match it. */
struct gm_object_site {
    struct gm_site_keys keys;
    char *text; /* "" = unknown */
};

struct gm_objects {
    struct gm_object *list;
    size_t count, room;
    uint32_t *order; /* index of the object << 1, plus 1 for its destruction */
    size_t order_count, order_room;
    struct gm_object_site *sites; /* [0] is the unknown site; numbers of the trace with one name share an entry */
    size_t site_count;
    uint32_t movable; /* the largest id */
    uint64_t end_ns;
    uint64_t device_bytes[64]; /* memory of each device in the trace, else 0 */
};

/* Numbers threads as policies do: from 1 in the order of their first request. A zeroed struct is empty. */
struct gm_thread_numbers {
    struct gm_thread_number *threads, *latest;
};
uint32_t gm_thread_number(struct gm_thread_numbers *numbers, int thread); /* 0 = no memory */
void gm_thread_numbers_free(struct gm_thread_numbers *numbers);

/* Names a call site so that other runs can match it. The trace's definitions must be complete. `text` NULL: keys
 * only. */
enum { GM_SITE_TEXT = GM_SITE_KEY_FRAMES * (GM_SITE_FRAME_TEXT + 1) };
void gm_site_name(struct gm_reader *reader, const struct gm_site *site, struct gm_site_keys *keys,
                  char text[GM_SITE_TEXT]);

/* Reads the rest of the trace. Owned by the caller. NULL: no memory, or more than 2^31 objects. */
struct gm_objects *gm_objects_read(struct gm_reader *reader);
void gm_objects_free(struct gm_objects *objects);

/* The request that created the object, as a policy receives it. */
struct gm_request gm_object_request(const struct gm_objects *objects, const struct gm_object *object);

static inline uint64_t gm_object_lifetime(const struct gm_object *object) {
    return object->destroyed_ns == GM_NEVER ? GM_NEVER : object->destroyed_ns - object->created_ns;
}
static inline unsigned gm_object_device(const struct gm_object *object) {
    return object->device > 0 && object->device < 64 ? (unsigned)object->device : 0;
}

#endif
