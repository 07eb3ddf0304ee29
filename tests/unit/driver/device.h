/* A device that does nothing before somebody waits for it, and a driver for it (gm_drv). It knows for each item of
 * work what must be done before. Each call of the driver is a point of the explorer (interleave.h). Calls that the true
 * driver forbids are faults: those that invalidate a capture, and those that use what a destroyed context had. */
#ifndef GM_TEST_DEVICE_H
#define GM_TEST_DEVICE_H

#include "shim/driver/driver.h"

enum { CONTEXTS = 2, EVENTS = 24 };
/* The legacy default stream of the first context, a blocking and a non-blocking stream, the default streams of both
 * threads and of the main thread, and the legacy default stream of the second context. */
enum stream { LEGACY, BLOCKING, NON_BLOCKING, OWN_FIRST, OWN_LAST = OWN_FIRST + 2, LEGACY_SECOND, STREAMS };

typedef uint32_t items; /* a bit for each item of work */

extern struct device {
    items submitted, done, faulty, before[32]; /* before: all that must be done before the item begins */
    struct {
        bool lives;
        items of; /* its items */
        gm_status fault;
    } contexts[CONTEXTS];
    struct {
        bool exists, captures;
        items tail, behind; /* what the next item runs behind; also one that may overtake work of its stream */
    } streams[STREAMS];
    struct {
        bool exists;
        uint8_t context;
        items covers;
    } events[EVENTS];
    uint8_t capturing, event_count; /* streams that capture; events that were created */
    bool refuses_event;             /* the next event cannot be created */
    struct {
        uint8_t context, pushed[4], depth;
        CUstreamCaptureMode mode;
    } threads[3];
    void (*waits)(items covered, bool all); /* somebody begins to wait for these; all: as a native free does */
} device;

CUcontext device_handle(unsigned context);
void device_use(bool records_contexts);
/* The program's own calls. False: the driver refuses. */
bool device_submit(enum stream stream, unsigned item, bool overtakes, items *behind);
bool device_synchronise(unsigned context);
void device_make(unsigned context);
void device_destroy(unsigned context);
static inline unsigned device_context_of(enum stream stream) { return stream == LEGACY_SECOND; }

#endif
