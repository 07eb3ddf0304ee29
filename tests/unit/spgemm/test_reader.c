/* Valid and invalid Matrix Market texts. */
#include "spgemm_test.h"

#include "spgemm/reader.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef GM_HAVE_ZLIB
#include <zlib.h>
#endif

#define REAL      "%%MatrixMarket matrix coordinate real general\n"
#define SYMMETRIC "%%MatrixMarket matrix coordinate real symmetric\n"
#define SKEW      "%%MatrixMarket matrix coordinate real skew-symmetric\n"
#define INTEGER   "%%MatrixMarket matrix coordinate integer general\n"
#define PATTERN   "%%MatrixMarket matrix coordinate pattern general\n"

static const struct spg_read_options plain = {.precision = SPG_DOUBLE};

static bool read_text(const char *text, enum spg_precision precision, struct spg_csr *m, struct spg_reading *reading,
                      struct spg_error *error) {
    error->text[0] = 0;
    struct spg_read_options options = {.precision = precision};
    return spg_read_matrix_text(m, "a.mtx", text, strlen(text), &options, reading, error);
}

struct good {
    const char *text;
    int rows, columns;
    double dense[9];
    int64_t merged, mirrored;
};

TEST(good_texts) {
    static const struct good rows[] = {
        {REAL "% comment\n\n2 3 3\n2 3 -1.5e1\n1 1 2\n1 2 .5\n", 2, 3, {2, .5, 0, 0, 0, -15}, 0, 0},
        /* without a newline at the end, with blanks, with the line ends of other systems */
        {REAL "1 1 1\n  1\t1   4  ", 1, 1, {4}, 0, 0},
        {"%%MatrixMarket MATRIX Coordinate REAL general\r\n2 2 1\r\n\r\n2 1 3\r\n", 2, 2, {0, 0, 3, 0}, 0, 0},
        {SYMMETRIC "3 3 3\n1 1 1\n3 1 5\n3 2 7\n", 3, 3, {1, 0, 5, 0, 0, 7, 5, 7, 0}, 0, 2},
        {SKEW "2 2 1\n2 1 5\n", 2, 2, {0, -5, 5, 0}, 0, 1},
        {"%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n2 1\n", 2, 2, {0, 1, 1, 0}, 0, 0},
        {"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 2\n2 1\n", 2, 2, {0, 1, 1, 1}, 0, 1},
        {"%%MatrixMarket matrix coordinate integer general\n1 2 2\n1 1 -3\n1 2 4\n", 1, 2, {-3, 4}, 0, 0},
        {REAL "2 2 3\n1 1 1\n2 2 4\n1 1 2\n", 2, 2, {3, 0, 0, 4}, 1, 0},
        {REAL "2 2 0\n", 2, 2, {0}, 0, 0},
        /* exponents as Fortran writes them, and signs */
        {REAL "1 6 6\n1 1 1.5D+10\n1 2 -2.5d-2\n1 3 1Q2\n1 4 .5+300\n1 5 +7.25E1\n+1 +6 1.-3\n",
         1,
         6,
         {1.5e10, -2.5e-2, 100, .5e300, 72.5, 1e-3},
         0,
         0},
        /* too small for a double: a stored 0, or the nearest number */
        {REAL "1 3 3\n1 1 4.9e-324\n1 2 1\n1 3 2.5D-310\n", 1, 3, {4.9e-324, 1, 2.5e-310}, 0, 0},
        {INTEGER "1 2 2\n1 1 +5\n1 2 -7\n", 1, 2, {5, -7}, 0, 0},
        {REAL "0 0 0\n", 0, 0, {0}, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spg_csr m, expected = from_dense(rows[i].rows, rows[i].columns, rows[i].dense);
        struct spg_reading reading;
        struct spg_error error;
        if (!read_text(rows[i].text, SPG_DOUBLE, &m, &reading, &error) || !spg_csr_valid(&m, &error))
            fail_msg("text %zu: %s", i, error.text);
        if (!same_structure(&m, &expected) || !same_values(&m, &expected))
            fail_msg("text %zu: another matrix", i);
        assert_int_equal(reading.merged, rows[i].merged);
        assert_int_equal(reading.mirrored, rows[i].mirrored);
        spg_csr_free(&m);
        spg_csr_free(&expected);
    }
}

TEST(stored_zeros_stay) {
    struct spg_error error;
    struct spg_reading reading;
    struct spg_csr m;
    assert_true(read_text(REAL "2 2 2\n1 1 0\n2 1 1\n", SPG_DOUBLE, &m, &reading, &error));
    assert_int_equal(spg_csr_stored(&m), 2);
    assert_int_equal(spg_csr_nonzeros(&m), 1);
    spg_csr_free(&m);
}

TEST(bad_texts) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "a.mtx:1: "},
        {"1 1 1\n1 1 1\n", "a.mtx:1: Not a Matrix Market file"},
        {"%%MatrixMarket matrix coordinate real\n1 1 1\n1 1 1\n",
         "a.mtx:1: Invalid Matrix Market header element: none"},
        {"%%MatrixMarket matrix coordinate quaternion general\n1 1 0\n", "element: quaternion"},
        {"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n", "a.mtx:1: complex values"},
        {"%%MatrixMarket matrix coordinate real hermitian\n1 1 1\n1 1 1\n", "a.mtx:1: hermitian"},
        {"%%MatrixMarket matrix array real general\n1 1\n1\n", "a.mtx:1: only sparse matrices"},
        {"%%MatrixMarket vector coordinate real general\n1 1\n1 1\n", "a.mtx:1: only sparse matrices"},
        {"%%MatrixMarket matrix coordinate pattern skew-symmetric\n1 1 0\n", "a.mtx:1: a skew-symmetric"},
        {REAL, "Invalid Matrix Market header: Premature EOF"},
        {REAL "2 2\n", "a.mtx:2: Invalid integer value: '2 2'"},
        {REAL "2 2 1 1\n1 1 1\n", "a.mtx:2: more than rows, columns and entries: '2 2 1 1'"},
        {REAL "-2 2 1\n", "a.mtx:2: Matrix dimensions can't be negative: '-2 2 1'"},
        {REAL "2147483648 1 1\n1 1 1\n", "a.mtx:2: 2147483648 x 1 does not fit 32-bit indices"},
        {REAL "1 2147483647 1\n1 1 1\n", "a.mtx:2: 1 x 2147483647 does not fit 32-bit indices"},
        {REAL "1 99999999999999999999 1\n1 1 1\n", "Integer out of range"},
        {REAL "2 2 2147483648\n1 1 1\n", "a.mtx:2: truncated file: it cannot hold 2147483648 entries"},
        {SYMMETRIC "2 3 1\n1 1 1\n", "a.mtx:2: a symmetric matrix is not square: '2 3 1'"},
        {REAL "2 2 1\n% more\n3 1 1\n", "a.mtx:3: Invalid integer value: '% more'"},
        {REAL "2 2 1\n3 1 1\n", "a.mtx:3: Row index out of bounds: '3 1 1'"},
        {REAL "2 2 1\n1 0 1\n", "a.mtx:3: Column index out of bounds: '1 0 1'"},
        {REAL "2 2 1\n1 -7 1\n", "a.mtx:3: Column index out of bounds"},
        {REAL "2 2 1\n\n1 99999999999999999999 1\n", "a.mtx:4: Integer out of range"},
        {REAL "2 2 1\n1 1 nan\n", "a.mtx:3: the value is not finite: '1 1 nan'"},
        {REAL "2 2 2\n1 1 1\n\n2 2 -inf\n", "a.mtx:5: the value is not finite: '2 2 -inf'"},
        {REAL "2 2 1\n1 1 1e999\n", "a.mtx:3: the value is not finite: '1 1 1e999'"},
        {REAL "2 2 1\n1 1 x\n", "a.mtx:3: Invalid floating-point value: '1 1 x'"},
        {REAL "2 2 1\n1 1\n", "a.mtx:3: Invalid floating-point value: '1 1'"},
        /* a value or column that would be found on the next line */
        {REAL "2 2 2\n1 1 \n2 2 5\n", "a.mtx:3: Invalid floating-point value: '1 1'"},
        {REAL "2 2 2\n1\n2 2 5\n", "a.mtx:3: Invalid integer value: '1'"},
        {REAL "2 2 2\n1 1 1\n", "a.mtx: Truncated file: 1 of 2 entries"},
        /* anything behind a number */
        {REAL "2 2 1\n1 1 0x10\n", "a.mtx:3: Invalid floating-point value: '1 1 0x10'"},
        {REAL "2 2 1\n1 1 3,5\n", "a.mtx:3: Invalid floating-point value: '1 1 3,5'"},
        {REAL "2 2 1\n1 1 1.5Z+10\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 1.5D+\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 1.5D+1D+1\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 1-5\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 1.5e3+4\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 +-5\n", "a.mtx:3: Invalid floating-point value"},
        {REAL "2 2 1\n1 1 1.5D+999\n", "a.mtx:3: the value is not finite: '1 1 1.5D+999'"},
        {REAL "2 2 1\n1 1 5 7\n", "a.mtx:3: more than a row, a column and a value: '1 1 5 7'"},
        {REAL "2 2 1\n1 1 5 % comment\n", "a.mtx:3: more than a row, a column and a value"},
        {REAL "2 2 1\n1.0 1 5\n", "a.mtx:3: Invalid integer value: '1.0 1 5'"},
        {REAL "2 2 1\n1, 1, 5\n", "a.mtx:3: Invalid integer value"},
        {REAL "2 2x 1\n1 1 5\n", "a.mtx:2: Invalid integer value: '2 2x 1'"},
        {PATTERN "2 2 1\n1 1 5\n", "a.mtx:3: more than a row and a column: '1 1 5'"},
        {INTEGER "2 2 1\n1 1 5.5\n", "a.mtx:3: Invalid integer value: '1 1 5.5'"},
        {INTEGER "2 2 1\n1 1 5.0\n", "a.mtx:3: Invalid integer value: '1 1 5.0'"},
        {INTEGER "2 2 1\n1 1 99999999999999999999\n", "a.mtx:3: Integer out of range"},
        {"%%MatrixMarket matrix coordinate real general 5\n1 1 1\n1 1 1\n", "a.mtx:1: more words"},
        /* far more rows than the file has entries */
        {REAL "400000000 400000000 1\n1 1 1\n", "a.mtx:2: 400000000 rows for 1 entries: more than 1048640 are read "
                                                "with --any-size only: '400000000 400000000 1'"},
        {REAL "2 1048769 3\n1 1 1\n", "a.mtx:2: 1048769 columns for 3 entries"},
        {REAL "2 2 1\n1 1 1\n2 2 2\n", "Too many lines in file"},
        {REAL "1 1 2\n1 1 1e308\n1 1 1e308\n", "a.mtx: duplicate entries of column 1 add up to no finite value"},
        {SKEW "2 2 1\n1 1 5\n", "a.mtx:3: a skew-symmetric matrix has no diagonal: '1 1 5'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spg_error error;
        struct spg_reading reading;
        struct spg_csr m;
        if (read_text(rows[i].text, SPG_DOUBLE, &m, &reading, &error) || !strstr(error.text, rows[i].says))
            fail_msg("text %zu says '%s', not '%s'", i, error.text, rows[i].says);
        assert_null(strchr(error.text, '\n'));
        assert_null(m.offsets);
    }
}

TEST(zero_bytes_are_refused) {
    static const char text[] = REAL "1 1 1\n1 1 \0 1\n";
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    assert_false(spg_read_matrix_text(&m, "a.mtx", text, sizeof text - 1, &plain, &reading, &error));
    assert_non_null(strstr(error.text, "a.mtx:3: a zero byte"));
}

TEST(float_has_its_own_range) {
    struct spg_error error;
    struct spg_reading reading;
    struct spg_csr m;
    assert_true(read_text(REAL "1 1 1\n1 1 1e300\n", SPG_DOUBLE, &m, &reading, &error));
    spg_csr_free(&m);
    assert_false(read_text(REAL "1 1 1\n1 1 1e300\n", SPG_FLOAT, &m, &reading, &error));
    assert_non_null(strstr(error.text, "a.mtx:3: the value is not finite in single precision"));
}

/* Larger than one chunk of the parser, so that several threads read it and lines are counted across chunks.
 */
TEST(long_files) {
    enum { COUNT = 300000 };
    size_t size = 0;
    char *text;
    FILE *file = open_memstream(&text, &size);
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    fprintf(file, REAL "%d %d %d\n", COUNT, COUNT, COUNT);
    for (int i = COUNT; i > 0; i--)
        fprintf(file, "%d %d %d.25\n", i, COUNT - i + 1, i);
    fclose(file);
    assert_true(spg_read_matrix_text(&m, "a.mtx", text, size, &plain, &reading, &error));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(m.indices[i], COUNT - 1 - i);
        assert_true(m.values[i] == i + 1.25);
    }
    spg_csr_free(&m);
    char *late = strstr(text, "\n7 ");
    assert_true(size > 4 << 20 && late > text + (4 << 20));
    memcpy(late + 1, "0", 1);
    assert_false(spg_read_matrix_text(&m, "a.mtx", text, size, &plain, &reading, &error));
    assert_non_null(strstr(error.text, "a.mtx:299996: Row index out of bounds: '0 299994 7.25'"));
    free(text);
}

TEST(files) {
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    char path[] = "/tmp/gpumem-reader-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fputs(REAL "2 2 1\n2 1 3", file);
    fclose(file);
    assert_true(spg_read_matrix(&m, path, &plain, &reading, &error));
    assert_int_equal(spg_csr_stored(&m), 1);
    spg_csr_free(&m);
    fclose(fopen(path, "w"));
    assert_false(spg_read_matrix(&m, path, &plain, &reading, &error));
    remove(path);
    assert_false(spg_read_matrix(&m, path, &plain, &reading, &error));
    assert_non_null(strstr(error.text, "No such file"));
    assert_false(spg_read_matrix(&m, "/tmp", &plain, &reading, &error));
    assert_string_equal(error.text, "/tmp: not a regular file");
}

TEST(many_rows_when_wanted) {
    struct spg_read_options options = {.any_size = true};
    static const char text[] = REAL "3000000 2 1\n2999999 2 4\n";
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    assert_false(spg_read_matrix_text(&m, "a.mtx", text, sizeof text - 1, &plain, &reading, &error));
    assert_true(spg_read_matrix_text(&m, "a.mtx", text, sizeof text - 1, &options, &reading, &error));
    assert_int_equal(m.rows, 3000000);
    assert_int_equal(m.indices[m.offsets[2999998]], 1);
    spg_csr_free(&m);
}

TEST(fifos_do_not_wait) {
    char path[] = "/tmp/gpumem-fifo-XXXXXX";
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    assert_non_null(mkdtemp(path));
    char name[64];
    snprintf(name, sizeof name, "%s/a.mtx", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    alarm(20);
    assert_false(spg_read_matrix(&m, name, &plain, &reading, &error));
    alarm(0);
    assert_non_null(strstr(error.text, "a.mtx: not a regular file"));
    remove(name);
    rmdir(path);
}

#ifdef GM_HAVE_ZLIB
static size_t compressed(const char *text, size_t size, unsigned char *to, size_t room) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (unsigned char *)text;
    stream.avail_in = (unsigned)size;
    stream.next_out = to;
    stream.avail_out = (unsigned)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

static void compressed_is_refused(const unsigned char *text, size_t size, const char *says) {
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    if (spg_read_matrix_text(&m, "a.mtx.gz", (const char *)text, size, &plain, &reading, &error) ||
        !strstr(error.text, says))
        fail_msg("says '%s', not '%s'", error.text, says);
}

/* More text than one block, so that lines and entries are counted across blocks; two members in one file. */
TEST(compressed_files) {
    enum { COUNT = 1500000 };
    size_t size = 0, room;
    char *text;
    FILE *file = open_memstream(&text, &size);
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_csr m;
    fprintf(file, REAL "%d %d %d\n", COUNT, COUNT, COUNT);
    for (int i = 1; i <= COUNT; i++)
        fprintf(file, "%d %d %d.5\n", i, COUNT - i + 1, i);
    fclose(file);
    assert_true(size > 20 << 20);
    unsigned char *packed = malloc(room = size + 4096);
    size_t half = (size_t)(strchr(text + size / 2, '\n') + 1 - text), first = compressed(text, half, packed, room),
           used = first + compressed(text + half, size - half, packed + first, room - first);
    if (!spg_read_matrix_text(&m, "a.mtx.gz", (const char *)packed, used, &plain, &reading, &error))
        fail_msg("%s", error.text);
    assert_int_equal(spg_csr_stored(&m), COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(m.indices[i] == COUNT - 1 - i && m.values[i] == i + 1.5);
    spg_csr_free(&m);
    compressed_is_refused(packed, used - 5, "a.mtx.gz: the compressed file is truncated");
    compressed_is_refused(packed, first, "a.mtx.gz: Truncated file: ");
    packed[first - 8] ^= 1; /* the checksum of the first member */
    compressed_is_refused(packed, used, "a.mtx.gz: the compressed file is damaged");
    char *late = strstr(text, "\n1400000 ");
    late[1] = 'x';
    used = compressed(text, size, packed, room);
    compressed_is_refused(packed, used, "a.mtx.gz:1400002: Invalid integer value: 'x400000 100001 1400000.5'");
    /* A small file cannot hold so many entries, however well it was compressed. */
    static const char promise[] = REAL "1000000 1000000 1000000\n1 1 1\n";
    used = compressed(promise, sizeof promise - 1, packed, room);
    compressed_is_refused(packed, used, "truncated file: it cannot hold 1000000 entries");
    free(packed);
    free(text);
}
#endif

int main(void) { return run_all(NULL, NULL); }
