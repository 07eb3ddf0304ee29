/* gpumem: an allocator that frameworks plug in by the names of its functions. One resource serves all of it.
 *
 *     PyTorch   torch.cuda.memory.CUDAPluggableAllocator(FILE, "gpumem_plug_allocate", "gpumem_plug_free"), for
 *               change_current_allocator() or for MemPool(). Its _allocator also takes gpumem_plug_record_stream
 *               (set_record_stream_fn) and gpumem_plug_trim (set_reset_fn, which torch.cuda.empty_cache() calls).
 *     CuPy      cupy.cuda.PythonFunctionAllocator
 *     Numba     a subclass of numba.cuda.HostOnlyCUDAMemoryManager
 *
 * examples/python/ has a program for each. FILE is libgpumem-core.so.0.
 *
 * Memory belongs to the primary context of `device`, whichever context is current. Any thread may call. */
#ifndef GPUMEM_PLUG_H
#define GPUMEM_PLUG_H

#include "gpumem_resource.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses the resource by its text (gpumem_resource_create). Without this call it is "async". Errors: those of
 * gpumem_resource_create(); GPUMEM_INVALID_VALUE (its memory is not device-accessible; a resource was chosen already,
 * by this call or by the first allocation). */
enum gpumem_status gpumem_plug_use(const char *text);

/* The resource that serves, for statistics; NULL before the first allocation where none was chosen. It stays the
 * library's. */
struct gpumem_resource *gpumem_plug_resource(void);

/* Memory on a multiple of 256 bytes, for work that is submitted to `stream` from now on. Returns NULL where there is
 * none, which is logged as a warning; gpumem_last_error() has the text. PyTorch checks that for a MemPool only: a
 * program under change_current_allocator() then fails with an illegal memory access. */
void *gpumem_plug_allocate(ptrdiff_t bytes, int device, struct CUstream_st *stream);

/* Frees memory in the order of `stream`, with the values that it was allocated with. The free is also ordered behind
 * the work that the streams of gpumem_plug_record_stream() have been given so far. NULL does nothing. */
void gpumem_plug_free(void *memory, ptrdiff_t bytes, int device, struct CUstream_st *stream);

/* Work of another stream uses the memory, too. */
void gpumem_plug_record_stream(void *memory, struct CUstream_st *stream);

/* Gives free memory that the resource caches back to the driver. */
void gpumem_plug_trim(void);

#ifdef __cplusplus
}
#endif

#endif
