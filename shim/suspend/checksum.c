/* The kernel reads the addresses of the pages from pinned memory and writes the sums there (checksum.h). */
#include "shim/suspend/checksum.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/suspend/checksum_kernel.h"

#ifndef SYS_getrandom
#define SYS_getrandom (-1) /* Linux 3.17 */
#endif

enum { KERNELS = 16 };
#define P (((uint64_t)1 << 61) - 1)

static struct kernel {
    CUcontext context;
    uint64_t context_id; /* 0: unused */
    CUfunction function;
} kernels[KERNELS];
GM_ZERO_IN_CHILD(kernels);

static uint64_t keys[2]; /* the points */

/* The second argument of a polynomial must not be zero; whether it is drawn evenly to the last bit is of no account. */
static void draw_keys(void) {
    if (keys[0])
        return;
    if (syscall(SYS_getrandom, keys, sizeof keys, 0) != (long)sizeof keys)
        for (unsigned i = 0; i < 2; i++)
            keys[i] = (gm_ticks() + (uintptr_t)&keys) * (0x9e3779b97f4a7c15ull + 2 * i);
    for (unsigned i = 0; i < 2; i++)
        keys[i] = 1 + keys[i] % (P - 1);
}

/* The place of the context's kernel, or an unused one. NULL: all are in use. */
static struct kernel *place_of(const struct gm_context *context) {
    struct kernel *unused = NULL;
    for (unsigned i = 0; i < KERNELS; i++) {
        struct kernel *kernel = &kernels[i];
        if (kernel->context_id == context->id)
            return kernel;
        if (!kernel->context_id || gm_context_life(kernel->context, kernel->context_id) == GM_CONTEXT_DESTROYED)
            unused = kernel; /* its module ended with the context */
    }
    return unused;
}

/* The context is current. The module stays until its context ends. */
static gm_status find_kernel(const struct gm_context *context, CUfunction *function) {
    struct kernel *kernel = place_of(context);
    CUmodule module;
    if (!kernel)
        return GM_NOT_SUPPORTED;
    if (kernel->context_id != context->id) {
        gm_status status = gm_drv.module_load_data(&module, gm_checksum_text);
        if (!status)
            status = gm_drv.module_get_function(&kernel->function, module, GM_CHECKSUM_KERNEL);
        if (status)
            return status;
        kernel->context = context->handle;
        kernel->context_id = context->id;
    }
    *function = kernel->function;
    return GM_OK;
}

/* The context is current. `pinned` has room for the addresses and, behind them, for the sums. */
static gm_status compute(CUfunction function, uint64_t *pinned, const uint64_t *pages, unsigned count,
                         struct gm_checksum *sums) {
    CUstream stream;
    uint64_t *results = pinned + count + count % 2; /* written by 16 bytes */
    void *arguments[] = {&pinned, &results, &keys[0], &keys[1]};
    gm_status status = gm_drv.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    if (status)
        return status;
    memcpy(pinned, pages, count * sizeof *pages);
    status = gm_drv.launch_kernel(function, count, 1, 1, GM_CHECKSUM_BLOCK, 1, 1, 0, stream, arguments, NULL);
    gm_status last = gm_drv.stream_synchronize(stream);
    status = status ? status : last;
    if (!status)
        memcpy(sums, results, count * sizeof *sums);
    gm_drv.stream_destroy(stream);
    return status;
}

gm_status gm_checksums(const struct gm_context *context, const uint64_t *pages, unsigned count,
                       struct gm_checksum *sums) {
    CUcontext popped;
    CUfunction function;
    void *pinned;
    CUstreamCaptureMode mode = gm_capture_relax();
    gm_status status = gm_drv.ctx_push(context->handle);
    if (status)
        goto unrelax;
    draw_keys();
    status = find_kernel(context, &function);
    if (status)
        goto pop;
    status = gm_drv.mem_host_alloc(&pinned, (count + 1) * sizeof *pages + count * sizeof *sums, 0);
    if (status)
        goto pop;
    status = compute(function, pinned, pages, count, sums);
    gm_drv.mem_free_host(pinned);
pop:
    gm_drv.ctx_pop(&popped);
unrelax:
    gm_capture_unrelax(mode);
    return status;
}
