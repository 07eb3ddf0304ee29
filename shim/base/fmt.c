/* A subset of printf that is safe anywhere: it uses no heap, no locale, no stdio and no state. */
#include "shim/base/base.h"

struct sink {
    char *out;
    size_t size; /* bytes of `out`, terminator included */
    size_t length;
};

struct spec {
    bool zero;
    size_t width;
    bool has_precision;
    size_t precision;
    int longs; /* 0 int, 1 long, 2 long long, 3 size_t */
};

static void put_char(struct sink *sink, char c) {
    if (sink->length + 1 < sink->size)
        sink->out[sink->length] = c;
    sink->length++;
}

static void pad(struct sink *sink, char c, size_t width, size_t used) {
    for (; used < width; used++)
        put_char(sink, c);
}

static void put_number(struct sink *sink, const struct spec *spec, const char *sign, uint64_t value, unsigned base) {
    char digits[24];
    size_t count = 0, signs = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (sign[signs])
        signs++;
    if (!spec->zero)
        pad(sink, ' ', spec->width, signs + count);
    for (size_t i = 0; i < signs; i++)
        put_char(sink, sign[i]);
    if (spec->zero)
        pad(sink, '0', spec->width, signs + count);
    while (count)
        put_char(sink, digits[--count]);
}

static void put_text(struct sink *sink, const struct spec *spec, const char *text) {
    size_t length = 0;
    if (!text)
        text = "(null)";
    while ((!spec->has_precision || length < spec->precision) && text[length])
        length++;
    pad(sink, ' ', spec->width, length);
    for (size_t i = 0; i < length; i++)
        put_char(sink, text[i]);
}

/* A va_list that is an array type cannot be passed on by address. A struct around it can. */
struct arguments {
    va_list list;
};

static int64_t take_signed(struct arguments *args, int longs) {
    switch (longs) {
    case 0: return va_arg(args->list, int);
    case 1: return va_arg(args->list, long);
    case 2: return va_arg(args->list, long long);
    default: return (int64_t)va_arg(args->list, size_t);
    }
}

static uint64_t take_unsigned(struct arguments *args, int longs) {
    switch (longs) {
    case 0: return va_arg(args->list, unsigned);
    case 1: return va_arg(args->list, unsigned long);
    case 2: return va_arg(args->list, unsigned long long);
    default: return va_arg(args->list, size_t);
    }
}

/* A negative `*` precision counts as none. A negative `*` width counts as its absolute value, because this formatter
 * only aligns to the right. */
static const char *parse_spec(const char *p, struct spec *spec, struct arguments *args) {
    *spec = (struct spec){0};
    if (*p == '0') {
        spec->zero = true;
        p++;
    }
    if (*p == '*') {
        int width = va_arg(args->list, int);
        spec->width = width < 0 ? 0u - (unsigned)width : (unsigned)width;
        p++;
    }
    while (*p >= '0' && *p <= '9')
        spec->width = spec->width * 10 + (size_t)(*p++ - '0');
    if (*p == '.') {
        p++;
        spec->has_precision = true;
        if (*p == '*') {
            int precision = va_arg(args->list, int);
            spec->has_precision = precision >= 0;
            spec->precision = precision >= 0 ? (size_t)precision : 0;
            p++;
        }
        while (*p >= '0' && *p <= '9')
            spec->precision = spec->precision * 10 + (size_t)(*p++ - '0');
    }
    if (*p == 'z') {
        spec->longs = 3;
        p++;
    }
    while (*p == 'l' && spec->longs < 2) {
        spec->longs++;
        p++;
    }
    return p;
}

/* False: unknown conversion. The type of its argument is unknown, so no later argument can be read. */
static bool convert(struct sink *sink, char conversion, const struct spec *spec, struct arguments *args) {
    int64_t number;
    switch (conversion) {
    case '%': put_char(sink, '%'); return true;
    case 'c':
        pad(sink, ' ', spec->width, 1);
        put_char(sink, (char)va_arg(args->list, int));
        return true;
    case 's': put_text(sink, spec, va_arg(args->list, const char *)); return true;
    case 'd':
    case 'i':
        number = take_signed(args, spec->longs);
        put_number(sink, spec, number < 0 ? "-" : "", number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10);
        return true;
    case 'u': put_number(sink, spec, "", take_unsigned(args, spec->longs), 10); return true;
    case 'x': put_number(sink, spec, "", take_unsigned(args, spec->longs), 16); return true;
    case 'p': put_number(sink, spec, "0x", (uintptr_t)va_arg(args->list, void *), 16); return true;
    default: return false;
    }
}

int gm_vformat(char *out, size_t size, const char *format, va_list list) {
    struct sink sink = {out, size, 0};
    struct arguments args;
    va_copy(args.list, list);
    for (const char *p = format; *p; p++) {
        struct spec spec;
        if (*p != '%') {
            put_char(&sink, *p);
            continue;
        }
        const char *start = p;
        p = parse_spec(p + 1, &spec, &args);
        if (!convert(&sink, *p, &spec, &args)) {
            for (p = start; *p; p++)
                put_char(&sink, *p);
            break;
        }
    }
    va_end(args.list);
    if (size)
        out[sink.length < size ? sink.length : size - 1] = '\0';
    return (int)sink.length;
}

int gm_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = gm_vformat(out, size, format, args);
    va_end(args);
    return length;
}

/* bytes / 2^shift, in hundredths, rounded as printf rounds it. */
static unsigned hundredths_of(uint64_t bytes, unsigned shift) {
    const uint64_t one = UINT64_C(1) << 20, half = one / 2;
    uint64_t parts = shift < 20 ? bytes << (20 - shift) : bytes >> (shift - 20); /* of 2^-20 */
    uint64_t whole = parts * 100 / one, rest = parts * 100 % one;
    return (unsigned)(whole + (rest > half || (rest == half && whole % 2)));
}

const char *gm_size_text(struct gm_size_text *room, uint64_t bytes) {
    unsigned unit = 0, hundredths = 0;
    if (bytes < 1024) {
        gm_format(room->text, sizeof room->text, "%u B", (unsigned)bytes);
        return room->text;
    }
    do {
        unit++;
        hundredths = hundredths_of(bytes, 10 * unit);
    } while (unit < 6 && (bytes >> 10 * unit >= 1024 || hundredths >= 102400));
    gm_format(room->text, sizeof room->text, "%u.%02u %ciB", hundredths / 100, hundredths % 100, "KMGTPE"[unit - 1]);
    return room->text;
}
