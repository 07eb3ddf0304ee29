/* Inspects device code. The size of an image comes from the headers that fatbinary_section.h and elf.h describe. The
 * code is searched for a name and not parsed further. */
#include "shim/hook/image.h"

#include "shim/base/file.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FAT_MAGIC     0xba55ed50u
#define SCANNED       ((size_t)1 << 20) /* of a large library only the beginning is searched */

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

static size_t size_of(const void *image) {
    const Elf64_Ehdr *elf = image;
    const struct fat_header *fat = image;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0)
        return elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
    if (fat->magic == FAT_MAGIC)
        return fat->header_bytes + fat->bytes;
    return strnlen(image, SCANNED);
}

static bool scan(const void *bytes, size_t size) {
    static const char name[] = "vprintf";
    return memmem(bytes, size < SCANNED ? size : SCANNED, name, sizeof name - 1) != NULL;
}

bool gm_image_prints(const void *image) {
    const struct wrapper *wrapper = image;
    uint32_t magic = 0;
    if (!image)
        return false;
    for (unsigned i = 0; i < sizeof magic; i++) { /* a text may be shorter */
        magic |= (uint32_t)((const unsigned char *)image)[i] << 8 * i;
        if (!((const unsigned char *)image)[i])
            break;
    }
    if (magic == WRAPPER_MAGIC)
        return wrapper->data && scan(wrapper->data, size_of(wrapper->data));
    bool binary = magic == FAT_MAGIC || memcmp(&magic, ELFMAG, SELFMAG) == 0;
    return scan(image, binary ? size_of(image) : strnlen(image, SCANNED));
}

bool gm_image_file_prints(const char *file) {
    struct stat found;
    bool prints = false;
    int from = file ? gm_open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (from < 0)
        return false;
    if (gm_fstat(from, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
        size_t size = (size_t)found.st_size < SCANNED ? (size_t)found.st_size : SCANNED;
        char *bytes = gm_pages(size);
        ssize_t got = bytes ? gm_pread(from, bytes, size, 0) : 0;
        prints = got > 0 && scan(bytes, (size_t)got);
        if (bytes)
            munmap(bytes, size);
    }
    gm_close(from);
    return prints;
}
