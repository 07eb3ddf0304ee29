/* What a program's device code says of itself. */
#ifndef GM_HOOK_IMAGE_H
#define GM_HOOK_IMAGE_H

#include "shim/base/base.h"

/* May kernels of this image print? `image` is what cuModuleLoadData takes: PTX text, a cubin, a fat binary or its
 * wrapper. Looks for the name of the device's printf in the first MiB; what is compressed may hide it. */
GM_INTERNAL bool gm_image_prints(const void *image);
/* The same for an image in a file. */
GM_INTERNAL bool gm_image_file_prints(const char *file);

#endif
