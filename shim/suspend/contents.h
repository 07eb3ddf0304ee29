/* The contents of ranges of device memory, on their way to the host and back. The memory is held alone, and nothing
 * uses it. */
#ifndef GM_SUSPEND_CONTENTS_H
#define GM_SUSPEND_CONTENTS_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Copies all ranges with GM_CHOICE_COPY, which have a backing, to the host: where the device computes checksums, only
 * the pages that the backing lacks. After an error the backings are good for another attempt. Errors:
 * GM_OUT_OF_MEMORY, GM_INVALID_CONTEXT, GM_NOT_SUPPORTED for a file without checksums, those of gm_copy_pieces. */
GM_INTERNAL gm_status gm_contents_out(void);
/* Copies all ranges with GM_CHOICE_BACK to the device. Ranges without backing become zero. *other: pages that are not
 * what they were when they left, with an error that is logged. */
GM_INTERNAL gm_status gm_contents_back(unsigned *other);

#endif
