/* Reads fat binaries: containers of one program's device code for several architectures.
 *
 * A container is a header with the size of the rest, and entries behind each other. An entry is a header with its kind,
 * the architecture and flags, and code: PTX text, an ELF file (a cubin), or something else such as intermediate code
 * for linking. NVIDIA's compiler leaves an entry as it is, or packs it with LZ4 or zstd (fatbinary_section.h describes
 * the wrapper; the rest was seen in the compiler's output from 11.8 to 13.0). */
#ifndef GM_HOOK_FATBIN_H
#define GM_HOOK_FATBIN_H

#include "shim/base/base.h"

/* The devices whose code matters, as 10 x major + minor of their compute capability. None: every device. */
struct gm_capabilities {
    unsigned count;
    uint16_t of[16];
};

enum { GM_FATBIN_MAGIC = 0xba55ed50 };

/* Whether the code of an entry that one of the devices may run satisfies `finds`. An entry that cannot be read
 * satisfies it as well: another kind, another packing, damaged or cut off. The container has at most `limit` bytes; its
 * own header may name fewer. */
GM_INTERNAL bool gm_fatbin_has(const void *fat, size_t limit, const struct gm_capabilities *devices,
                               bool (*finds)(const void *code, size_t size, bool is_text));

#endif
