/* Shared by the files of this folder: the residency of gpumem_residency.h and its parts.
 *
 * An object is host memory, or the result of GPU work. Its copy is device memory. A copy that ends, because it is
 * dropped or evicted, goes to the free pool with the events of the work that still uses it; the next user of that
 * memory waits for them on the device.
 *
 * Two locks. `placement` is held by the one thread that places, transfers to the host or frees; it may wait for the
 * device. `state` guards all fields, is taken inside `placement`, and is released while the thread waits, copies on the
 * host, or allocates. Transfers to the device need no `placement`: an acquire gives it up when its objects are placed.
 * They are in use then, so that nobody evicts, ends or changes them.
 *
 * An object whose bytes move without `state` is `busy`, and other threads that need it wait for `moved`. A thread has
 * at most one busy object, takes no `placement` while it has one, and waits for no other one meanwhile.
 *
 * Unless said otherwise, functions are called with the context current and `state` held. Those that say "places" also
 * need `placement`, and release `state` for a while. */
#ifndef GM_RESIDENCY_H
#define GM_RESIDENCY_H

#include <pthread.h>
#include <sys/types.h>

#include "policy/eviction/eviction.h"
#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/base/futex.h"
#include "shim/driver/driver.h"
#include "shim/driver/program_driver.h"
#include "shim/gpumem_residency.h"

/* Chunks of staging memory of one direction; pieces of a chunk; the most threads that copy besides the calling one. */
enum { GM_RESIDENCY_SLOTS = 8, GM_RESIDENCY_PIECES = 8, GM_RESIDENCY_COPIERS = 63 };

/* Device memory of an object, or of the free pool. */
struct gm_residency_copy {
    CUdeviceptr address;
    size_t bytes;
    CUevent written; /* the last work that writes it; NULL: none */
    CUevent *read;   /* work that reads it since */
    unsigned read_count, read_room;
    bool unfenced; /* some work has no event: whoever needs it waits for the context */
    bool evicted;  /* in the free pool: for the object that is being placed */
};

/* Pinned host memory that gpumem allocated for a GPU-only object. */
struct gm_residency_home {
    void *address;
    size_t bytes;
    CUevent work; /* the last transfer that uses it, while no object does */
    struct gm_residency_home *next;
};

struct gm_residency_object {
    /* the host's side */
    struct gpumem_part *parts; /* `single` where the object is one piece */
    struct gpumem_part single;
    size_t part_count, bytes;
    uint64_t version;
    struct gm_residency_home *home;
    CUevent host_work;   /* the last transfer that uses the host memory after its call; NULL: none */
    uint32_t registered; /* times; 0: the number is free */
    uint32_t generation; /* objects that had the number before */
    uint32_t next;       /* in its bucket, or free number; GM_RESIDENCY_NONE: none */
    bool gpu_only;
    /* the device's side */
    struct gm_residency_copy *copy;
    uint32_t readers; /* uses for reading */
    uint64_t named;   /* number of the last acquire that named it */
    bool writing;     /* in use for writing */
    bool resident;    /* known to the policy as on the device */
    bool busy;        /* its bytes are being moved, without `state` */
    bool drop;        /* the copy ends with the last use */
    bool keep;        /* the bytes of a dropped GPU-only object go to its home */
    bool stuck;       /* during a search for memory: its host memory is gone, so it cannot be evicted */
    /* who holds the latest bytes; neither: they were never written */
    bool on_host, on_device;
};

#define GM_RESIDENCY_NONE UINT32_MAX

/* A use that the program holds, or a place for one. */
struct gm_residency_held {
    uint32_t object;     /* index; GM_RESIDENCY_NONE: the place is free */
    uint32_t generation; /* uses that had the place before */
    uint32_t next;       /* free place; GM_RESIDENCY_NONE: none */
    bool ending;         /* the release under way names it */
};

/* One direction of transfers. */
struct gm_residency_way {
    CUstream stream;
    char *staging; /* GM_RESIDENCY_SLOTS chunks of pinned memory */
    size_t chunk;
    CUevent busy[GM_RESIDENCY_SLOTS]; /* the last copy that uses the slot */
    bool pinning;                     /* a thread allocates the staging memory */
    unsigned next;                    /* the slot used longest ago; this and `taken`: guarded by the lock of copying */
    bool taken[GM_RESIDENCY_SLOTS];   /* by a job */
};

/* One object on its way through staging memory. Chunk N is in slots[N % GM_RESIDENCY_SLOTS]. */
struct gm_residency_job {
    const struct gm_residency_object *object;
    struct gm_residency_way *way;
    bool to_staging;
    size_t opened, next;               /* pieces that may be copied, and the next of them */
    unsigned left[GM_RESIDENCY_SLOTS]; /* pieces of the chunk that are not copied yet */
    unsigned slots[GM_RESIDENCY_SLOTS];
};

/* The threads that copy, and the job that they serve. */
struct gm_residency_copying {
    pthread_mutex_t lock; /* taken last; guards the fields and those of the jobs */
    struct gm_condition opened, copied, given;
    struct gm_residency_job *job;
    unsigned wanted, openings;
    uint32_t living; /* threads that may still use this; not guarded by the lock */
    pid_t process;   /* that made them */
    bool made, ends;
};

struct gpumem_residency {
    const struct gm_driver *driver;
    struct gm_context context;
    pthread_mutex_t placement, state;
    struct gm_condition moved; /* an object is no longer busy */
    struct gm_residency_copying copying;
    size_t budget;
    void *(*allocate)(size_t bytes, void *user); /* NULL: of the driver */
    void (*release)(void *address, size_t bytes, void *user);
    void *user;
    struct gm_condition released; /* a use has ended */
    size_t uses;                  /* that have begun and not ended */
    struct gm_residency_held *held;
    uint32_t held_room, held_free;
    uint64_t flags;
    struct gm_eviction *eviction;

    struct gm_residency_object *objects;
    uint32_t object_room, object_count;      /* numbers there may be, numbers used so far */
    uint32_t free_first, free_last;          /* numbers of ended objects, the oldest first */
    uint32_t *buckets, bucket_mask, *vector; /* objects by address; the vector being announced */
    uint32_t window;
    uint64_t acquires;

    struct gm_residency_copy **pool; /* the free pool by size, the oldest of one size first; room for every copy */
    unsigned pool_count, pool_room, copy_count;
    size_t allocated; /* bytes of copies and free pool */
    CUevent *events;  /* for the next recordings */
    unsigned event_count, event_room;
    struct gm_residency_home *homes;
    struct gm_residency_way to_device, to_host;
    struct gpumem_residency_stats stats;
};

static inline bool gm_in_use(const struct gm_residency_object *object) { return object->readers || object->writing; }

/* ---- call.c */
struct gm_residency_call {
    CUstreamCaptureMode mode;
    bool pushed, places;
};
/* Makes the context current and takes `state`, behind `placement` where the call places. On failure nothing is held. */
GM_INTERNAL gm_status gm_residency_enter(struct gpumem_residency *r, struct gm_residency_call *call, bool places);
GM_INTERNAL void gm_residency_leave(struct gpumem_residency *r, struct gm_residency_call *call);
/* Takes `placement` as well. What was read under `state` before has to be read again. */
GM_INTERNAL void gm_residency_begin_placing(struct gpumem_residency *r, struct gm_residency_call *call);
/* Waits, without `placement`, until some object may be no longer busy. What was read before has to be read again. */
GM_INTERNAL void gm_residency_await_move(struct gpumem_residency *r, struct gm_residency_call *call);
/* The object is no longer busy. */
GM_INTERNAL void gm_residency_moved(struct gpumem_residency *r, struct gm_residency_object *object);
/* Gives `placement` up again. */
GM_INTERNAL void gm_residency_end_placing(struct gpumem_residency *r, struct gm_residency_call *call);
static inline void gm_residency_pause(struct gpumem_residency *r) { pthread_mutex_unlock(&r->state); }
static inline void gm_residency_resume(struct gpumem_residency *r) { pthread_mutex_lock(&r->state); }
/* GM_STREAM_CAPTURE, with its text, where the stream captures. */
GM_INTERNAL gm_status gm_residency_check_stream(CUstream stream);

/* ---- objects.c */
/* NULL, with the text of GM_NOT_FOUND, where there is no such object. */
GM_INTERNAL struct gm_residency_object *gm_residency_find(struct gpumem_residency *r, uint64_t number);
GM_INTERNAL uint64_t gm_residency_number(const struct gpumem_residency *r, const struct gm_residency_object *object);
static inline uint32_t gm_residency_index(const struct gpumem_residency *r, const struct gm_residency_object *object) {
    return (uint32_t)(object - r->objects);
}

/* ---- uses.c */
/* Room for as many numbers as there are uses. False: no host memory. */
GM_INTERNAL bool gm_residency_reserve_uses(struct gpumem_residency *r);
/* The number of a use that begins; there is room for it. */
GM_INTERNAL uint64_t gm_residency_hold(struct gpumem_residency *r, const struct gm_residency_object *object);
/* NULL: the use was not acquired, or has ended. */
GM_INTERNAL struct gm_residency_held *gm_residency_held(struct gpumem_residency *r, const struct gpumem_use *use);
GM_INTERNAL void gm_residency_let_go(struct gpumem_residency *r, struct gm_residency_held *held);

/* ---- work.c: the events of a copy */
/* Work submitted to the stream later waits for the copy's writer and, where it writes, for its readers. */
GM_INTERNAL gm_status gm_residency_order(struct gpumem_residency *r, struct gm_residency_copy *copy, CUstream stream,
                                         bool writes);
/* All work submitted to the stream so far may use the copy. A writer was ordered behind everything before it. On
 * failure the copy is unfenced. */
GM_INTERNAL gm_status gm_residency_record(struct gpumem_residency *r, struct gm_residency_copy *copy, CUstream stream,
                                          bool writes);
/* Waits in this thread for all work that uses the copy. Places. */
GM_INTERNAL gm_status gm_residency_wait(struct gpumem_residency *r, struct gm_residency_copy *copy);
GM_INTERNAL gm_status gm_residency_event_take(struct gpumem_residency *r, CUevent *event);
GM_INTERNAL void gm_residency_event_put(struct gpumem_residency *r, CUevent event);
/* Forgets all work of the copy. */
GM_INTERNAL void gm_residency_forget(struct gpumem_residency *r, struct gm_residency_copy *copy);

/* ---- pool.c: memory of the device */
/* NULL: the free pool has none of this size. */
GM_INTERNAL struct gm_residency_copy *gm_residency_reuse(struct gpumem_residency *r, size_t bytes);
/* Places. GM_OUT_OF_MEMORY: the driver has none. */
GM_INTERNAL gm_status gm_residency_allocate(struct gpumem_residency *r, size_t bytes, struct gm_residency_copy **copy);
/* Frees the largest block of the free pool, which is not empty, behind its work. Places. On failure it stays there. */
GM_INTERNAL gm_status gm_residency_give_back(struct gpumem_residency *r);
/* The copy ended: to the free pool. Without a free pool it is freed, which places; on failure it is in the pool. */
GM_INTERNAL gm_status gm_residency_retire(struct gpumem_residency *r, struct gm_residency_copy *copy);
/* Frees the copy, whose work is done. Releases `state` meanwhile. */
GM_INTERNAL void gm_residency_free_copy(struct gpumem_residency *r, struct gm_residency_copy *copy);

/* ---- copying.c: copies between host memory and staging memory. Called without `state`. */
/* Threads that copy a large transfer, the calling one included: one for each processor, up to a limit. */
GM_INTERNAL unsigned gm_residency_copy_threads(void);
GM_INTERNAL void gm_residency_copying_open(struct gm_residency_copying *copying, unsigned threads);
/* Ends the threads, and returns when none of them uses the residency any more. */
GM_INTERNAL void gm_residency_copying_close(struct gm_residency_copying *copying);
/* A slot for the chunk. Where all are taken: waits for one, or returns false. */
GM_INTERNAL bool gm_residency_slot_take(struct gm_residency_copying *copying, struct gm_residency_job *job,
                                        size_t chunk, bool waits);
GM_INTERNAL void gm_residency_slot_give(struct gm_residency_copying *copying, struct gm_residency_job *job,
                                        size_t chunk);
/* Asks the threads to help with the job, if it is large and they serve no other. */
GM_INTERNAL void gm_residency_job_begin(struct gm_residency_copying *copying, struct gm_residency_job *job);
/* The chunk may be copied. Chunks are opened in their order. */
GM_INTERNAL void gm_residency_job_open(struct gm_residency_copying *copying, struct gm_residency_job *job,
                                       size_t chunk);
/* Copies until all of the chunk is copied. */
GM_INTERNAL void gm_residency_job_finish(struct gm_residency_copying *copying, struct gm_residency_job *job,
                                         size_t chunk);
/* All opened chunks are finished. */
GM_INTERNAL void gm_residency_job_end(struct gm_residency_copying *copying, struct gm_residency_job *job);
static inline char *gm_residency_slot(const struct gm_residency_job *job, size_t chunk) {
    return job->way->staging + job->slots[chunk % GM_RESIDENCY_SLOTS] * job->way->chunk;
}
static inline char *gm_residency_part(const struct gm_residency_object *object, size_t part, size_t offset) {
    void *address = object->parts[part].address;
    return address ? (char *)address : (char *)object->home->address + offset;
}

/* ---- transfer.c. Both order themselves behind the work that uses the copy. */
/* The copy, of an object in use that is not busy, gets the bytes of the host. Releases `state` meanwhile. */
GM_INTERNAL gm_status gm_residency_to_device(struct gpumem_residency *r, struct gm_residency_object *object);
/* The host gets the bytes of the copy; those of a GPU-only object go to its home, which is allocated where needed. The
 * time is added to *spent, a field of the statistics. Places. */
GM_INTERNAL gm_status gm_residency_to_host(struct gpumem_residency *r, struct gm_residency_object *object,
                                           uint64_t *spent);
/* Waits until no transfer submitted so far uses the object's host memory. Releases `state` meanwhile; without
 * `placement` another thread may end the object then. */
GM_INTERNAL gm_status gm_residency_wait_host(struct gpumem_residency *r, struct gm_residency_object *object);
/* The object's home is for another one now. */
GM_INTERNAL void gm_residency_leave_home(struct gpumem_residency *r, struct gm_residency_object *object);
/* Frees the homes that no object uses. Their transfers are done. */
GM_INTERNAL void gm_residency_free_homes(struct gpumem_residency *r);

/* ---- release.c */
/* The object's copy ends without a transfer; it is not in use. As gm_residency_retire(). */
GM_INTERNAL gm_status gm_residency_end_copy(struct gpumem_residency *r, struct gm_residency_object *object,
                                            bool evicted);
/* The last use of a resident object ended: the copy may be evicted now, or ends at once, which places where the host's
 * bytes are old. */
GM_INTERNAL gm_status gm_residency_last_use(struct gpumem_residency *r, struct gm_residency_object *object, bool ends);

#endif
