/* Call sites in terms that hold in every run of a program: module by the last part of its file name, offset in that
 * module.
 *
 * A site is a short chain of return addresses, the allocation's caller first, because the first one is often the same
 * for a whole program (a wrapper, or a CUDA runtime linked in). As text: "libfoo.so+0x12a0<app+0x40f2"; an address in
 * no module is "?". A byte of a module's name that has a meaning elsewhere is written as % and two hexadecimal digits.
 */
#ifndef GM_SITE_KEY_H
#define GM_SITE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GM_SITE_KEY_FRAMES = 6 }; /* of the whole chain, frames inside a shared CUDA runtime included */
enum { GM_SITE_FRAME_TEXT = 3 * 255 + 24 };

struct gm_site_keys {
    uint64_t chain;  /* of all frames; 0 = unknown */
    uint64_t module; /* of the first frame's module */
    uint32_t count;
    uint64_t frames[GM_SITE_KEY_FRAMES];
};

/* Key of a module, from the last part of its path. */
uint64_t gm_site_module_key(const char *path, size_t length);
/* Key of an unknown module: its offsets are taken as 0. */
#define GM_SITE_NO_MODULE 1u
uint64_t gm_site_frame_key(uint64_t module, uint64_t offset);
/* The C library calls main and threads; its own frames tell nothing and change with every update: the chain ends before
 * them. */
bool gm_site_is_c_library(const char *path, size_t length);

/* Begins and extends a chain. Adding beyond GM_SITE_KEY_FRAMES does nothing. */
void gm_site_keys_begin(struct gm_site_keys *keys);
void gm_site_keys_add(struct gm_site_keys *keys, uint64_t module, uint64_t offset);

/* Text of one frame into `out`, cut to `size`, terminated; returns its length. `path` NULL: no module. */
size_t gm_site_frame_text(char *out, size_t size, const char *path, size_t length, uint64_t offset);
/* The same chain from its text. False when it is none. */
bool gm_site_keys_parse(const char *text, size_t length, struct gm_site_keys *keys);
/* Key of a module from its text as in a frame. False when it is empty or ill-formed. */
bool gm_site_module_parse(const char *text, size_t length, uint64_t *module);

#endif
