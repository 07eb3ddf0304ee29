/* A table of pitches by device, width class and element size, filled from the driver (pitch.h). */
#include "shim/resource/pitch.h"

/* Devices round a row up to a power of two that is at least this. So all widths of one class have the same pitch. */
#define CLASS ((size_t)32)

enum { ROWS = 128 };

static struct {
    size_t width; /* of the class; 0 = the row is empty */
    size_t pitch;
    int device;
    unsigned element_size;
} rows[ROWS];
GM_LOCK(lock);

static unsigned row_of_pitch(int device, size_t width, unsigned element_size) {
    return (unsigned)(width / CLASS * 31 + (unsigned)device * 7 + element_size) % ROWS;
}

static gm_status query_driver(size_t width, unsigned element_size, size_t *pitch) {
    CUdeviceptr probe;
    gm_status status = gm_drv.mem_alloc_pitch(&probe, pitch, width, 1, element_size);
    if (status)
        return status;
    /* One more try, because the probe would leak. */
    status = gm_drv.mem_free(probe);
    return status ? (gm_status)gm_drv.mem_free(probe) : status;
}

static size_t cached_pitch(unsigned row, int device, size_t width, unsigned element_size) {
    size_t pitch = 0;
    gm_spin_lock(&lock);
    if (rows[row].width == width && rows[row].device == device && rows[row].element_size == element_size)
        pitch = rows[row].pitch;
    gm_spin_unlock(&lock);
    return pitch;
}

static gm_status find_pitch(const struct gm_request *request, size_t width, size_t *pitch) {
    unsigned row = row_of_pitch(request->device, width, request->element_size);
    CUstreamCaptureMode mode;
    *pitch = cached_pitch(row, request->device, width, request->element_size);
    if (*pitch)
        return GM_OK;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    gm_status status = query_driver(width, request->element_size, pitch);
    gm_capture_guard_leave(mode);
    if (status)
        return status;
    gm_spin_lock(&lock);
    rows[row].width = width;
    rows[row].pitch = *pitch;
    rows[row].device = request->device;
    rows[row].element_size = request->element_size;
    gm_spin_unlock(&lock);
    return GM_OK;
}

gm_status gm_shape_of(const struct gm_request *request, struct gm_piece *piece) {
    size_t width = request->width, pitch;
    piece->reserved = request->size;
    piece->pitch = 0;
    if (request->call != GM_CALL_ALLOC_PITCH)
        return GM_OK;
    if (!width || !request->height || width > SIZE_MAX - CLASS)
        return GM_NOT_SUPPORTED;
    gm_status status = find_pitch(request, (width + CLASS - 1) / CLASS * CLASS, &pitch);
    if (status)
        return status;
    piece->pitch = pitch;
    return __builtin_mul_overflow(pitch, request->height, &piece->reserved) ? GM_OUT_OF_MEMORY : GM_OK;
}
