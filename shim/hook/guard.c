/* Looks at copies, fills and launches before they are made, and at results after them (guard.h).
 *
 * A call whose result matters continues at a function that makes the call with the same arguments. All of them are
 * integers or pointers, and no call here has more than eleven. */
#include "shim/hook/guard.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/options.h"
#include "shim/base/room.h"
#include "shim/driver/in_flight.h"
#include "shim/explain/access.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/hook.h"
#include "shim/hook/guard_graphs.h"
#include "shim/hook/kernels.h"
#include "shim/pipeline/guard.h"
#include "shim/resource/guard.h"
#include "shim/resource/guard_closing.h"
#include "shim/resource/guard_pattern.h"
#include "shim/sites/site.h"

static bool blocking, ignores_races;

/* ---- what each call does, by its name */

enum class {
    UNKNOWN,
    OTHER,
    LAUNCH,       /* function, grid, block, shared, stream, parameters, extra */
    LAUNCH_EX,    /* configuration, function, parameters, extra */
    LAUNCH_GRAPH, /* instance, stream */
    CHANGE_GRAPH, /* instance */
    UPDATE_GRAPH, /* instance, graph */
    LINEAR,       /* destination, source, size: each may be an argument */
    ROWS,         /* CUDA_MEMCPY2D, CUDA_MEMCPY3D */
    VOLUME,
    BATCH,   /* destinations, sources, sizes, count */
    VOLUMES, /* count, CUDA_MEMCPY3D_BATCH_OP of each */
    PLANE,   /* destination, pitch, value, width, height */
    WAIT_CONTEXT,
    WAIT_STREAM,
    WAIT_EVENT,
    UNLOAD,
};
#define IS_LAUNCH(class) ((class) >= LAUNCH && (class) <= LAUNCH_GRAPH)
#define IS_WAIT(class)   ((class) >= WAIT_CONTEXT && (class) <= WAIT_EVENT)

enum { NONE = 15 };
static const struct row {
    const char *name;
    uint8_t class, to, from, size; /* LINEAR: indices of arguments, NONE: it has none. PLANE: `size` of an element */
    uint8_t element;               /* LINEAR: bytes that `size` counts */
} rows[] = {
    {"cuLaunchKernel", LAUNCH, 0, 0, 0, 0},
    {"cuLaunchCooperativeKernel", LAUNCH, 0, 0, 0, 0},
    {"cuLaunchKernelEx", LAUNCH_EX, 0, 0, 0, 0},
    {"cuGraphLaunch", LAUNCH_GRAPH, 0, 0, 0, 0},
    {"cuGraphExecUpdate", UPDATE_GRAPH, 0, 0, 0, 0},
    {"cuGraphExecNodeSetParams", CHANGE_GRAPH, 0, 0, 0, 0},
    {"cuGraphExecDestroy", CHANGE_GRAPH, 0, 0, 0, 0},
    {"cuMemcpy", LINEAR, 0, 1, 2, 1},
    {"cuMemcpyAsync", LINEAR, 0, 1, 2, 1},
    {"cuMemcpyWithAttributesAsync", LINEAR, 0, 1, 2, 1},
    {"cuMemcpyPeer", LINEAR, 0, 2, 4, 1},
    {"cuMemcpyPeerAsync", LINEAR, 0, 2, 4, 1},
    {"cuMemcpyHtoD", LINEAR, 0, NONE, 2, 1},
    {"cuMemcpyHtoDAsync", LINEAR, 0, NONE, 2, 1},
    {"cuMemcpyDtoH", LINEAR, NONE, 1, 2, 1},
    {"cuMemcpyDtoHAsync", LINEAR, NONE, 1, 2, 1},
    {"cuMemcpyDtoD", LINEAR, 0, 1, 2, 1},
    {"cuMemcpyDtoDAsync", LINEAR, 0, 1, 2, 1},
    {"cuMemcpyDtoA", LINEAR, NONE, 2, 3, 1},
    {"cuMemcpyAtoD", LINEAR, 0, NONE, 3, 1},
    {"cuMemcpy2D", ROWS, 0, 0, 0, 0},
    {"cuMemcpy2DUnaligned", ROWS, 0, 0, 0, 0},
    {"cuMemcpy2DAsync", ROWS, 0, 0, 0, 0},
    {"cuMemcpy3D", VOLUME, 0, 0, 0, 0},
    {"cuMemcpy3DAsync", VOLUME, 0, 0, 0, 0},
    {"cuMemcpy3DPeer", VOLUME, 0, 0, 0, 0},
    {"cuMemcpy3DPeerAsync", VOLUME, 0, 0, 0, 0},
    {"cuMemcpyBatchAsync", BATCH, 0, 0, 0, 0},
    {"cuMemcpy3DBatchAsync", VOLUMES, 0, 0, 0, 0},
    {"cuMemsetD8", LINEAR, 0, NONE, 2, 1},
    {"cuMemsetD16", LINEAR, 0, NONE, 2, 2},
    {"cuMemsetD32", LINEAR, 0, NONE, 2, 4},
    {"cuMemsetD8Async", LINEAR, 0, NONE, 2, 1},
    {"cuMemsetD16Async", LINEAR, 0, NONE, 2, 2},
    {"cuMemsetD32Async", LINEAR, 0, NONE, 2, 4},
    {"cuMemsetD2D8", PLANE, 0, 0, 1, 0},
    {"cuMemsetD2D16", PLANE, 0, 0, 2, 0},
    {"cuMemsetD2D32", PLANE, 0, 0, 4, 0},
    {"cuMemsetD2D8Async", PLANE, 0, 0, 1, 0},
    {"cuMemsetD2D16Async", PLANE, 0, 0, 2, 0},
    {"cuMemsetD2D32Async", PLANE, 0, 0, 4, 0},
    {"cuCtxSynchronize", WAIT_CONTEXT, 0, 0, 0, 0},
    {"cuStreamSynchronize", WAIT_STREAM, 0, 0, 0, 0},
    {"cuStreamQuery", WAIT_STREAM, 0, 0, 0, 0},
    {"cuEventSynchronize", WAIT_EVENT, 0, 0, 0, 0},
    {"cuEventQuery", WAIT_EVENT, 0, 0, 0, 0},
    {"cuModuleUnload", UNLOAD, 0, 0, 0, 0},
};

static const struct row other = {"", OTHER, 0, 0, 0, 0};

/* Variants older than CUDA 4.0 have addresses of 32 bits and other structs. */
static bool has_old_form(const struct gm_call_row *call) {
    return call->version < 3020 && (!strncmp(call->name, "cuMemcpy", 8) || !strncmp(call->name, "cuMemset", 8));
}

static const struct row *row_of(const struct gm_called *call) {
    static const struct row *known[GM_CALL_ROWS];
    if (GM_UNLIKELY(call->number >= GM_CALL_ROWS))
        return &other;
    const struct row *row = __atomic_load_n(&known[call->number], __ATOMIC_RELAXED);
    if (GM_LIKELY(row != NULL))
        return row;
    row = &other;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !has_old_form(call->row); i++)
        if (!strcmp(call->row->name, rows[i].name))
            row = &rows[i];
    __atomic_store_n(&known[call->number], row, __ATOMIC_RELAXED);
    return row;
}

/* ---- the order of streams */

/* Under all, no call passes unseen that may order streams. */
static bool sees_order(CUstream stream) {
    return gm_guard_every == 1 && !ignores_races && gm_guard_order_now() && stream > CU_STREAM_PER_THREAD &&
           !gm_capture_any();
}

/* Memory in the order of another stream, behind which nothing has ordered this one. */
static bool is_early(const struct gm_guard_block *block, CUstream stream) {
    return block->in_order && block->stream != (uintptr_t)stream && block->order == gm_guard_order_now() &&
           sees_order(stream);
}

/* ---- copies and fills
 *
 * One that leaves a guarded block, or uses a freed one, is refused as natively. The driver refuses some of them, but
 * makes a copy of rows or of a batch that begins in mapped memory: the device faults then, or damages the pattern. */

static uint32_t site_of(const struct gm_called *call) { return gm_site_find(call->caller, (uintptr_t)call->stack); }

/* False: it leaves a guarded block, and this was explained. */
static bool look_at_range(const struct gm_called *call, bool writes, uint64_t address, size_t size) {
    struct gm_guard_block block;
    if (GM_LIKELY(!gm_guard_covers(address)) || !size || !gm_guard_find(address, &block))
        return true;
    bool inside = address >= block.address && address + size <= block.address + block.size;
    bool right = inside && block.state == GM_GUARD_LIVE, early = right && is_early(&block, gm_called_stream(call));
    if (GM_LIKELY(right && !early))
        return true;
    struct gm_access access = {call->row->name, site_of(call), writes, address, size};
    if (early)
        gm_explain_early_copy(&access, &block);
    else
        gm_explain_access(&access, &block);
    return right;
}

static size_t span(size_t width, size_t height, size_t depth, size_t pitch, size_t layer) {
    return width && height && depth ? (depth - 1) * layer + (height - 1) * pitch + width : 0;
}

#define ON_DEVICE(type) ((type) == CU_MEMORYTYPE_DEVICE || (type) == CU_MEMORYTYPE_UNIFIED)
#define LOOK_AT_END(call, copy, end, writes, depth, z, rows)                                                        \
    ({                                                                                                              \
        size_t pitch = (copy)->end##Pitch ? (copy)->end##Pitch : (copy)->WidthInBytes, layer = pitch * (rows);      \
        !ON_DEVICE((copy)->end##MemoryType) ||                                                                      \
            look_at_range(call, writes,                                                                             \
                          (copy)->end##Device + (copy)->end##XInBytes + (copy)->end##Y * pitch + (size_t)(z)*layer, \
                          span((copy)->WidthInBytes, (copy)->Height, depth, pitch, layer));                         \
    })

static bool look_at_rows(const struct gm_called *call, const CUDA_MEMCPY2D *copy) {
    return !copy || (LOOK_AT_END(call, copy, src, false, 1, 0, 0) & LOOK_AT_END(call, copy, dst, true, 1, 0, 0));
}

/* CUDA_MEMCPY3D_PEER has the same members in the same places, and contexts where the other has reserved ones. */
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) &&
                   offsetof(CUDA_MEMCPY3D, dstPitch) == offsetof(CUDA_MEMCPY3D_PEER, dstPitch) &&
                   offsetof(CUDA_MEMCPY3D, Depth) == offsetof(CUDA_MEMCPY3D_PEER, Depth),
               "one form");
static bool look_at_volume(const struct gm_called *call, const CUDA_MEMCPY3D *copy) {
    if (!copy)
        return true;
    size_t from = copy->srcHeight ? copy->srcHeight : copy->Height,
           to = copy->dstHeight ? copy->dstHeight : copy->Height;
    return LOOK_AT_END(call, copy, src, false, copy->Depth, copy->srcZ, from) &
           LOOK_AT_END(call, copy, dst, true, copy->Depth, copy->dstZ, to);
}

/* Before CUDA 13 a batch returns the index of the first copy at fault; `argument`: where. */
static bool is_inside(const struct gm_called *call, unsigned argument, size_t i, bool inside) {
    size_t *at_fault = call->row->version < 13000 ? gm_pointer_argument(call, argument) : NULL;
    if (!inside && at_fault)
        *at_fault = i;
    return inside;
}

static bool look_at_batch(const struct gm_called *call) {
    const CUdeviceptr *to = gm_pointer_argument(call, 0), *from = gm_pointer_argument(call, 1);
    const size_t *sizes = gm_pointer_argument(call, 2), count = gm_argument(call, 3);
    bool inside = true;
    for (size_t i = 0; to && from && sizes && i < count && inside; i++)
        inside = is_inside(call, 7, i,
                           look_at_range(call, false, from[i], sizes[i]) & look_at_range(call, true, to[i], sizes[i]));
    return inside;
}

static bool look_at_operand(const struct gm_called *call, bool writes, const CUmemcpy3DOperand *operand,
                            const CUextent3D *extent) {
    size_t pitch = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width,
           rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
    return operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
           look_at_range(call, writes, operand->op.ptr.ptr,
                         span(extent->width, extent->height, extent->depth, pitch, pitch * rows));
}

static bool look_at_volumes(const struct gm_called *call) {
    const CUDA_MEMCPY3D_BATCH_OP *copies = gm_pointer_argument(call, 1);
    bool inside = true;
    for (size_t i = 0; copies && i < gm_argument(call, 0) && inside; i++)
        inside = is_inside(call, 2, i,
                           look_at_operand(call, false, &copies[i].src, &copies[i].extent) &
                               look_at_operand(call, true, &copies[i].dst, &copies[i].extent));
    return inside;
}

static bool look_at_plane(const struct gm_called *call, size_t element) {
    size_t pitch = gm_argument(call, 1), width = gm_argument(call, 3) * element, height = gm_argument(call, 4);
    return look_at_range(call, true, gm_argument(call, 0), span(width, height, 1, pitch, 0));
}

static bool look_at_linear(const struct gm_called *call, const struct row *row) {
    size_t size = gm_argument(call, row->size) * row->element;
    return (row->from == NONE || look_at_range(call, false, gm_argument(call, row->from), size)) &
           (row->to == NONE || look_at_range(call, true, gm_argument(call, row->to), size));
}

/* ---- launches */

/* The call that a thread is about to make: what its result is about. */
struct making {
    void *next;
    const char *name;
    uintptr_t caller, frame;
    CUstream stream;
    uint8_t class;
    bool captures;        /* no work, but a node of a graph */
    bool again;           /* gm_call_is_made_again */
    CUgraphExec instance; /* UPDATE_GRAPH */
    CUgraph graph;
    struct gm_launch launch;
};
GM_ROOM_FITS(struct making, making);

/* Every call but work in a stream that the program created may order streams: the host waits, or a stream does. */
static bool may_order(const struct gm_called *call, CUstream stream) {
    return call->row->role != GM_ROLE_SUBMITS || call->row->meaning == GM_MEANING_WAIT ||
           call->row->meaning == GM_MEANING_CONTEXT_WAIT || stream <= CU_STREAM_PER_THREAD;
}

static void look_at_order(CUstream stream, const struct gm_launch *launch) {
    struct gm_guard_block block;
    for (unsigned i = 0; i < launch->count && sees_order(stream); i++)
        if (launch->pointers[i].alone && gm_guard_find(launch->pointers[i].address, &block) &&
            block.state == GM_GUARD_LIVE && is_early(&block, stream))
            gm_explain_early_use(launch, &launch->pointers[i], &block);
}

void gm_guard_frees_in_order(uint64_t address, CUstream stream, uint32_t site) {
    struct gm_guard_block block;
    struct gm_launch launch;
    if (gm_guard_covers(address) && sees_order(stream) && gm_guard_at(address, &block) &&
        block.state == GM_GUARD_LIVE && gm_launches_find(&block, stream, gm_guard_order_now(), &launch))
        gm_explain_freed_in_use(&launch, &block, site);
}

/* Of samples, only launches that use them: any wait returns a fault later. */
static bool keeps_all(void) { return blocking || gm_sites_are_on(); }

static void read_launch(const struct gm_called *call, const struct row *row, struct gm_launch *launch) {
    if (row->class == LAUNCH_GRAPH) {
        *launch = (struct gm_launch){.site = site_of(call), .closes = true};
        gm_guard_graph_look(gm_pointer_argument(call, 0), launch);
        return;
    }
    bool all = keeps_all();
    if (row->class == LAUNCH) {
        bool cooperative = call->row->name[8] == 'C'; /* it has no `extra` */
        gm_kernel_read(gm_pointer_argument(call, 0), gm_pointer_argument(call, 9),
                       cooperative ? NULL : gm_pointer_argument(call, 10), all, launch);
    } else {
        gm_kernel_read(gm_pointer_argument(call, 1), gm_pointer_argument(call, 2), gm_pointer_argument(call, 3), all,
                       launch);
    }
    if (!launch->count && !all)
        return;
    launch->site = site_of(call);
    gm_kernel_look(launch);
    look_at_order(gm_called_stream(call), launch);
}

static void look_at_launch(const struct gm_called *call, const struct row *row, struct gm_launch *launch) {
    read_launch(call, row, launch);
    if ((launch->closes || gm_guard_every == 1) && gm_guard_any_waits())
        gm_guard_settle(); /* so a use faults, under all also by an address that the kernel reads from memory */
}

/* ---- results */

static bool reaches_host(void) {
    int reaches = 0;
    CUdevice device = 0;
    (void)gm_drv.ctx_get_device(&device);
    return !gm_drv.device_get_attribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device) && reaches;
}

/* `one`: the launch at fault; NULL: any of those that may not have ended. */
static void explain_fault(CUresult error, const char *name, uint32_t site, const struct gm_launch *one) {
    struct gm_launch *launches = gm_pages(GM_LAUNCHES * sizeof *launches);
    unsigned times[GM_LAUNCHES] = {1};
    struct gm_fault fault = {.call = name, .site = site, .launches = launches, .times = times, .exact = one != NULL};
    fault.error = error;
    if (!launches)
        return;
    if (one)
        launches[fault.count++] = *one;
    else
        fault.count = gm_launches_copy(launches, times, &fault.more);
    fault.reaches_host = reaches_host();
    gm_explain_fault(&fault);
    munmap(launches, GM_LAUNCHES * sizeof *launches);
}

/* The last one, a launch failure: a copy in a graph (driver 580), and other faults. */
static bool is_fault(CUresult result) {
    return result == CUDA_ERROR_ILLEGAL_ADDRESS ||
           (result >= CUDA_ERROR_MISALIGNED_ADDRESS && result <= CUDA_ERROR_LAUNCH_FAILED);
}

void gm_guard_faulted(CUresult error, const char *call, uintptr_t caller, uintptr_t frame) {
    if (is_fault(error) && gm_watch_has(GM_WATCH_GUARDS))
        explain_fault(error, call, gm_site_find(caller, frame), NULL);
}

static GM_RARE void returned_fault(CUresult error, const struct making *made, const struct gm_launch *one) {
    explain_fault(error, made->name, gm_site_find(made->caller, made->frame), one);
}

/* Of a kernel that has ended, while no other runs that the program waits for. */
static void look_beside_arguments(const struct gm_launch *launch) {
    struct gm_guard_damage damage;
    struct gm_guard_block block;
    uint64_t last = 0; /* members of one structure often lead to one block */
    for (unsigned i = 0; i < launch->count; i++) {
        if (!gm_guard_find(launch->pointers[i].address, &block) || block.state != GM_GUARD_LIVE ||
            block.address == last)
            continue;
        last = block.address;
        if (gm_guard_pattern_look(&block, &damage))
            gm_explain_damage_by(launch, &block, &damage);
    }
}

static void launched(const struct making *made) {
    if (made->captures)
        return;
    gm_launches_add(&made->launch, made->stream);
    if (!blocking || gm_capture_any()) /* a wait could end the capture of another thread */
        return;
    CUresult result = gm_drv.stream_synchronize(made->stream);
    if (is_fault(result))
        returned_fault(result, made, &made->launch);
    else
        gm_launches_waited(made->stream);
    if (result == CUDA_SUCCESS)
        look_beside_arguments(&made->launch);
}

/* The call is made. */
static void returned(const struct making *made, CUresult result) {
    if (GM_UNLIKELY(is_fault(result)))
        returned_fault(result, made, NULL);
    if (result != CUDA_SUCCESS)
        return;
    switch ((enum class)made->class) {
    case LAUNCH:
    case LAUNCH_EX:
    case LAUNCH_GRAPH: launched(made); break;
    case UPDATE_GRAPH: gm_guard_graph_read(made->instance, made->graph); break;
    case WAIT_CONTEXT:
    case WAIT_STREAM:
        gm_launches_ended(made->stream, made->class == WAIT_CONTEXT);
        gm_guard_settle_later();
        break;
    case WAIT_EVENT: gm_guard_settle_later(); break;
    default: break;
    }
}

static void settle(const struct making *made, CUresult result) {
    gm_mine.depth = 1;
    returned(made, result);
    gm_mine.depth = 0;
}

#define MAKE(made, call) ((made).again ? PASSED_WITH_TRIM(call) : (call))

/* The driver may call itself meanwhile, so what is known of the call moves to the stack. */
typedef CUresult(CUDAAPI *made_by_six)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static CUresult CUDAAPI make_six(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    struct making made = *(struct making *)gm_room_part_known(GM_ROOM_MAKING);
    CUresult result = MAKE(made, ((made_by_six)made.next)(a, b, c, d, e, f));
    settle(&made, result);
    return result;
}

typedef CUresult(CUDAAPI *made_by_eleven)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                          uint64_t, uint64_t, uint64_t, uint64_t);
static CUresult CUDAAPI make_eleven(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                                    uint64_t h, uint64_t i, uint64_t j, uint64_t k) {
    struct making made = *(struct making *)gm_room_part_known(GM_ROOM_MAKING);
    CUresult result = MAKE(made, ((made_by_eleven)made.next)(a, b, c, d, e, f, g, h, i, j, k));
    settle(&made, result);
    return result;
}

/* ---- the door */

/* False: the call is refused. */
static bool look(const struct gm_called *call, const struct row *row, struct making *making) {
    switch ((enum class)row->class) {
    case LAUNCH:
    case LAUNCH_EX:
    case LAUNCH_GRAPH: look_at_launch(call, row, &making->launch); break;
    case LINEAR: return look_at_linear(call, row);
    case ROWS: return look_at_rows(call, gm_pointer_argument(call, 0));
    case VOLUME: return look_at_volume(call, gm_pointer_argument(call, 0));
    case BATCH: return look_at_batch(call);
    case VOLUMES: return look_at_volumes(call);
    case PLANE: return look_at_plane(call, row->size);
    case CHANGE_GRAPH: gm_guard_graph_forget(gm_pointer_argument(call, 0)); break;
    case UPDATE_GRAPH:
        making->instance = gm_pointer_argument(call, 0);
        making->graph = gm_pointer_argument(call, 1);
        gm_guard_graph_forget(making->instance);
        break;
    case UNLOAD: gm_guard_forget_kernels(); break;
    default: break;
    }
    return true;
}

/* Stands for any function of the driver. */
static CUresult CUDAAPI refuse(void) { return CUDA_ERROR_INVALID_VALUE; }

/* Whether the result of the call does. */
static bool matters(const struct row *row, const struct making *making) {
    if (IS_WAIT(row->class) || row->class == UPDATE_GRAPH)
        return true;
    if (row->class == UNLOAD || row->class == CHANGE_GRAPH)
        return false;
    return (IS_LAUNCH(row->class) && making->launch.count) || keeps_all();
}

void *gm_guard_observe(const struct gm_called *call, void *next) {
    const struct row *row = row_of(call);
    struct making *making = row->class == OTHER ? NULL : gm_room_part(GM_ROOM_MAKING);
    if (making && GM_UNLIKELY(!look(call, row, making)))
        return (void *)refuse;
    if (GM_UNLIKELY(gm_guard_order_now()) && (may_order(call, gm_called_stream(call)) || row->class == LAUNCH_GRAPH))
        gm_guard_orders(); /* a graph may wait for events */
    if (!making || !matters(row, making))
        return next;
    CUstream stream = gm_called_stream(call);
    making->next = next;
    making->name = call->row->name;
    making->caller = call->caller;
    making->frame = (uintptr_t)call->stack;
    making->class = row->class;
    making->again = gm_call_is_made_again(call->row);
    making->stream = gm_is_per_thread(stream, call->row->twin) ? CU_STREAM_PER_THREAD : stream;
    making->captures = GM_UNLIKELY(gm_capture_any()) && gm_capture_on(stream, call->row->twin);
    return row->class == LAUNCH || row->class == BATCH ? (void *)make_eleven : (void *)make_six;
}

void gm_guard_forget_kernels(void) {
    if (!gm_watch_has(GM_WATCH_GUARDS))
        return;
    gm_guard_graph_forget(NULL); /* they have names of kernels */
    gm_kernels_forget();
}

void gm_guard_instantiated(const CUgraphExec *instance, CUgraph graph) {
    if (gm_watch_has(GM_WATCH_GUARDS) && instance && *instance)
        gm_guard_graph_read(*instance, graph);
}

void gm_guard_graph_changes(CUgraphExec instance) {
    if (gm_watch_has(GM_WATCH_GUARDS))
        gm_guard_graph_forget(instance);
}

CUresult gm_guard_shared(CUresult result, const char *call, CUdeviceptr address, uintptr_t caller, uintptr_t frame) {
    struct gm_guard_block block;
    if (GM_UNLIKELY(result != CUDA_SUCCESS) && gm_guard_covers(address) && gm_guard_find(address, &block) &&
        block.state == GM_GUARD_LIVE && address - block.address < block.size)
        gm_explain_unshared(call, gm_site_find(caller, frame), &block);
    return result;
}

/* ---- life */

bool gm_guard_start(bool by_policy) {
    const char *text = gm_option_text(GM_OPT_GUARD);
    struct gm_guard_choice choice = {0};
    char error[160];
    if (gm_guard_parse(text, &choice, error, sizeof error))
        gm_log(GM_LOG_ERROR, "%s=%.80s: %s; no block is guarded", gm_option_label(GM_OPT_GUARD).text, text, error);
    gm_guard_every = choice.every;
    gm_guard_side = choice.begin ? GM_GUARD_AT_BEGIN : choice.every > 1 ? GM_GUARD_AT_ANY : GM_GUARD_AT_END;
    gm_guard_alignment = choice.align ? choice.align : gm_guard_alignment;
    gm_guard_compares_all = choice.every > 1 || choice.blocking;
    gm_stats->guard_every = choice.every;
    blocking = choice.blocking;
    ignores_races = choice.noraces;
    if (choice.every > 1)
        gm_guard_prompt = 0;
    if (choice.blocking)
        gm_guard_prompt = UINT_MAX;
    bool guards = choice.every || by_policy;
    if (guards)
        gm_watch_set(GM_WATCH_GUARDS, true);
    return guards;
}

void gm_guard_after_fork(void) {
    gm_guard_graphs_after_fork();
    gm_kernels_after_fork();
}
