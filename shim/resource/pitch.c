/* The pitch of each device and element size, found out by one small allocation (pitch.h). */
#include "shim/resource/pitch.h"

enum { DEVICES = 64, ELEMENTS = 17 };

static size_t alignments[DEVICES][ELEMENTS]; /* 0 = not known yet */

/* Devices round a row up to a multiple of one power of two: that of a row of one byte is the pitch of such a row. The
 * probe stays: to free it would wait for all work of the context, which natively this call does not. */
static gm_status find_alignment(int device, unsigned element_size, size_t *alignment) {
    size_t *known = &alignments[device][element_size];
    CUstreamCaptureMode mode;
    CUdeviceptr probe;
    *alignment = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (*alignment)
        return GM_OK;
    if (!gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    gm_status status = gm_drv.mem_alloc_pitch(&probe, alignment, 1, 1, element_size);
    gm_capture_guard_leave(mode);
    if (!status && (*alignment & (*alignment - 1)))
        status = GM_NOT_SUPPORTED;
    if (!status)
        __atomic_store_n(known, *alignment, __ATOMIC_RELAXED);
    return status;
}

gm_status gm_shape_of(const struct gm_request *request, struct gm_piece *piece) {
    size_t width = request->width, alignment;
    piece->reserved = request->size;
    piece->pitch = 0;
    if (request->call != GM_CALL_ALLOC_PITCH)
        return GM_OK;
    if (!width || !request->height || request->device < 0 || request->device >= DEVICES ||
        request->element_size >= ELEMENTS)
        return GM_NOT_SUPPORTED;
    gm_status status = find_alignment(request->device, request->element_size, &alignment);
    if (status)
        return status;
    if (width > SIZE_MAX - alignment)
        return GM_NOT_SUPPORTED;
    piece->pitch = (width + alignment - 1) & ~(alignment - 1);
    return __builtin_mul_overflow(piece->pitch, request->height, &piece->reserved) ? GM_OUT_OF_MEMORY : GM_OK;
}
