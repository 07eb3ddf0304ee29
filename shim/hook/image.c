/* Searches device code for the name of the device's printf, `vprintf`. Code calls it by name: PTX has to declare it,
 * and a cubin has an undefined symbol, since the driver provides the function. */
#include "shim/hook/image.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "shim/base/file.h"

#define WRAPPER_MAGIC 0x466243b1u

struct wrapper { /* fatbinary_section.h */
    uint32_t magic, version;
    const void *fat;
    const void *const *linked; /* version 2: the fat binaries that `fat` was linked of; ends with NULL */
};

static bool has(const void *bytes, size_t size, const char *name) {
    return memmem(bytes, size, name, strlen(name)) != NULL;
}

/* Every PTX file has a directive .version. A text without it was not read correctly. */
static bool text_prints(const void *text, size_t size) {
    return has(text, size, "vprintf") || !has(text, size, ".version");
}

/* The names of symbols stand in sections of type SHT_STRTAB. Only these pages are read, since large libraries lie in
 * files that nothing else has read yet. */
static bool cubin_prints(const void *cubin, size_t limit) {
    const uint8_t *bytes = cubin;
    bool named = false;
    Elf64_Ehdr head;
    Elf64_Shdr section;
    if (limit < sizeof head)
        return true;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_machine != EM_CUDA || head.e_shentsize != sizeof section || head.e_shoff > limit ||
        limit - head.e_shoff < sizeof section)
        return true;
    memcpy(&section, bytes + head.e_shoff, sizeof section);
    uint64_t count = head.e_shnum ? head.e_shnum : section.sh_size; /* 0: more than 16 bits hold */
    if (count > (limit - head.e_shoff) / sizeof section)
        return true;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&section, bytes + head.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_STRTAB)
            continue;
        if (section.sh_flags & SHF_COMPRESSED || section.sh_offset > limit ||
            section.sh_size > limit - section.sh_offset || has(bytes + section.sh_offset, section.sh_size, "vprintf"))
            return true;
        named = true;
    }
    return !named;
}

static bool code_prints(const void *code, size_t size, bool is_text) {
    return is_text ? text_prints(code, size) : cubin_prints(code, size);
}

/* A text has no control characters but blanks. Other formats have one among their first bytes. */
static bool is_text(const unsigned char *image, size_t limit, size_t *size) {
    size_t at = 0;
    while (at < limit && image[at] && image[at] != 0x7f &&
           (image[at] >= ' ' || (image[at] >= '\t' && image[at] <= '\r')))
        at++;
    *size = at;
    return at == limit || !image[at];
}

static bool unwrapped_prints(const unsigned char *image, size_t limit, const struct gm_capabilities *devices) {
    uint32_t magic = 0;
    size_t size;
    for (unsigned i = 0; i < sizeof magic && i < limit && (i == 0 || image[i - 1]); i++) /* a text may be shorter */
        magic |= (uint32_t)image[i] << 8 * i;
    if (magic == GM_FATBIN_MAGIC)
        return gm_fatbin_has(image, limit, devices, code_prints);
    if (memcmp(&magic, ELFMAG, SELFMAG) == 0)
        return cubin_prints(image, limit);
    if (!is_text(image, limit, &size))
        return true;
    bool foreign = false; /* the driver refuses a text that is not PTX */
    for (size_t i = 0; i < size; i++)
        foreign |= image[i] >= 0x80;
    return has(image, size, "vprintf") || (foreign && !has(image, size, ".version"));
}

bool gm_image_prints(const void *image, const struct gm_capabilities *devices) {
    struct wrapper wrapper;
    if (!image)
        return false;
    for (unsigned i = 0; i < sizeof wrapper.magic; i++)
        if (((const unsigned char *)image)[i] != (WRAPPER_MAGIC >> 8 * i & 255))
            return unwrapped_prints(image, SIZE_MAX / 2, devices);
    memcpy(&wrapper, image, sizeof wrapper);
    bool prints = wrapper.version < 1 || wrapper.version > 2 ||
                  (wrapper.fat && gm_fatbin_has(wrapper.fat, SIZE_MAX / 2, devices, code_prints));
    for (const void *const *part = wrapper.version == 2 ? wrapper.linked : NULL; !prints && part && *part; part++)
        prints = gm_fatbin_has(*part, SIZE_MAX / 2, devices, code_prints);
    return prints;
}

bool gm_image_file_prints(const char *file, const struct gm_capabilities *devices) {
    size_t size;
    const char *bytes = file ? gm_file_map(file, &size) : NULL;
    if (!bytes) /* the driver reads a pipe, too, and may find memory; other files it does not read either */
        return file && (errno == EINVAL || errno == ENOMEM);
    bool prints = unwrapped_prints((const unsigned char *)bytes, size, devices);
    gm_file_unmap(bytes, size);
    return prints;
}
