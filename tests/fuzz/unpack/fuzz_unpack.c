/* Fuzz entry: any bytes as a frame of zstd, a block of LZ4, a fat binary and the content of a file. Nothing outside of
 * the stated sizes is read or written. */
#include <string.h>

#include "shim/base/file.h"
#include "shim/hook/image.h"
#include "shim/hook/unpack.h"
#include "tests/fuzz/replay.h"

enum { FRAME_SIZE = 1500 };

static volatile unsigned sum;

static bool reads_all(const void *code, size_t size, bool is_text) {
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)code)[i];
    return is_text && size > FRAME_SIZE;
}

static void try_file(const uint8_t *data, size_t size) {
    static int file = -1;
    static char path[64];
    const struct gm_capabilities devices = {1, {90}};
    if (file < 0) {
        file = (int)syscall(SYS_memfd_create, "image", 0);
        must(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    must(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    gm_image_file_prints(path, &devices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct gm_capabilities any = {0}, some = {2, {86, 120}};
    const size_t sizes[] = {0, 1, 86, FRAME_SIZE, 300000};
    uint8_t *in = malloc(size + 1);
    if (size)
        memcpy(in, data, size);
    in = realloc(in, size ? size : 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *out = malloc(sizes[i] ? sizes[i] : 1);
        gm_unpack_zstd(in, size, out, sizes[i]);
        gm_unpack_lz4(in, size, out, sizes[i]);
        free(out);
    }
    gm_fatbin_has(in, size, &any, reads_all);
    gm_fatbin_has(in, size, &some, reads_all);
    try_file(in, size);
    free(in);
    return 0;
}
