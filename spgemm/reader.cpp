/* Reader of Matrix Market files.
 *
 * The text comes in blocks: a plain file is mapped and is one block, a compressed file gives one block after the other.
 * A block is cut at ends of lines into one chunk for each thread. Two passes over a block: the first counts the lines
 * and entries of each chunk, so that the second, which parses, knows where the entries of each chunk belong and the
 * number of each line. Of all errors of a block the first in the file is reported.
 *
 * The syntax is strict: a line has exactly the numbers that its header promises, and each number ends at a blank. */
#include "spgemm/reader.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <locale.h>
#include <memory>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#ifdef GM_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

constexpr size_t BLOCK = size_t(16) << 20;      /* of a compressed file; the header must fit one */
constexpr size_t CHUNK_MIN = size_t(64) << 10;  /* smaller blocks are parsed by one thread */
constexpr size_t ENTRY_MIN = 4;                 /* bytes of the shortest entry: "1 1" and a newline */
constexpr size_t DEFLATE_MAX = 1032;            /* deflate makes a text smaller by at most this factor */
constexpr int64_t SIZE_FREE = int64_t(1) << 20; /* rows or columns that need no entries */
constexpr int64_t SIZE_PER_ENTRY = 64;          /* rows or columns for each entry, beyond these */

enum class Field { REAL, INTEGER, PATTERN };
enum class Symmetry { GENERAL, SYMMETRIC, SKEW };

struct Header {
    Field field;
    Symmetry symmetry;
    int64_t rows, columns, entries;
};

struct Free {
    void operator()(void *at) const { std::free(at); }
};

/* Without initialisation: pages that the file does not fill are never touched. */
template <typename T> class Array {
  public:
    explicit Array(int64_t count) : at(static_cast<T *>(std::malloc((size_t(count) + 1) * sizeof(T)))) {
        if (!at)
            throw std::bad_alloc();
    }
    T *get() const { return at.get(); }
    T &operator[](int64_t i) const { return at.get()[i]; }

  private:
    std::unique_ptr<T, Free> at;
};

struct Triplets {
    Array<int64_t> row, column;
    Array<double> value;

    explicit Triplets(int64_t count) : row(count), column(count), value(count) {}
};

/* An error; `text` is the line that has it. Line 0: the error concerns the whole file. */
struct Trouble {
    int64_t line;
    std::string what, text;
};

struct Text {
    const char *at, *end;

    bool done() const { return at >= end; }
    /* Takes the next line, without its newline. */
    Text line() {
        const void *found = std::memchr(at, '\n', size_t(end - at));
        const char *stop = found ? static_cast<const char *>(found) : end;
        Text taken{at, stop};
        at = found ? stop + 1 : end;
        return taken;
    }
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void skip_blanks(Text &t) {
    while (!t.done() && is_blank(*t.at))
        t.at++;
}

/* Takes the characters up to the next blank. */
Text word_of(Text &t) {
    skip_blanks(t);
    Text word{t.at, t.at};
    while (word.end < t.end && !is_blank(*word.end))
        word.end++;
    t.at = word.end;
    return word;
}

/* Returns "'text'", at most 80 characters, with question marks for unprintable ones. */
std::string quoted(Text line) {
    while (line.end > line.at && is_blank(line.end[-1]))
        line.end--;
    std::string text(line.at, std::min<size_t>(size_t(line.end - line.at), 80));
    for (char &c : text)
        c = (c >= 0 && c < ' ' && c != '\t') || c == 127 ? '?' : c;
    return "'" + text + "'";
}

std::string number(int64_t value) { return std::to_string(value); }

/* ---- numbers. Each function returns NULL, or what is wrong. */

/* <charconv> reads no plus sign. A second sign is an error. */
void skip_plus(Text &word) {
    if (word.end - word.at > 1 && *word.at == '+' && word.at[1] != '-')
        word.at++;
}

const char *integer_of(Text word, int64_t &value) {
    skip_plus(word);
    auto [stop, status] = std::from_chars(word.at, word.end, value);
    if (status == std::errc::result_out_of_range)
        return "Integer out of range";
    return status == std::errc() && stop == word.end ? nullptr : "Invalid integer value";
}

/* Returns where the exponent of a Fortran number begins: 1.5D+10, 1.5q10, 1.5+300. NULL: it has none. */
const char *fortran_exponent(Text word) {
    for (const char *at = word.at + 1; at < word.end; at++) {
        bool behind_digit = std::isdigit(static_cast<unsigned char>(at[-1])) || at[-1] == '.';
        bool letter = *at && std::strchr("dDqQ", *at);
        /* Fortran writes a point before an exponent without letter. */
        bool sign = (*at == '+' || *at == '-') && std::memchr(word.at, '.', size_t(at - word.at));
        if (behind_digit && (letter || sign))
            return at;
    }
    return nullptr;
}

/* <charconv> does not say whether the number is too large, which becomes infinite, or too small, which becomes 0. */
void extreme_real(const std::string &number, double &value) {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t(0));
    value = plain ? strtod_l(number.c_str(), nullptr, plain) : HUGE_VAL;
}

const char *fortran_real(Text word, double &value) {
    static const char invalid[] = "Invalid floating-point value";
    char copy[128];
    const char *exponent = fortran_exponent(word);
    if (!exponent || word.end - word.at > ptrdiff_t(sizeof copy) - 2)
        return invalid;
    bool letter = std::isalpha(static_cast<unsigned char>(*exponent));
    char *to = std::copy(word.at, exponent, copy);
    *to++ = 'e';
    to = std::copy(exponent + letter, word.end, to);
    auto [stop, status] = std::from_chars(copy, to, value);
    if (stop != to)
        return invalid;
    if (status == std::errc::result_out_of_range)
        extreme_real(std::string(copy, to), value);
    return status == std::errc() || status == std::errc::result_out_of_range ? nullptr : invalid;
}

const char *real_of(Text word, double &value) {
    skip_plus(word);
    auto [stop, status] = std::from_chars(word.at, word.end, value);
    if (stop != word.end)
        return fortran_real(word, value);
    if (status == std::errc::result_out_of_range)
        extreme_real(std::string(word.at, word.end), value);
    return status == std::errc() || status == std::errc::result_out_of_range ? nullptr : "Invalid floating-point value";
}

/* ---- header */

std::string lower(Text word) {
    std::string text(word.at, word.end);
    for (char &c : text)
        c = char(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

template <typename T> struct Word {
    const char *text;
    T value;
};

template <typename T, size_t N> T choose(Text line, Text word, const Word<T> (&words)[N]) {
    std::string text = lower(word);
    for (const Word<T> &w : words)
        if (text == w.text)
            return w.value;
    throw Trouble{1, "Invalid Matrix Market header element: " + (text.empty() ? "none" : text.substr(0, 40)),
                  quoted(line)};
}

void read_banner(Text line, Header &header) {
    enum Other { COMPLEX = -1, HERMITIAN = -2 };
    static const Word<bool> objects[] = {{"matrix", true}, {"vector", false}},
                            formats[] = {{"coordinate", true}, {"array", false}};
    static const Word<int> fields[] = {{"real", int(Field::REAL)},       {"double", int(Field::REAL)},
                                       {"integer", int(Field::INTEGER)}, {"unsigned-integer", int(Field::INTEGER)},
                                       {"pattern", int(Field::PATTERN)}, {"complex", COMPLEX}};
    static const Word<int> symmetries[] = {{"general", int(Symmetry::GENERAL)},
                                           {"symmetric", int(Symmetry::SYMMETRIC)},
                                           {"skew-symmetric", int(Symmetry::SKEW)},
                                           {"hermitian", HERMITIAN}};
    Text rest = line;
    std::string banner = lower(word_of(rest));
    if (banner != "%%matrixmarket" && banner != "%matrixmarket")
        throw Trouble{1, "Not a Matrix Market file: no %%MatrixMarket", quoted(line)};
    bool matrix = choose(line, word_of(rest), objects), coordinate = choose(line, word_of(rest), formats);
    if (!matrix || !coordinate)
        throw Trouble{1, "only sparse matrices (matrix coordinate) are read", quoted(line)};
    int field = choose(line, word_of(rest), fields);
    if (field == COMPLEX)
        throw Trouble{1, "complex values are not supported", quoted(line)};
    int symmetry = choose(line, word_of(rest), symmetries);
    if (symmetry == HERMITIAN)
        throw Trouble{1, "hermitian matrices are not supported", quoted(line)};
    skip_blanks(rest);
    if (!rest.done())
        throw Trouble{1, "more words than a Matrix Market header has", quoted(line)};
    header.field = Field(field);
    header.symmetry = Symmetry(symmetry);
    if (header.symmetry == Symmetry::SKEW && header.field == Field::PATTERN)
        throw Trouble{1, "a skew-symmetric matrix has values", quoted(line)};
}

void read_sizes(Text line, int64_t at, Header &header) {
    int64_t *sizes[] = {&header.rows, &header.columns, &header.entries};
    Text rest = line;
    for (int64_t *size : sizes)
        if (const char *wrong = integer_of(word_of(rest), *size))
            throw Trouble{at, wrong, quoted(line)};
    skip_blanks(rest);
    if (!rest.done())
        throw Trouble{at, "more than rows, columns and entries", quoted(line)};
    for (int64_t *size : sizes)
        if (*size < 0)
            throw Trouble{at, "Matrix dimensions can't be negative", quoted(line)};
}

/* `capacity`: bytes of text that the file can hold. */
void check_sizes(Text line, int64_t at, const Header &header, size_t capacity, bool any_size) {
    auto refuse = [&](const std::string &what) { throw Trouble{at, what, quoted(line)}; };
    if (header.rows > SPG_ROWS_MAX || header.columns > SPG_ROWS_MAX)
        refuse(number(header.rows) + " x " + number(header.columns) + " does not fit 32-bit indices");
    if (header.symmetry != Symmetry::GENERAL && header.rows != header.columns)
        refuse("a symmetric matrix is not square");
    /* So a header cannot make us take memory that the file does not back. */
    if (header.entries > int64_t(capacity / ENTRY_MIN) + 1)
        refuse("truncated file: it cannot hold " + number(header.entries) + " entries");
    if (header.entries > INT32_MAX)
        refuse(number(header.entries) + " entries do not fit 32-bit offsets");
    int64_t largest = std::max(header.rows, header.columns), most = SIZE_FREE + SIZE_PER_ENTRY * header.entries;
    if (largest > most && !any_size)
        refuse(number(largest) + (header.rows >= header.columns ? " rows" : " columns") + " for " +
               number(header.entries) + " entries: more than " + number(most) + " are read with --any-size only");
}

/* ---- entries */

struct Chunk {
    Text text;
    int64_t lines, entries;          /* first pass */
    int64_t first_line, first_entry; /* of the chunk in the file */
    int64_t wrong_line;              /* 0 = none */
    const char *wrong;
    Text wrong_text;
};

class Body {
  public:
    Body(const Header &h, enum spg_precision p, int64_t header_lines)
        : header(h), precision(p), triplets(h.symmetry == Symmetry::GENERAL ? h.entries : 2 * h.entries),
          lines(header_lines), entries(0) {}

    void parse(Text block) {
        std::vector<Chunk> chunks = cut(block);
        int count = int(chunks.size());
#pragma omp parallel for schedule(static, 1)
        for (int i = 0; i < count; i++)
            this->count(chunks[size_t(i)]);
        for (Chunk &chunk : chunks) {
            chunk.first_line = lines + 1;
            chunk.first_entry = entries;
            lines += chunk.lines;
            entries += chunk.entries;
        }
#pragma omp parallel for schedule(static, 1)
        for (int i = 0; i < count; i++)
            read(chunks[size_t(i)]);
        for (const Chunk &chunk : chunks)
            if (chunk.wrong)
                throw Trouble{chunk.wrong_line, chunk.wrong, quoted(chunk.wrong_text)};
    }

    void end() const {
        if (entries < header.entries)
            throw Trouble{0, "Truncated file: " + number(entries) + " of " + number(header.entries) + " entries", ""};
    }

    const Header header;
    const enum spg_precision precision;
    Triplets triplets;

  private:
    static std::vector<Chunk> cut(Text block) {
#ifdef _OPENMP
        size_t threads = size_t(omp_get_max_threads());
#else
        size_t threads = 1;
#endif
        size_t size = size_t(block.end - block.at), step = std::max(CHUNK_MIN, size / threads + 1);
        std::vector<Chunk> chunks;
        while (!block.done()) {
            Text rest{block.at + std::min(step, size_t(block.end - block.at)) - 1, block.end};
            rest.line();
            chunks.push_back({});
            chunks.back().text = {block.at, rest.at};
            block.at = rest.at;
        }
        return chunks;
    }

    static void count(Chunk &chunk) {
        for (Text text = chunk.text; !text.done(); chunk.lines++) {
            Text line = text.line();
            skip_blanks(line);
            chunk.entries += !line.done();
        }
    }

    void read(Chunk &chunk) const {
        int64_t entry = chunk.first_entry, at = chunk.first_line;
        for (Text text = chunk.text; !text.done() && !chunk.wrong; at++) {
            Text line = text.line(), rest = line;
            skip_blanks(rest);
            if (rest.done())
                continue;
            chunk.wrong = read_entry(rest, entry++);
            chunk.wrong_line = at;
            chunk.wrong_text = line;
        }
    }

    const char *read_entry(Text line, int64_t entry) const {
        int64_t row, column;
        double value = 1;
        const char *wrong;
        if (std::memchr(line.at, 0, size_t(line.end - line.at)))
            return "a zero byte: this is no text file";
        if (entry >= header.entries)
            return "Too many lines in file";
        if ((wrong = integer_of(word_of(line), row)) || (wrong = integer_of(word_of(line), column)) ||
            (header.field != Field::PATTERN && (wrong = read_value(word_of(line), value))))
            return wrong;
        skip_blanks(line);
        if (!line.done())
            return header.field == Field::PATTERN ? "more than a row and a column"
                                                  : "more than a row, a column and a value";
        if (row < 1 || row > header.rows)
            return "Row index out of bounds";
        if (column < 1 || column > header.columns)
            return "Column index out of bounds";
        if (header.symmetry == Symmetry::SKEW && row == column && value != 0)
            return "a skew-symmetric matrix has no diagonal";
        triplets.row[entry] = row - 1;
        triplets.column[entry] = column - 1;
        triplets.value[entry] = value;
        return nullptr;
    }

    const char *read_value(Text word, double &value) const {
        int64_t integer = 0;
        const char *wrong = header.field == Field::INTEGER ? integer_of(word, integer) : real_of(word, value);
        if (wrong)
            return wrong;
        if (header.field == Field::INTEGER)
            value = double(integer);
        if (!std::isfinite(value))
            return "the value is not finite";
        if (precision == SPG_FLOAT && !std::isfinite(float(value)))
            return "the value is not finite in single precision";
        return nullptr;
    }

    int64_t lines, entries; /* so far */
};

/* Appends the entries of the other triangle; returns the new number of entries. */
int64_t mirror(const Body &body) {
    const Triplets &t = body.triplets;
    double factor = body.header.symmetry == Symmetry::SKEW ? -1 : 1;
    int64_t next = body.header.entries;
    if (body.header.symmetry == Symmetry::GENERAL)
        return next;
    for (int64_t k = 0; k < body.header.entries; k++) {
        if (t.row[k] == t.column[k])
            continue;
        t.row[next] = t.column[k];
        t.column[next] = t.row[k];
        t.value[next++] = factor * t.value[k];
    }
    return next;
}

/* ---- files */

/* Gives the blocks of a text in order; each ends at the end of a line, or of the text. */
class Source {
  public:
    virtual ~Source() = default;
    virtual Text next() = 0;             /* empty at the end */
    virtual size_t capacity() const = 0; /* the most bytes of text that it can give */
};

class Memory : public Source {
  public:
    Memory(const char *text, size_t size) : whole{text, text + size}, bytes(size) {}
    Text next() override {
        Text block = whole;
        whole.at = whole.end;
        return block;
    }
    size_t capacity() const override { return bytes; }

  private:
    Text whole;
    size_t bytes;
};

#ifdef GM_HAVE_ZLIB
class Gzip : public Source {
  public:
    Gzip(const char *text, size_t size)
        : left{text, text + size}, bytes(size), buffer(int64_t(BLOCK)), kept(0), at_end(false), used(0) {
        stream = {};
        if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
            throw std::bad_alloc();
    }
    ~Gzip() override { inflateEnd(&stream); }

    Text next() override {
        char *base = buffer.get();
        std::memmove(base, base + used, kept);
        size_t have = kept;
        while (have < BLOCK && !at_end)
            have += fill(base + have, BLOCK - have);
        size_t size = have;
        while (!at_end && size && base[size - 1] != '\n')
            size--;
        if (have && !size)
            throw Trouble{0, "a line of more than " + number(int64_t(BLOCK)) + " bytes", ""};
        used = size;
        kept = have - size;
        return {base, base + size};
    }
    size_t capacity() const override { return bytes > SIZE_MAX / DEFLATE_MAX ? SIZE_MAX : bytes * DEFLATE_MAX; }

  private:
    size_t fill(char *to, size_t room) {
        size_t feed = std::min<size_t>(size_t(left.end - left.at), 1u << 30);
        stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(left.at));
        stream.avail_in = uInt(feed);
        stream.next_out = reinterpret_cast<Bytef *>(to);
        stream.avail_out = uInt(room);
        int status = inflate(&stream, Z_NO_FLUSH);
        left.at += feed - stream.avail_in;
        if (status == Z_STREAM_END) {
            /* A file may have several compressed members. */
            at_end = left.done();
            if (!at_end && inflateReset(&stream) != Z_OK)
                throw std::bad_alloc();
        } else if (status == Z_MEM_ERROR) {
            throw std::bad_alloc();
        } else if (status != Z_OK || (left.done() && stream.avail_out)) {
            throw Trouble{0, left.done() ? "the compressed file is truncated" : "the compressed file is damaged", ""};
        }
        return room - stream.avail_out;
    }

    Text left;
    size_t bytes;
    Array<char> buffer;
    size_t kept; /* bytes of the buffer from `used` on that no block had yet */
    bool at_end;
    size_t used;
    z_stream stream;
};
#endif

/* Reads the header from the first block, which then begins behind it. Returns its number of lines. */
int64_t read_header(Text &block, Header &header, size_t capacity, bool any_size) {
    Text first = block.line();
    read_banner(first, header);
    for (int64_t at = 2; !block.done(); at++) {
        Text line = block.line(), rest = line;
        skip_blanks(rest);
        if (rest.done() || *rest.at == '%')
            continue;
        read_sizes(line, at, header);
        check_sizes(line, at, header, capacity, any_size);
        return at;
    }
    throw Trouble{0, "Invalid Matrix Market header: Premature EOF", ""};
}

bool read(Source &source, const char *name, const struct spg_read_options *options, struct spg_csr *m,
          struct spg_reading *reading, struct spg_error *error) {
    Header header;
    Text block = source.next();
    int64_t header_lines = read_header(block, header, source.capacity(), options->any_size);
    Body body(header, options->precision, header_lines);
    for (; !block.done(); block = source.next())
        body.parse(block);
    /* The header may end with its block. */
    for (block = source.next(); !block.done(); block = source.next())
        body.parse(block);
    body.end();
    int64_t count = mirror(body);
    reading->mirrored = count - header.entries;
    const Triplets &t = body.triplets;
    if (!spg_csr_from_triplets(m, int32_t(header.rows), int32_t(header.columns), count, t.row.get(), t.column.get(),
                               t.value.get(), &reading->merged, error))
        return spg_fail_in(error, name);
    for (int64_t k = 0; k < spg_csr_stored(m); k++)
        if (!std::isfinite(options->precision == SPG_FLOAT ? double(float(m->values[k])) : m->values[k]))
            throw Trouble{0, "duplicate entries of column " + number(m->indices[k] + 1) + " add up to no finite value",
                          ""};
    return true;
}

bool is_compressed(const char *text, size_t size) { return size > 2 && text[0] == '\x1f' && text[1] == '\x8b'; }

std::unique_ptr<Source> source_of(const char *text, size_t size) {
    if (!is_compressed(text, size))
        return std::make_unique<Memory>(text, size);
#ifdef GM_HAVE_ZLIB
    return std::make_unique<Gzip>(text, size);
#else
    throw Trouble{0, "compressed files need zlib, which this build lacks", ""};
#endif
}

} // namespace

bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          const struct spg_read_options *options, struct spg_reading *reading,
                          struct spg_error *error) {
    bool done = false;
    *m = {};
    *reading = {};
    try {
        std::unique_ptr<Source> source = source_of(text, size);
        done = read(*source, name, options, m, reading, error);
    } catch (const Trouble &t) {
        if (t.line)
            spg_fail(error, "%s:%lld: %s: %s", name, static_cast<long long>(t.line), t.what.c_str(), t.text.c_str());
        else
            spg_fail(error, "%s: %s", name, t.what.c_str());
    } catch (const std::exception &) {
        spg_fail(error, "%s: out of memory", name);
    }
    if (!done)
        spg_csr_free(m);
    return done;
}

bool spg_read_matrix(struct spg_csr *m, const char *path, const struct spg_read_options *options,
                     struct spg_reading *reading, struct spg_error *error) {
    struct stat status;
    *m = {};
    *reading = {};
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status)) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return spg_fail(error, "%s: %s", path, std::strerror(reason));
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return spg_fail(error, "%s: not a regular file", path);
    }
    size_t size = size_t(status.st_size);
    void *text = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
    int reason = errno;
    close(fd);
    if (text == MAP_FAILED)
        return spg_fail(error, "%s: %s", path, std::strerror(reason));
    bool done = spg_read_matrix_text(m, path, size ? static_cast<char *>(text) : "", size, options, reading, error);
    if (size)
        munmap(text, size);
    return done;
}
