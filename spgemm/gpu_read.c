#include "spgemm/gpu_read.h"
#include "spgemm/kernels.h"

#include <string.h>

bool spg_read(const struct spg_memory *memory, void *to, const void *from, size_t size, const char *what,
              struct spg_error *error) {
    if (!memory->mailbox || size > SPG_MAILBOX)
        return spg_fetch(memory->stream, to, from, size, what, error);
    if (!spg_cuda(spg_launch_post(from, size, memory->mailbox, memory->stream), what, error) ||
        !spg_cuda(cudaStreamSynchronize(memory->stream), what, error))
        return false;
    memcpy(to, memory->mailbox, size);
    return true;
}
