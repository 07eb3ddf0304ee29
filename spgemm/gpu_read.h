/* Numbers that the host waits for. With a mailbox, a kernel writes them to memory of the host: a copy would wait for
 * large copies of other streams. */
#ifndef SPG_GPU_READ_H
#define SPG_GPU_READ_H

#include "spgemm/gpu.h"

#define SPG_MAILBOX ((size_t)1 << 16) /* bytes; more are copied */

/* Copies words of 32 bits to the host, and waits for the memory's stream. */
bool spg_read(const struct spg_memory *memory, void *to, const void *from, size_t size, const char *what,
              struct spg_error *error);

#endif
