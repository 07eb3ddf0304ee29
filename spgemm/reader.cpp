/* Reader of Matrix Market files. fast_matrix_market parses; this file checks what the parser accepts but a product
 * cannot use: the kind of matrix, a header that promises more than the file can hold, values, 32-bit sizes. Errors name
 * the line. */
#include "spgemm/reader.h"

/* Read numbers by <charconv>: strtod, the alternative, depends on the locale and reads across ends of lines. */
#define FMM_FROM_CHARS_INT_SUPPORTED    1
#define FMM_FROM_CHARS_DOUBLE_SUPPORTED 1
#define FMM_NO_VECTOR                   1
#include <fast_matrix_market/fast_matrix_market.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fmm = fast_matrix_market;

namespace {

/* The text, followed by a newline: the parser runs past the end when the last line has none. */
class Text : public std::streambuf {
  public:
    Text(const char *text, size_t size) : newline('\n') {
        char *begin = const_cast<char *>(text);
        setg(begin, begin, begin + size);
    }

  protected:
    int_type underflow() override {
        if (egptr() == &newline + 1)
            return traits_type::eof();
        setg(&newline, &newline, &newline + 1);
        return traits_type::to_int_type(newline);
    }

  private:
    char newline;
};

struct Triplets {
    std::unique_ptr<int64_t[]> row, column;
    std::unique_ptr<double[]> value;

    explicit Triplets(int64_t count)
        : row(new int64_t[count + 1]), column(new int64_t[count + 1]), value(new double[count + 1]) {
        std::fill_n(row.get(), count, int64_t(-1));
    }
};

/* Thrown by this file; the parser throws fmm::fmm_error. Line 0: the error has no line. */
struct Trouble {
    int64_t line;
    std::string what;
};

struct Input {
    const char *name, *text;
    size_t size;
    enum spg_precision precision;
};

std::string number(int64_t value) { return std::to_string(value); }

/* The text of line `wanted`, counted from 1; at most 80 characters. */
std::string line_of(const Input &input, int64_t wanted) {
    const char *at = input.text, *end = input.text + input.size;
    for (int64_t line = 1; at < end; line++) {
        const void *found = std::memchr(at, '\n', size_t(end - at));
        const char *stop = found ? static_cast<const char *>(found) : end;
        if (line == wanted)
            return std::string(at, std::min<size_t>(size_t(stop - at), 80));
        at = stop + (stop < end);
    }
    return "";
}

/* Returns "'text'", with question marks for unprintable characters. */
std::string quoted(std::string text) {
    while (!text.empty() && (text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    for (char &c : text)
        c = (c < ' ' && c != '\t') || c == 127 ? '?' : c;
    return "'" + text + "'";
}

/* Number of the line with entry `wanted`, counted from 0 after the header. */
int64_t line_of_entry(const Input &input, const fmm::matrix_market_header &header, int64_t wanted) {
    const char *at = input.text, *end = input.text + input.size;
    int64_t line = 1, entry = 0;
    while (at < end) {
        const void *found = std::memchr(at, '\n', size_t(end - at));
        const char *stop = found ? static_cast<const char *>(found) : end;
        bool counts = line > header.header_line_count && !fmm::is_all_spaces(at, stop);
        if (counts && entry++ == wanted)
            return line;
        line++;
        at = stop + (stop < end);
    }
    return 0;
}

bool fail(const Input &input, int64_t line, const std::string &what, struct spg_error *error) {
    if (line < 1)
        return spg_fail(error, "%s: %s", input.name, what.c_str());
    return spg_fail(error, "%s:%lld: %s: %s", input.name, static_cast<long long>(line), what.c_str(),
                    quoted(line_of(input, line)).c_str());
}

/* Number of the line with the sizes, the first one after the comments; 0 if there is none. */
int64_t line_of_sizes(const Input &input) {
    int64_t line = 1;
    Text buffer(input.text, input.size);
    std::istream lines(&buffer);
    for (std::string text; std::getline(lines, text); line++) {
        size_t first = text.find_first_not_of(" \t\r");
        if (line > 1 && first != std::string::npos && text[first] != '%')
            return line;
    }
    return 0;
}

/* Most error texts of the parser begin with "Line 7: ". `line` is the number for the others. */
Trouble from_parser(const char *text, int64_t line) {
    while (!std::strncmp(text, "Line ", 5)) {
        char *end;
        line = std::strtoll(text + 5, &end, 10);
        text = *end == ':' ? end + 2 : end;
    }
    std::string what = text;
    while (!what.empty() && what.back() == '.')
        what.pop_back();
    return {line, what};
}

void check_header(const Input &input, const fmm::matrix_market_header &header) {
    if (header.object != fmm::matrix || header.format != fmm::coordinate)
        throw Trouble{1, "only sparse matrices (matrix coordinate) are read"};
    if (header.field == fmm::complex)
        throw Trouble{1, "complex values are not supported"};
    if (header.symmetry == fmm::hermitian)
        throw Trouble{1, "hermitian matrices are not supported"};
    int64_t line = header.header_line_count;
    if (header.nrows > SPG_ROWS_MAX || header.ncols > SPG_ROWS_MAX)
        throw Trouble{line, number(header.nrows) + " x " + number(header.ncols) + " does not fit 32-bit indices"};
    if (header.symmetry != fmm::general && header.nrows != header.ncols)
        throw Trouble{line, "a symmetric matrix is not square"};
    if (header.symmetry == fmm::skew_symmetric && header.field == fmm::pattern)
        throw Trouble{1, "a skew-symmetric matrix has values"};
    /* The shortest entry is "1 1" with a newline, so a header cannot make us take memory that the file does
     * not back.
     */
    if (header.nnz > int64_t(input.size / 4) + 1)
        throw Trouble{line, "truncated file: it cannot hold " + number(header.nnz) + " entries"};
    if (header.nnz > INT32_MAX)
        throw Trouble{line, number(header.nnz) + " entries do not fit 32-bit offsets"};
}

void check_values(const Input &input, const fmm::matrix_market_header &header, const Triplets &t) {
    for (int64_t k = 0; k < header.nnz; k++) {
        double value = t.value[k];
        /* The parser counts lines and reads entries separately. If the two ever differ, some entries stay unset. */
        if (t.row[k] < 0)
            throw Trouble{line_of_entry(input, header, k), "this entry was not read"};
        if (!std::isfinite(value))
            throw Trouble{line_of_entry(input, header, k), "the value is not finite"};
        if (input.precision == SPG_FLOAT && !std::isfinite(float(value)))
            throw Trouble{line_of_entry(input, header, k), "the value is not finite in single precision"};
        if (header.symmetry == fmm::skew_symmetric && t.row[k] == t.column[k] && value != 0)
            throw Trouble{line_of_entry(input, header, k), "a skew-symmetric matrix has no diagonal"};
    }
}

/* Appends the entries of the other triangle; returns the new number of entries. */
int64_t mirror(const fmm::matrix_market_header &header, Triplets &t) {
    double factor = header.symmetry == fmm::skew_symmetric ? -1 : 1;
    int64_t next = header.nnz;
    for (int64_t k = 0; k < header.nnz; k++) {
        if (t.row[k] == t.column[k])
            continue;
        t.row[next] = t.column[k];
        t.column[next] = t.row[k];
        t.value[next++] = factor * t.value[k];
    }
    return next;
}

bool read(const Input &input, struct spg_csr *m, struct spg_reading *reading, struct spg_error *error) {
    fmm::matrix_market_header header;
    fmm::read_options options;
    options.generalize_symmetry = false;
    Text text(input.text, input.size);
    std::istream stream(&text);
    /* The parser finds ends of lines with string functions, which stop at a zero byte. */
    if (const void *zero = std::memchr(input.text, 0, input.size)) {
        int64_t line = 1 + std::count(input.text, static_cast<const char *>(zero), '\n');
        throw Trouble{line, "a zero byte: this is no text file"};
    }
    try {
        fmm::read_header(stream, header);
    } catch (const fmm::fmm_error &wrong) {
        throw from_parser(wrong.what(), line_of_sizes(input));
    }
    check_header(input, header);
    Triplets t(header.symmetry == fmm::general ? header.nnz : 2 * header.nnz);
    fmm::triplet_parse_handler<int64_t *, double *> handler(t.row.get(), t.column.get(), t.value.get());
    if (header.field == fmm::pattern)
        std::fill_n(t.value.get(), header.nnz, 1.0);
    fmm::read_matrix_market_body<decltype(handler), fmm::compile_coordinate_only>(stream, header, handler, 1.0,
                                                                                  options);
    check_values(input, header, t);
    int64_t count = header.symmetry == fmm::general ? header.nnz : mirror(header, t);
    reading->mirrored = count - header.nnz;
    if (!spg_csr_from_triplets(m, int32_t(header.nrows), int32_t(header.ncols), count, t.row.get(), t.column.get(),
                               t.value.get(), &reading->merged, error))
        return spg_fail_in(error, input.name);
    for (int64_t k = 0; k < spg_csr_stored(m); k++)
        if (!std::isfinite(input.precision == SPG_FLOAT ? float(m->values[k]) : m->values[k]))
            throw Trouble{0, "duplicate entries of column " + number(m->indices[k] + 1) + " add up to no finite value"};
    return true;
}

} // namespace

bool spg_reader_there(void) { return true; }

bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          enum spg_precision precision, struct spg_reading *reading, struct spg_error *error) {
    Input input{name, text, size, precision};
    bool done = false;
    *m = {};
    *reading = {};
    try {
        done = read(input, m, reading, error);
    } catch (const Trouble &trouble) {
        fail(input, trouble.line, trouble.what, error);
    } catch (const fmm::fmm_error &wrong) {
        Trouble trouble = from_parser(wrong.what(), 0);
        fail(input, trouble.line, trouble.what, error);
    } catch (const std::bad_alloc &) {
        fail(input, 0, "out of memory", error);
    } catch (const std::exception &wrong) {
        fail(input, 0, wrong.what(), error);
    }
    if (!done)
        spg_csr_free(m);
    return done;
}

bool spg_read_matrix(struct spg_csr *m, const char *path, enum spg_precision precision, struct spg_reading *reading,
                     struct spg_error *error) {
    struct stat status;
    *m = {};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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
    bool done = spg_read_matrix_text(m, path, size ? static_cast<char *>(text) : "", size, precision, reading, error);
    if (size)
        munmap(text, size);
    return done;
}
