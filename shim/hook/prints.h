/* Notes GM_SYNC_PRINTF when the program loads kernels that may print: natively their output appears before a free that
 * follows them returns. Nothing is searched unless GPUMEM_FREE is `safe`, nor after such a kernel was found.
 *
 * Frameworks load hundreds of images of many megabytes and use few of them. So an image is searched only when the
 * program first asks a library for its code, where the image is still there then. That is so for cuLibraryLoadData with
 * CU_LIBRARY_BINARY_IS_PRESERVED, which CUDA's runtime gives: the program keeps the image until cuLibraryUnload. All
 * other images are searched when they are loaded. */
#ifndef GM_HOOK_PRINTS_H
#define GM_HOOK_PRINTS_H

#include "shim/driver/driver.h"

/* Before the call that loads the image or the file. */
GM_INTERNAL void gm_prints_image(const void *image);
GM_INTERNAL void gm_prints_file(const char *file);

/* True: these options of cuLibraryLoadData promise that the image stays. The value counts only as the number 1, since
 * some programs give a pointer to the answer. */
GM_INTERNAL bool gm_prints_later(const CUlibraryOption *options, void *const *values, unsigned count);
/* After the call, and before the program has the library. */
GM_INTERNAL void gm_prints_library(CUlibrary library, const void *image);
/* The program asks for the library's code or variables. */
GM_INTERNAL void gm_prints_request(CUlibrary library);
/* Before cuLibraryUnload. Returns the image, to be given to gm_prints_image if the call fails; NULL: it was searched.
 */
GM_INTERNAL const void *gm_prints_forget(CUlibrary library);

#endif
