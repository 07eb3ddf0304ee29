/* Decoder for a frame of zstd, after RFC 8878; section numbers below are of that text.
 *
 * A frame is a list of blocks of at most 128 KiB. A compressed block has two parts. The first part gives all literal
 * bytes of the block, mostly as Huffman codes. The second part is a list of sequences: copy so many literals, then
 * repeat so many bytes from so far back in the output. Lengths and distances are codes of three tANS (FSE) state
 * machines that read one common stream of bits. Such streams are read from their end to their beginning. */
#include "shim/hook/unpack.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/hook/unpack_copy.h"

enum {
    MAGIC = 0xfd2fb528,
    MOST_BLOCK = 128 << 10,
    MOST_BITS = 11, /* of a Huffman code */
    MOST_LOG = 9,   /* of an FSE table's size */
    LENGTH_CODES = 36,
    MATCH_CODES = 53,
    OFFSET_CODES = 32, /* numbers of codes */
    WEIGHTS = 256,
};

struct state { /* one row of an FSE table */
    uint16_t base;
    uint8_t bits, symbol;
};
struct fse {
    unsigned log;
    bool known;
    struct state row[1 << MOST_LOG];
};
struct code { /* one row of a Huffman table */
    uint8_t bits, symbol;
};

struct decoder {
    uint8_t *begin, *out, *end;
    struct fse lengths, offsets, matches;
    unsigned code_bits; /* of the Huffman table; 0: there is none yet */
    struct code codes[1 << MOST_BITS];
    uint32_t recent[3]; /* distances */
    const uint8_t *literals;
    size_t literal_count;
    uint8_t own_literals[MOST_BLOCK + GM_COPY_STEP];
};

struct span {
    const uint8_t *at, *end;
};
static size_t left(const struct span *in) { return (size_t)(in->end - in->at); }

/* The next bytes as a little-endian number. */
static bool take(struct span *in, unsigned bytes, uint64_t *value) {
    *value = 0;
    if (left(in) < bytes)
        return false;
    for (unsigned i = 0; i < bytes; i++)
        *value |= (uint64_t)*in->at++ << 8 * i;
    return true;
}

/* ---- bits. A stream is a little-endian number. `left` counts the bits that are not read yet; it is negative after a
 * read of more bits than there were, which gives zeros in their place. */

struct bits {
    const uint8_t *begin;
    size_t bytes;
    int64_t left;
};

static uint64_t load(const struct bits *bits, size_t at) {
    uint64_t word = 0;
    if (at + sizeof word <= bits->bytes)
        memcpy(&word, bits->begin + at, sizeof word);
    else if (at < bits->bytes)
        memcpy(&word, bits->begin + at, bits->bytes - at);
    return word;
}

/* 4: the highest bit that is set marks the end. */
static bool begin_backward(struct bits *bits, const uint8_t *begin, size_t bytes) {
    if (bytes == 0 || begin[bytes - 1] == 0)
        return false;
    *bits = (struct bits){begin, bytes, (int64_t)(8 * bytes) - 8 + 31 - __builtin_clz(begin[bytes - 1])};
    return true;
}

static inline uint64_t peek_backward(const struct bits *bits, unsigned count) {
    int64_t from = bits->left - count;
    uint64_t mask = ((uint64_t)1 << count) - 1;
    if (GM_LIKELY(from >= 0))
        return load(bits, (size_t)from / 8) >> (from & 7) & mask;
    return bits->left > 0 ? load(bits, 0) << -from & mask : 0;
}

static inline uint64_t read_backward(struct bits *bits, unsigned count) {
    uint64_t value = peek_backward(bits, count);
    bits->left -= count;
    return value;
}

/* ---- FSE tables (4.1) */

static bool build_fse(struct fse *table, const int16_t *shares, unsigned symbols, unsigned log) {
    uint16_t next[LENGTH_CODES > MATCH_CODES ? LENGTH_CODES : MATCH_CODES];
    uint32_t size = 1u << log, high = size, place = 0, step = (size >> 1) + (size >> 3) + 3;
    for (unsigned symbol = 0; symbol < symbols; symbol++) {
        next[symbol] = shares[symbol] < 0 ? 1 : (uint16_t)shares[symbol];
        if (shares[symbol] < 0)
            table->row[--high].symbol = (uint8_t)symbol;
    }
    for (unsigned symbol = 0; symbol < symbols; symbol++)
        for (int i = 0; i < shares[symbol]; i++) {
            table->row[place].symbol = (uint8_t)symbol;
            do
                place = (place + step) & (size - 1);
            while (place >= high);
        }
    if (place != 0)
        return false;
    for (uint32_t i = 0; i < size; i++) {
        unsigned from = next[table->row[i].symbol]++, bits = log - (31 - (unsigned)__builtin_clz(from));
        table->row[i].bits = (uint8_t)bits;
        table->row[i].base = (uint16_t)((from << bits) - size);
    }
    table->log = log;
    table->known = true;
    return true;
}

static bool build_default(struct fse *table, const int8_t *shares, unsigned symbols, unsigned log) {
    int16_t wide[MATCH_CODES];
    for (unsigned i = 0; i < symbols; i++)
        wide[i] = shares[i];
    return build_fse(table, wide, symbols, log);
}

static void build_single(struct fse *table, uint8_t symbol) {
    table->row[0] = (struct state){.symbol = symbol};
    table->log = 0;
    table->known = true;
}

/* 4.1.1: the shares of the symbols. A share takes as few bits as the sum of those that are missing allows. */
static bool read_fse(struct fse *table, struct span *in, unsigned most_symbols, unsigned most_log) {
    int16_t shares[MATCH_CODES] = {0};
    struct bits bits = {in->at, left(in), 0};
    size_t at = 4; /* bits read */
    unsigned log = (unsigned)(load(&bits, 0) & 15) + 5, symbol = 0;
    int missing = (1 << log) + 1;
    if (bits.bytes == 0 || log > most_log)
        return false;
    while (missing > 1) {
        unsigned width = 32 - (unsigned)__builtin_clz((unsigned)missing);
        uint32_t word = (uint32_t)(load(&bits, at / 8) >> (at & 7));
        uint32_t few = (1u << width) - 1 - (uint32_t)missing, low = word & ((1u << (width - 1)) - 1);
        uint32_t value = low < few ? low : word & ((1u << width) - 1);
        at += low < few ? width - 1 : width;
        if (low >= few && value >= 1u << (width - 1))
            value -= few;
        int share = (int)value - 1;
        if (symbol >= most_symbols)
            return false;
        shares[symbol++] = (int16_t)share;
        missing -= share < 0 ? 1 : share;
        for (unsigned zeros = 3; share == 0 && zeros == 3; at += 2) {
            zeros = (unsigned)(load(&bits, at / 8) >> (at & 7)) & 3;
            symbol += zeros;
            if (symbol > most_symbols || at > 8 * bits.bytes)
                return false;
        }
    }
    size_t bytes = (at + 7) / 8;
    if (missing != 1 || bytes > bits.bytes)
        return false;
    in->at += bytes;
    return build_fse(table, shares, symbol, log);
}

/* ---- literals (3.1.1.3.1) */

/* 4.2.1.2: two states take turns until the stream has no bits left. */
static bool read_weights(struct span in, uint8_t *weights, unsigned *count) {
    struct fse table;
    struct bits bits;
    if (!read_fse(&table, &in, MOST_BITS + 1, 6) || !begin_backward(&bits, in.at, left(&in)))
        return false;
    const struct state *row[2];
    for (int i = 0; i < 2; i++)
        row[i] = &table.row[read_backward(&bits, table.log)];
    for (int turn = 0; bits.left >= 0; turn ^= 1) {
        if (*count > WEIGHTS - 3)
            return false;
        weights[(*count)++] = row[turn]->symbol;
        uint64_t more = read_backward(&bits, row[turn]->bits);
        if (bits.left < 0)
            weights[(*count)++] = row[turn ^ 1]->symbol;
        row[turn] = &table.row[row[turn]->base + more];
    }
    return true;
}

/* 4.2.1: the weight of the last symbol fills the sum up to a power of two. Symbols of a small weight have long codes
 * and come first in the table. */
static bool build_codes(struct decoder *d, uint8_t *weights, unsigned count) {
    uint32_t sum = 0, starts[MOST_BITS + 2] = {0}, place = 0;
    for (unsigned i = 0; i < count; i++) {
        if (weights[i] > MOST_BITS)
            return false;
        sum += weights[i] ? 1u << (weights[i] - 1) : 0;
    }
    if (sum == 0)
        return false;
    unsigned bits = 32 - (unsigned)__builtin_clz(sum);
    uint32_t rest = (1u << bits) - sum;
    if (bits > MOST_BITS || (rest & (rest - 1)))
        return false;
    weights[count++] = (uint8_t)(32 - __builtin_clz(rest));
    for (unsigned i = 0; i < count; i++)
        starts[weights[i]] += weights[i] ? 1u << (weights[i] - 1) : 0;
    for (unsigned weight = 1; weight <= bits; weight++) {
        uint32_t size = starts[weight];
        starts[weight] = place;
        place += size;
    }
    for (unsigned symbol = 0; symbol < count; symbol++) {
        unsigned weight = weights[symbol];
        for (uint32_t i = 0; weight && i < 1u << (weight - 1); i++)
            d->codes[starts[weight]++] = (struct code){(uint8_t)(bits + 1 - weight), (uint8_t)symbol};
    }
    d->code_bits = bits;
    return true;
}

static bool read_codes(struct decoder *d, struct span *in) {
    uint8_t weights[WEIGHTS] = {0};
    unsigned count = 0;
    uint64_t head;
    if (!take(in, 1, &head))
        return false;
    size_t bytes = head < 128 ? head : (head - 127 + 1) / 2;
    if (left(in) < bytes)
        return false;
    if (head >= 128)
        for (; count < head - 127; count++)
            weights[count] = in->at[count / 2] >> (count & 1 ? 0 : 4) & 15;
    else if (!read_weights((struct span){in->at, in->at + bytes}, weights, &count))
        return false;
    in->at += bytes;
    return build_codes(d, weights, count);
}

static bool read_huffman(const struct decoder *d, const uint8_t *in, size_t bytes, uint8_t *out, size_t size) {
    enum { AT_ONCE = 5 }; /* codes in 56 bits */
    struct bits bits;
    size_t done = 0;
    unsigned width = d->code_bits;
    if (!begin_backward(&bits, in, bytes))
        return false;
    while (size - done >= AT_ONCE && bits.left >= 64) {
        uint64_t word = load(&bits, (size_t)bits.left / 8 - 7) << (8 - (bits.left & 7));
        unsigned used = 0;
        for (int i = 0; i < AT_ONCE; i++) {
            struct code code = d->codes[word >> (64 - width)];
            out[done++] = code.symbol;
            word <<= code.bits;
            used += code.bits;
        }
        bits.left -= used;
    }
    for (; done < size; done++) {
        struct code code = d->codes[peek_backward(&bits, width)];
        out[done] = code.symbol;
        bits.left -= code.bits;
    }
    return bits.left == 0;
}

/* Four streams have the same number of bytes, but for the last. Their sizes come first, without the last one's. */
static bool read_four(const struct decoder *d, struct span in, uint8_t *out, size_t size) {
    size_t quarter = (size + 3) / 4;
    uint64_t bytes[4];
    for (int i = 0; i < 3; i++)
        if (!take(&in, 2, &bytes[i]))
            return false;
    if (bytes[0] + bytes[1] + bytes[2] > left(&in) || 3 * quarter > size)
        return false;
    bytes[3] = left(&in) - bytes[0] - bytes[1] - bytes[2];
    for (int i = 0; i < 4; i++) {
        if (!read_huffman(d, in.at, bytes[i], out + i * quarter, i < 3 ? quarter : size - 3 * quarter))
            return false;
        in.at += bytes[i];
    }
    return true;
}

static bool read_packed_literals(struct decoder *d, struct span *in, bool has_codes, unsigned format) {
    uint64_t head;
    unsigned width = format < 2 ? 10 : format == 2 ? 14 : 18;
    if (!take(in, format < 2 ? 3 : format + 2, &head))
        return false;
    size_t size = head >> 4 & ((1u << width) - 1), bytes = head >> (4 + width) & ((1u << width) - 1);
    if (size > MOST_BLOCK || bytes > left(in))
        return false;
    struct span packed = {in->at, in->at + bytes};
    in->at += bytes;
    if ((has_codes && !read_codes(d, &packed)) || !d->code_bits)
        return false;
    d->literals = d->own_literals;
    d->literal_count = size;
    return format == 0 ? read_huffman(d, packed.at, left(&packed), d->own_literals, size)
                       : read_four(d, packed, d->own_literals, size);
}

static bool read_literals(struct decoder *d, struct span *in) {
    enum { RAW, RUN, PACKED, PACKED_AS_BEFORE };
    if (in->at == in->end)
        return false;
    unsigned type = *in->at & 3, format = *in->at >> 2 & 3;
    if (type >= PACKED)
        return read_packed_literals(d, in, type == PACKED, format);
    uint64_t head;
    if (!take(in, format == 1 ? 2 : format == 3 ? 3 : 1, &head))
        return false;
    size_t size = head >> (format & 1 ? 4 : 3), bytes = type == RUN ? 1 : size;
    if (size > MOST_BLOCK || bytes > left(in))
        return false;
    d->literals = d->own_literals;
    d->literal_count = size;
    if (type == RUN)
        memset(d->own_literals, *in->at, size);
    else
        memcpy(d->own_literals, in->at, size);
    in->at += bytes;
    return true;
}

/* ---- sequences (3.1.1.3.2) */

static const int8_t length_shares[LENGTH_CODES] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                                   2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
static const int8_t match_shares[MATCH_CODES] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
static const int8_t offset_shares[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

/* The smallest length of a code, and the number of bits that are added to it. */
static const uint32_t length_base[LENGTH_CODES] = {0,  1,  2,   3,   4,   5,    6,    7,    8,    9,     10,    11,
                                                   12, 13, 14,  15,  16,  18,   20,   22,   24,   28,    32,    40,
                                                   48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
static const uint8_t length_bits[LENGTH_CODES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
                                                  1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint32_t match_base[MATCH_CODES] = {
    3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13,   14,   15,   16,   17,    18,    19,   20,
    21, 22, 23, 24, 25, 26, 27, 28,  29,  30,  31,   32,   33,   34,   35,    37,    39,   41,
    43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
static const uint8_t match_bits[MATCH_CODES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0, 0,
                                                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  1,  1,  1, 1,
                                                2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static bool read_table(struct fse *table, struct span *in, unsigned mode, const int8_t *shares, unsigned shares_count,
                       unsigned log, unsigned codes, unsigned most_log) {
    enum { DEFAULT, SINGLE, DESCRIBED, AS_BEFORE };
    uint64_t symbol;
    switch (mode) {
    case DEFAULT: return build_default(table, shares, shares_count, log);
    case SINGLE:
        if (!take(in, 1, &symbol) || symbol >= codes)
            return false;
        build_single(table, (uint8_t)symbol);
        return true;
    case DESCRIBED: return read_fse(table, in, codes, most_log);
    default: return table->known;
    }
}

static bool read_sequence_count(struct span *in, size_t *count) {
    uint64_t first, more = 0;
    if (!take(in, 1, &first) || !take(in, first < 128 ? 0 : first < 255 ? 1 : 2, &more))
        return false;
    *count = first < 128 ? first : first < 255 ? (first - 128) << 8 | more : more + 0x7f00;
    return true;
}

/* 3.1.1.5: values up to 3 name a recent distance. */
static uint32_t distance_of(struct decoder *d, uint64_t value, size_t literals) {
    uint32_t *recent = d->recent, distance;
    if (value > 3) {
        distance = (uint32_t)(value - 3);
        recent[2] = recent[1];
        recent[1] = recent[0];
        recent[0] = distance;
        return distance;
    }
    unsigned which = (unsigned)value - (literals > 0);
    distance = which < 3 ? recent[which] : recent[0] - 1;
    if (which > 1)
        recent[2] = recent[1];
    if (which > 0)
        recent[1] = recent[0];
    recent[0] = distance;
    return distance;
}

static bool copy_sequence(struct decoder *d, size_t literals, uint32_t distance, size_t match) {
    size_t room = (size_t)(d->end - d->out);
    if (literals > d->literal_count || literals + match > room ||
        (match && (distance == 0 || distance > (size_t)(d->out - d->begin) + literals)))
        return false;
    if (room >= literals + GM_COPY_STEP)
        gm_copy_steps(d->out, d->literals, literals); /* behind the literals is room for a step */
    else
        memcpy(d->out, d->literals, literals);
    d->out += literals;
    d->literals += literals;
    d->literal_count -= literals;
    gm_copy_match(d->out, distance, match, d->end);
    d->out += match;
    return true;
}

static bool read_sequences(struct decoder *d, struct bits *bits, size_t count) {
    const struct state *length = d->lengths.row + read_backward(bits, d->lengths.log);
    const struct state *offset = d->offsets.row + read_backward(bits, d->offsets.log);
    const struct state *match = d->matches.row + read_backward(bits, d->matches.log);
    for (; count; count--) {
        uint64_t value = ((uint64_t)1 << offset->symbol) + read_backward(bits, offset->symbol);
        size_t matched = match_base[match->symbol] + read_backward(bits, match_bits[match->symbol]);
        size_t literals = length_base[length->symbol] + read_backward(bits, length_bits[length->symbol]);
        if (count > 1) {
            length = d->lengths.row + length->base + read_backward(bits, length->bits);
            match = d->matches.row + match->base + read_backward(bits, match->bits);
            offset = d->offsets.row + offset->base + read_backward(bits, offset->bits);
        }
        if (bits->left < 0 || !copy_sequence(d, literals, distance_of(d, value, literals), matched))
            return false;
    }
    return bits->left == 0;
}

static bool read_packed_block(struct decoder *d, struct span in) {
    struct bits bits;
    size_t count;
    uint64_t modes;
    if (!read_literals(d, &in) || !read_sequence_count(&in, &count))
        return false;
    if (count > 0) {
        if (!take(&in, 1, &modes) || modes & 3 ||
            !read_table(&d->lengths, &in, modes >> 6, length_shares, LENGTH_CODES, 6, LENGTH_CODES, 9) ||
            !read_table(&d->offsets, &in, modes >> 4 & 3, offset_shares, 29, 5, OFFSET_CODES, 8) ||
            !read_table(&d->matches, &in, modes >> 2 & 3, match_shares, MATCH_CODES, 6, MATCH_CODES, 9) ||
            !begin_backward(&bits, in.at, left(&in)) || !read_sequences(d, &bits, count))
            return false;
    } else if (in.at != in.end)
        return false;
    return copy_sequence(d, d->literal_count, 0, 0);
}

/* ---- blocks and frame (3.1.1) */

static bool read_blocks(struct decoder *d, struct span *in) {
    enum { RAW, RUN, PACKED };
    uint64_t head, last = 0;
    while (!last) {
        if (!take(in, 3, &head))
            return false;
        unsigned type = head >> 1 & 3;
        size_t size = head >> 3, bytes = type == RUN ? 1 : size;
        last = head & 1;
        if (bytes > left(in) || type > PACKED || (type != PACKED && size > (size_t)(d->end - d->out)))
            return false;
        if (type == PACKED && !read_packed_block(d, (struct span){in->at, in->at + size}))
            return false;
        if (type == RAW)
            memcpy(d->out, in->at, size);
        if (type == RUN)
            memset(d->out, *in->at, size);
        d->out += type == PACKED ? 0 : size;
        in->at += bytes;
    }
    return true;
}

static bool read_frame(struct decoder *d, struct span *in) {
    static const unsigned char name_bytes[4] = {0, 1, 2, 4}, size_bytes[4] = {0, 2, 4, 8};
    uint64_t magic, flags, window, dictionary, size, checksum;
    if (!take(in, 4, &magic) || magic != MAGIC || !take(in, 1, &flags) || flags & 8)
        return false;
    bool single = flags >> 5 & 1, checked = flags >> 2 & 1;
    unsigned sized = size_bytes[flags >> 6] + (single && flags >> 6 == 0);
    if (!take(in, !single, &window) || !take(in, name_bytes[flags & 3], &dictionary) || dictionary ||
        !take(in, sized, &size))
        return false;
    size += sized == 2 ? 256 : 0;
    if (sized && size != (uint64_t)(d->end - d->out))
        return false;
    return read_blocks(d, in) && take(in, checked ? 4 : 0, &checksum) && in->at == in->end && d->out == d->end;
}

bool gm_unpack_zstd(const void *in, size_t packed, void *out, size_t size) {
    struct decoder *d = gm_pages(sizeof *d); /* too large for the stack of a program's thread */
    if (!d)
        return false;
    d->begin = d->out = out;
    d->end = d->out + size;
    d->recent[0] = 1;
    d->recent[1] = 4;
    d->recent[2] = 8;
    bool whole = read_frame(d, &(struct span){in, (const uint8_t *)in + packed});
    munmap(d, sizeof *d);
    return whole;
}
