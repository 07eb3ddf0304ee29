/* Sharing with other processes: native blocks by the file of their device, reached through /proc. An event of another
 * process is opened only where work is done when its call returns; so the event is done, too. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ipc_memory {
    uint32_t magic;
    int32_t pid, fd, device;
    uint64_t offset, size, block;
};
#define IPC_MAGIC 0x49504331u

struct opened {
    struct ipc_memory what;
    struct sim_block *block;
    unsigned refs;
    size_t mapped;
    struct opened *next;
};
static struct opened *opened_list;

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct sim_block *b = sim_block_at(dptr);
    if (!pHandle || !b || b->kind != KIND_NATIVE)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_extent *e = b->extent;
    struct ipc_memory m = {.magic = IPC_MAGIC,
                           .pid = getpid(),
                           .fd = b->device->fd,
                           .device = b->device->ordinal,
                           .offset = e->offset + (b->addr - sim_extent_va(e)),
                           .size = b->size,
                           .block = b->id};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle->reserved, &m, sizeof m);
    return CUDA_SUCCESS;
}

static CUresult map_foreign(const struct ipc_memory *m, struct opened *o) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", m->pid, m->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t page = 4096, start = m->offset / page * page, lead = m->offset - start;
    o->mapped = SIM_ROUND(lead + m->size, page);
    char *p = mmap(NULL, o->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
    close(fd);
    if (p == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    o->block = sim_block_new((uintptr_t)p + lead, m->size, KIND_IPC, &sim_devices[0]);
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    struct sim_ctx *ctx;
    struct ipc_memory m;
    SIM_TRY(sim_need_ctx(&ctx));
    memcpy(&m, handle.reserved, sizeof m);
    if (!pdptr || (Flags & ~1u) || m.magic != IPC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (m.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* as the driver: not in the process that exported it */
    for (struct opened *o = opened_list; o; o = o->next) {
        if (memcmp(&o->what, &m, sizeof m) == 0) {
            o->refs++;
            *pdptr = o->block->addr;
            return CUDA_SUCCESS;
        }
    }
    struct opened *o = calloc(1, sizeof *o);
    *o = (struct opened){.what = m, .refs = 1};
    CUresult r = map_foreign(&m, o);
    if (r != CUDA_SUCCESS) {
        free(o);
        return r;
    }
    o->block->ctx = ctx;
    o->block->device = ctx->device;
    o->next = opened_list;
    opened_list = o;
    *pdptr = o->block->addr;
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    return sim_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr) {
    struct opened **link = &opened_list;
    while (*link && (*link)->block->addr != dptr)
        link = &(*link)->next;
    if (!*link)
        return CUDA_ERROR_INVALID_VALUE;
    struct opened *o = *link;
    if (--o->refs)
        return CUDA_SUCCESS;
    *link = o->next;
    uintptr_t start = o->block->addr / 4096 * 4096;
    sim_finish_ctx(o->block->ctx);
    sim_block_gone(o->block);
    munmap((void *)start, o->mapped);
    free(o);
    return CUDA_SUCCESS;
}

/* A dma-buf stands for the device's file, its offset set to the block. */
CUresult sim_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType type,
                                           unsigned long long flags) {
    struct sim_block *b = sim_block_at(dptr);
    char path[64];
    if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || size == 0 || dptr % 4096 || size % 4096)
        return CUDA_ERROR_INVALID_VALUE;
    if (!b || b->kind != KIND_NATIVE)
        return b ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (dptr + size > b->addr + b->reserved)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", b->device->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    lseek(fd, (off_t)(b->extent->offset + (dptr - sim_extent_va(b->extent))), SEEK_SET);
    *(int *)handle = fd;
    return CUDA_SUCCESS;
}

struct ipc_event {
    uint32_t magic;
    int32_t pid;
    CUevent event;
};

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent e) {
    if (!pHandle || !sim_event_valid(e) || !(e->flags & CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_HANDLE;
    struct ipc_event m = {.magic = IPC_MAGIC, .pid = getpid(), .event = e};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle->reserved, &m, sizeof m);
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
    struct ipc_event m;
    memcpy(&m, handle.reserved, sizeof m);
    if (!phEvent || m.magic != IPC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (m.pid != getpid() && sim_opt.mode == SIM_IMMEDIATE)
        return sim_cuEventCreate(phEvent, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    if (m.pid != getpid())
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_event_valid(m.event))
        return CUDA_ERROR_INVALID_VALUE;
    m.event->refs++;
    *phEvent = m.event;
    return CUDA_SUCCESS;
}
