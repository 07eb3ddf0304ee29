/* Inspects the program's device code. */
#ifndef GM_HOOK_IMAGE_H
#define GM_HOOK_IMAGE_H

#include "shim/hook/fatbin.h"

/* Whether kernels of this image may call printf. `image` is an argument of cuModuleLoadData: PTX text, a cubin, a fat
 * binary or its wrapper. Only code that one of the devices may run counts. Code that cannot be read counts as code that
 * prints. Reads no more than the image's own headers name, or up to the end of a text. */
GM_INTERNAL bool gm_image_prints(const void *image, const struct gm_capabilities *devices);
/* The same for an image in a file. No such file: false. */
GM_INTERNAL bool gm_image_file_prints(const char *file, const struct gm_capabilities *devices);

#endif
