#include "shim/base/foreign.h"

#include <string.h>

/* The character at `p`; -1: the byte there does not begin one. *bytes is its length. */
static int32_t character(const unsigned char *p, size_t left, unsigned *bytes) {
    static const int32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: a smaller one has a shorter form */
    unsigned count = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf8 ? 4 : 0;
    *bytes = 1;
    if (!count || count > left)
        return -1;
    int32_t code = count == 1 ? p[0] : p[0] & (0x7f >> count);
    for (unsigned i = 1; i < count; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < lowest[count] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
        return -1;
    *bytes = count;
    return code;
}

static bool acts(int32_t c) {
    return c < ' ' || (c >= 0x7f && c < 0xa0) ||                                       /* control characters */
           c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || /* marks and embeddings */
           (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;                 /* isolates, separators */
}

unsigned gm_foreign_character(const char *text, size_t length, bool *plain) {
    unsigned bytes;
    int32_t code = character((const unsigned char *)text, length, &bytes);
    *plain = code >= 0 && !acts(code);
    return bytes;
}

size_t gm_foreign_text(char *out, size_t size, const char *text, size_t length) {
    const unsigned char *p = (const unsigned char *)text;
    size_t needed = 0, used = 0;
    unsigned bytes;
    for (size_t left = length; left && *p; left -= bytes, p += bytes) {
        char shown[8];
        int32_t code = character(p, left, &bytes);
        size_t count = bytes;
        if (code > 0x7f && acts(code))
            count = (size_t)gm_format(shown, sizeof shown, "\\u%04x", (unsigned)code);
        else if (code < 0 || acts(code))
            count = (size_t)gm_format(shown, sizeof shown, "\\x%02x", *p);
        else
            memcpy(shown, p, bytes);
        if (used == needed && used + count < size) {
            memcpy(out + used, shown, count);
            used += count;
        }
        needed += count;
    }
    if (size)
        out[used] = '\0';
    return needed;
}

bool gm_foreign_is_plain(const char *text) {
    bool plain = true;
    for (size_t left = strlen(text); left && plain;) {
        unsigned bytes = gm_foreign_character(text, left, &plain);
        text += bytes;
        left -= bytes;
    }
    return plain;
}
