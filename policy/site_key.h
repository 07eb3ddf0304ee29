/* Keys of call sites that hold in every run of a program. A frame is named by the last part of its module's file
 * name and by the offset in that module.
 *
 * A site is a short chain of return addresses that begins with the allocation's caller. One frame is not enough: the
 * first one is often the same for a whole program (a wrapper, or a CUDA runtime that is linked in). As text a site
 * is "libfoo.so+0x12a0<app+0x40f2". An address outside all modules is "?". A byte of a module's name that has a
 * meaning in this syntax is written as % and two hexadecimal digits. */
#ifndef GM_SITE_KEY_H
#define GM_SITE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GM_SITE_KEY_FRAMES = 6 }; /* limit counted from the chain's start: runtime frames count, too */
enum { GM_SITE_FRAME_TEXT = 3 * 255 + 24 };

struct gm_site_keys {
    uint64_t chain;  /* key of all frames; 0 = unknown */
    uint64_t module; /* module of the first frame */
    uint32_t count;
    uint64_t frames[GM_SITE_KEY_FRAMES];
};

/* Key of a module, from the last part of its path. */
uint64_t gm_site_module_key(const char *path, size_t length);
/* Key of an unknown module. Its offsets count as 0. */
#define GM_SITE_NO_MODULE 1u
uint64_t gm_site_frame_key(uint64_t module, uint64_t offset);
/* A chain ends before the first frame of the C library. The C library calls main and the threads; its frames carry
 * no information and change with every update. */
bool gm_site_is_c_library(const char *path, size_t length);

/* Begins and extends a chain. Frames beyond GM_SITE_KEY_FRAMES are ignored. */
void gm_site_keys_begin(struct gm_site_keys *keys);
void gm_site_keys_add(struct gm_site_keys *keys, uint64_t module, uint64_t offset);

/* Writes the text of one frame into out[size], cut to fit and terminated. Returns its length. `path` NULL: no
 * module. */
size_t gm_site_frame_text(char *out, size_t size, const char *path, size_t length, uint64_t offset);
/* Reads a chain from its text. False: the text is not a chain. */
bool gm_site_keys_parse(const char *text, size_t length, struct gm_site_keys *keys);
/* Key of a module from its text as in a frame. False when the text is empty or malformed. */
bool gm_site_module_parse(const char *text, size_t length, uint64_t *module);

#endif
