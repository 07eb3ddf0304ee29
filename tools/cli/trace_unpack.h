/* Traces that were compressed after the run, by zstd or gzip. They are unpacked into a file without a name, because
 * readers need any part at any time. */
#ifndef GM_TRACE_UNPACK_H
#define GM_TRACE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes begin a compressed file. */
bool gm_trace_is_packed(const void *begin, size_t bytes);

/* Unpacks what the descriptor has from its offset on. Returns a descriptor of the unpacked file; both are the caller's.
 * `*cut`: the end of the compressed file is missing or damaged, and what stands before it was unpacked. -1: `*reason`
 * says why, static text or that of strerror. The file is unpacked once in a process,
 * to at most 256 MiB and 1000 times its size. Not for several threads. */
int gm_trace_unpack(int from, bool *cut, const char **reason);

#endif
