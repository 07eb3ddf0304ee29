/* Hashes of call sites, and their text form; see site_key.h. */
#include "policy/site_key.h"

#include <string.h>

static uint64_t mix_bits(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* FNV-1a. */
static uint64_t hash_byte(uint64_t hash, unsigned char byte) { return (hash ^ byte) * 0x100000001b3ull; }

static const uint64_t hash_start = 0xcbf29ce484222325ull;

static uint64_t module_key(uint64_t hash) {
    uint64_t key = mix_bits(hash);
    return key > GM_SITE_NO_MODULE ? key : GM_SITE_NO_MODULE + 1;
}

/* The kernel appends this to the path when a running program's file was replaced. */
static const char *last_part(const char *path, size_t *length) {
    static const char deleted[] = " (deleted)";
    const size_t tail = sizeof deleted - 1;
    const char *slash = memrchr(path, '/', *length);
    if (slash) {
        *length -= (size_t)(slash + 1 - path);
        path = slash + 1;
    }
    if (*length > tail && !memcmp(path + *length - tail, deleted, tail))
        *length -= tail;
    return path;
}

uint64_t gm_site_module_key(const char *path, size_t length) {
    uint64_t hash = hash_start;
    path = last_part(path, &length);
    for (size_t i = 0; i < length; i++)
        hash = hash_byte(hash, (unsigned char)path[i]);
    return module_key(hash);
}

uint64_t gm_site_frame_key(uint64_t module, uint64_t offset) {
    return mix_bits(module + 0x9e3779b97f4a7c15ull * (offset + 1));
}

static bool name_begins(const char *name, size_t length, const char *with) {
    size_t need = strlen(with);
    return length >= need && !memcmp(name, with, need);
}

bool gm_site_is_c_library(const char *path, size_t length) {
    const char *name = last_part(path, &length);
    return name_begins(name, length, "libc.so") || name_begins(name, length, "libc-2.") ||
           name_begins(name, length, "libc.musl") || name_begins(name, length, "libpthread") ||
           name_begins(name, length, "ld-linux");
}

void gm_site_keys_begin(struct gm_site_keys *keys) { *keys = (struct gm_site_keys){0}; }

void gm_site_keys_add(struct gm_site_keys *keys, uint64_t module, uint64_t offset) {
    if (keys->count == GM_SITE_KEY_FRAMES)
        return;
    uint64_t frame = gm_site_frame_key(module, module == GM_SITE_NO_MODULE ? 0 : offset);
    if (!keys->count)
        keys->module = module;
    keys->frames[keys->count++] = frame;
    keys->chain = mix_bits(keys->chain * 31 + frame);
    keys->chain += !keys->chain;
}

/* ---- text */

static bool is_unescaped(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._-+~@:=", c));
}

struct writer {
    char *out;
    size_t size, used;
};

static void put_char(struct writer *w, char c) {
    if (w->used + 1 < w->size)
        w->out[w->used++] = c;
}

static const char hex[] = "0123456789abcdef";

size_t gm_site_frame_text(char *out, size_t size, const char *path, size_t length, uint64_t offset) {
    struct writer w = {out, size, 0};
    const char *name = path ? last_part(path, &length) : NULL;
    for (size_t i = 0; name && i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (is_unescaped(c)) {
            put_char(&w, (char)c);
        } else {
            put_char(&w, '%');
            put_char(&w, hex[c >> 4]);
            put_char(&w, hex[c & 15]);
        }
    }
    if (name) {
        put_char(&w, '+');
        put_char(&w, '0');
        put_char(&w, 'x');
        int shift = 60;
        while (shift && !(offset >> shift & 15))
            shift -= 4;
        for (; shift >= 0; shift -= 4)
            put_char(&w, hex[offset >> shift & 15]);
    } else {
        put_char(&w, '?');
    }
    if (size)
        out[w.used] = '\0';
    return w.used;
}

static int digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool gm_site_module_parse(const char *text, size_t length, uint64_t *module) {
    uint64_t hash = hash_start;
    if (!length)
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '%') {
            if (length - i < 3 || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
                return false;
            c = (unsigned char)(digit(text[i + 1]) << 4 | digit(text[i + 2]));
            i += 2;
        } else if (!is_unescaped(c)) {
            return false;
        }
        hash = hash_byte(hash, c);
    }
    *module = module_key(hash);
    return true;
}

static bool parse_frame(const char *text, size_t length, struct gm_site_keys *keys) {
    uint64_t module, offset = 0;
    if (length == 1 && *text == '?') {
        gm_site_keys_add(keys, GM_SITE_NO_MODULE, 0);
        return true;
    }
    const char *plus = memrchr(text, '+', length), *end = text + length, *p;
    if (!plus || end - plus < 4 || end - plus > 19 || plus[1] != '0' || plus[2] != 'x' ||
        !gm_site_module_parse(text, (size_t)(plus - text), &module))
        return false;
    for (p = plus + 3; p < end; p++) {
        if (digit(*p) < 0)
            return false;
        offset = offset << 4 | (uint64_t)digit(*p);
    }
    gm_site_keys_add(keys, module, offset);
    return true;
}

bool gm_site_keys_parse(const char *text, size_t length, struct gm_site_keys *keys) {
    const char *end = text + length;
    gm_site_keys_begin(keys);
    for (;;) {
        const char *next = memchr(text, '<', (size_t)(end - text));
        if (keys->count == GM_SITE_KEY_FRAMES || !parse_frame(text, (size_t)((next ? next : end) - text), keys))
            return false;
        if (!next)
            return true;
        text = next + 1;
    }
}
