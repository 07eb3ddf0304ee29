/* Inspects the program's device code. */
#ifndef GM_HOOK_IMAGE_H
#define GM_HOOK_IMAGE_H

#include "shim/base/base.h"

/* Whether kernels of this image may call printf. `image` is an argument of cuModuleLoadData: PTX text, a cubin, a
 * fat binary or its wrapper. Searches the first MiB for the name of the device's printf. Compressed code may hide
 * the name. */
GM_INTERNAL bool gm_image_prints(const void *image);
/* The same for an image in a file. */
GM_INTERNAL bool gm_image_file_prints(const char *file);

#endif
