/* The rows of the options, their parser, and the values of this process (options.h). Everything lies in static
 * storage. Before gm_options_load() the getters return the defaults, so the order of constructors does not matter. */
#include "shim/base/options.h"
#include "policy/digits.h"
#include "shim/base/base.h"
#include "shim/base/config.h"
#include "shim/base/once.h"

#include <string.h>
#include <sys/auxv.h>

enum { TEXT_SIZE = 4096, NAME_SIZE = 64, SHOWN = 80 };

const struct gm_option gm_option_rows[GM_OPTION_COUNT_] = {
#define X(id, type, ...) {GM_OPT_##id, GM_OPTION_##type, "GPUMEM_" #id, __VA_ARGS__},
    GM_OPTIONS(X)
#undef X
};

static struct {
    uint64_t number;
    bool set;
    unsigned line; /* of the file of options; 0: the environment, or the default */
    char text[TEXT_SIZE];
} values[GM_OPTION_COUNT_];
static struct gm_once loading;

/* ---- parsing */

static bool parse_bool(const char *text, uint64_t *number) {
    static const char *const words[] = {"0", "1", "off", "on", "no", "yes", "false", "true"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strcmp(text, words[i])) {
            *number = i & 1;
            return true;
        }
    }
    return false;
}

/* "4096", "512M" and "1.5GiB" with powers of 1024, "1GB" with powers of 1000. A part of a byte is left out. */
static bool parse_bytes(const char *text, uint64_t *number) {
    static const char prefixes[] = "KMGT";
    uint64_t part = 0, scale = 1, unit = 1, rest;
    const char *p = text, *found;
    if (!gm_read_digits(&p, NULL, number))
        return false;
    bool point = *p == '.';
    for (p += point; point && *p >= '0' && *p <= '9'; p++, scale *= 10) {
        if (scale == 1000000000)
            return false;
        part = part * 10 + (uint64_t)(*p - '0');
    }
    if (!*p)
        return !point;
    found = strchr(prefixes, *p >= 'a' ? *p - 'a' + 'A' : *p);
    if (!found || (point && scale == 1) || (p[1] && strcmp(p + 1, "iB") && strcmp(p + 1, "B")))
        return false;
    for (const char *prefix = prefixes; prefix <= found; prefix++)
        unit *= p[1] == 'B' ? 1000 : 1024;
    rest = unit / scale * part + unit % scale * part / scale;
    return !__builtin_mul_overflow(*number, unit, number) && !__builtin_add_overflow(*number, rest, number);
}

/* "50%" and "12.5%": above 0, at most 100, with at most two places. */
static bool parse_part(const char *text, uint64_t *number) {
    uint64_t whole, part = 0;
    unsigned places = 0;
    const char *p = text;
    if (!gm_read_digits(&p, NULL, &whole) || whole > 100)
        return false;
    for (bool point = *p == '.'; point && p[1] >= '0' && p[1] <= '9' && places < 2; places++)
        part = part * 10 + (uint64_t)(*++p - '0');
    p += places != 0;
    part = whole * 100 + (places == 1 ? part * 10 : part);
    *number = GM_MEMORY_PART | part;
    return !strcmp(p, "%") && part && part <= GM_MEMORY_WHOLE;
}

static bool parse_memory(const char *text, uint64_t *number) {
    return parse_part(text, number) || (parse_bytes(text, number) && !(*number & GM_MEMORY_PART));
}

static bool parse_time(const char *text, uint64_t *number) {
    static const struct {
        const char *suffix;
        uint64_t ns;
    } units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"min", 60000000000}};
    const char *p = text;
    if (!gm_read_digits(&p, NULL, number))
        return false;
    for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
        if (!strcmp(p, units[i].suffix))
            return !__builtin_mul_overflow(*number, units[i].ns, number);
    }
    return !*p && *number == 0;
}

/* The next word of a space-separated list, with its length in *length; NULL at the end. */
static const char *next_word(const char *list, size_t *length) {
    list += strspn(list, " ");
    *length = strcspn(list, " ");
    return *length ? list : NULL;
}

static bool parse_choice(const char *choices, const char *text, uint64_t *number) {
    size_t length, index = 0;
    for (const char *word = choices; (word = next_word(word, &length)); word += length, index++) {
        if (strlen(text) == length && !memcmp(word, text, length)) {
            *number = index;
            return true;
        }
    }
    return false;
}

static bool parse(const struct gm_option *row, const char *text, uint64_t *number) {
    const char *end = text;
    switch (row->type) {
    case GM_OPTION_BOOL: return parse_bool(text, number);
    case GM_OPTION_COUNT:
        return gm_read_digits(&end, NULL, number) && !*end && *number >= row->low && *number <= row->high;
    case GM_OPTION_BYTES: return parse_bytes(text, number);
    case GM_OPTION_MEMORY: return parse_memory(text, number);
    case GM_OPTION_TIME: return parse_time(text, number);
    case GM_OPTION_CHOICE: return parse_choice(row->choices, text, number);
    case GM_OPTION_TEXT: *number = 0; return strlen(text) < TEXT_SIZE;
    }
    return false;
}

bool gm_option_ring(const char *text, uint64_t *bytes, uint64_t *ns) {
    bool is_bytes = parse_bytes(text, bytes) && *bytes >= GM_TRACE_LEAST;
    bool is_time = !is_bytes && parse_time(text, ns) && *ns;
    if (!is_bytes)
        *bytes = 0;
    if (!is_time)
        *ns = 0;
    return is_bytes || is_time;
}

/* "off, zero or poison" */
static void list_choices(const char *choices, char *out, size_t size) {
    size_t length, used = 0;
    out[0] = '\0';
    for (const char *word = next_word(choices, &length); word && used < size;) {
        size_t next_length;
        const char *next = next_word(word + length, &next_length);
        const char *joint = !used ? "" : next ? ", " : " or ";
        used += (size_t)gm_format(out + used, size - used, "%s%.*s", joint, (int)length, word);
        word = next;
        length = next_length;
    }
}

static void explain(const struct gm_option *row, const char *text, char *error, size_t size) {
    char choices[128];
    const char *cut = strlen(text) > SHOWN ? "..." : "";
    int used = gm_format(error, size, "%s=%.*s%s is not ", row->name, SHOWN, text, cut);
    if ((size_t)used >= size)
        return;
    error += used;
    size -= (size_t)used;
    switch (row->type) {
    case GM_OPTION_BOOL: gm_format(error, size, "one of 0, 1, off, on, no, yes, false or true"); break;
    case GM_OPTION_COUNT:
        if (row->high == UINT64_MAX)
            gm_format(error, size, "a count of %llu or more", (unsigned long long)row->low);
        else
            gm_format(error, size, "a count between %llu and %llu", (unsigned long long)row->low,
                      (unsigned long long)row->high);
        break;
    case GM_OPTION_BYTES: gm_format(error, size, "a number of bytes such as 0, 4096, 512M or 2GiB"); break;
    case GM_OPTION_MEMORY:
        gm_format(error, size, "a number of bytes such as 0, 4096, 512M or 2GiB, or a part of the device such as 50%%");
        break;
    case GM_OPTION_TIME: gm_format(error, size, "a time such as 500us, 100ms, 2s, 1min or 0"); break;
    case GM_OPTION_CHOICE:
        list_choices(row->choices, choices, sizeof choices);
        gm_format(error, size, "one of %s", choices);
        break;
    case GM_OPTION_TEXT: gm_format(error, size, "a text shorter than %d bytes", TEXT_SIZE); break;
    }
}

int gm_option_parse(const struct gm_option *row, const char *text, uint64_t *number, char *error, size_t size) {
    uint64_t parsed;
    if (parse(row, text, &parsed)) {
        *number = parsed;
        return 0;
    }
    explain(row, text, error, size);
    return -1;
}

/* ---- loading */

static size_t smallest(size_t a, size_t b, size_t c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

size_t gm_name_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[NAME_SIZE + 1];
    if (a_length > NAME_SIZE || b_length > NAME_SIZE)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_length];
}

static const struct gm_option *nearest(const char *name, size_t length) {
    const struct gm_option *best = NULL;
    size_t own = length - strlen("GPUMEM_"), least = own < 4 ? own : 4; /* a larger distance is no typing error */
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        size_t apart = gm_name_distance(name, length, row->name, strlen(row->name));
        if (apart < least) {
            least = apart;
            best = row;
        }
    }
    return best;
}

static void report_unknown(const char *name, size_t length) {
    const struct gm_option *row = nearest(name, length);
    int shown = length > NAME_SIZE ? NAME_SIZE : (int)length;
    if (row)
        gm_log(GM_LOG_WARN, "%.*s is not an option of gpumem; did you mean %s? (\"gpumem run --help\" lists them)",
               shown, name, row->name);
    else
        gm_log(GM_LOG_WARN, "%.*s is not an option of gpumem (\"gpumem run --help\" lists them)", shown, name);
}

static const struct gm_option *find_option(const char *name, size_t length) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        if (strlen(gm_option_rows[i].name) == length && !memcmp(gm_option_rows[i].name, name, length))
            return &gm_option_rows[i];
    }
    return NULL;
}

/* Sets the value of a row, and its default where the text is "" or wrong. False: it is wrong, and `error` says why. */
static bool set_value(const struct gm_option *row, const char *text, unsigned line, char *error, size_t size) {
    bool right = !*text || !gm_option_parse(row, text, &values[row->id].number, error, size), is_set = *text && right;
    if (!is_set)
        parse(row, row->initial, &values[row->id].number);
    values[row->id].set = is_set;
    values[row->id].line = is_set ? line : 0;
    gm_format(values[row->id].text, TEXT_SIZE, "%s", is_set ? text : row->initial);
    return right;
}

/* `entry` is NAME=value, and the name begins with GPUMEM_. An empty value counts as not set, also where the file of
 * options sets the row. */
static void take_entry(const char *entry, uint64_t *seen, bool report) {
    size_t length = strcspn(entry, "=");
    const struct gm_option *row = find_option(entry, length);
    if (!entry[length])
        return;
    if (!row) {
        if (report)
            report_unknown(entry, length);
        return;
    }
    const char *text = entry + length + 1;
    if (*seen & UINT64_C(1) << row->id)
        return;
    if (*text)
        *seen |= UINT64_C(1) << row->id; /* when a name has several entries the first counts, as for getenv */
    char error[256];
    if (!set_value(row, text, 0, error, sizeof error) && report)
        gm_log(GM_LOG_WARN, "%s; using %s", error, *row->initial ? row->initial : "none");
}

static void scan(char *const *environment, bool report) {
    uint64_t seen = 0;
    for (; *environment; environment++) {
        if (!strncmp(*environment, "GPUMEM_", 7))
            take_entry(*environment, &seen, report);
    }
}

_Static_assert(GM_OPTION_COUNT_ <= 64, "take_entry keeps a bit for each option");

bool gm_options_are_ignored(void) { return getauxval(AT_SECURE) != 0; }

/* The first entry with a value counts, as in take_entry. */
const char *gm_environment_value(char *const *environment, const char *name) {
    size_t length = strlen(name);
    if (gm_options_are_ignored())
        return "";
    for (; environment && *environment; environment++)
        if (!strncmp(*environment, name, length) && (*environment)[length] == '=' && (*environment)[length + 1])
            return *environment + length + 1;
    return "";
}

struct config {
    const char *path;
    bool report;
};

/* Writes a name of the file, such as trace_format, as that of its variable. False: it is too long for any. */
static bool variable_name(char *out, size_t size, const char *name) {
    size_t length = (size_t)gm_format(out, size, "GPUMEM_%s", name);
    for (char *p = out + strlen("GPUMEM_"); length < size && *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            return false; /* upper case is no name of the file */
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    }
    return length < size;
}

/* Writes the name of the row's lines: that of its variable in lower case. */
static const char *file_name(char *out, size_t size, const struct gm_option *row) {
    gm_format(out, size, "%s", row->name + strlen("GPUMEM_"));
    for (char *p = out; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    return out;
}

/* Returns the row of the line, or writes why there is none. */
static const struct gm_option *row_of_line(const struct gm_config_line *line, char *error, size_t size) {
    char name[NAME_SIZE], known[NAME_SIZE];
    if (line->error) {
        gm_format(error, size, "%s", line->error);
        return NULL;
    }
    bool fits = variable_name(name, sizeof name, line->name);
    const struct gm_option *row = fits ? find_option(name, strlen(name)) : NULL;
    if (row && row->id != GM_OPT_CONFIG && row->id != GM_OPT_STATS)
        return row;
    const struct gm_option *similar = fits && !row ? nearest(name, strlen(name)) : NULL;
    if (row)
        gm_format(error, size, "only the environment sets %s", line->name);
    else if (similar)
        gm_format(error, size, "'%.*s' is not an option; did you mean %s?", SHOWN, line->name,
                  file_name(known, sizeof known, similar));
    else
        gm_format(error, size,
                  "'%.*s' is not an option; names are those of libgpumem(7) without GPUMEM_, in lower case", SHOWN,
                  line->name);
    return NULL;
}

static void take_line(void *arg, const struct gm_config_line *line) {
    const struct config *config = arg;
    char error[256];
    const struct gm_option *row = row_of_line(line, error, sizeof error);
    if ((!row || !set_value(row, line->value, line->number, error, sizeof error)) && config->report)
        gm_log(GM_LOG_WARN, "%s:%u: %s; the line is ignored", config->path, line->number, error);
}

static void read_config(const char *path, bool report) {
    struct config config = {path, report};
    int error = *path ? gm_config_read(path, take_line, &config) : 0;
    if (error && report)
        gm_log(GM_LOG_WARN, "GPUMEM_CONFIG=%s: %s; no option is read from it", path, gm_config_reason(error));
}

/* Reads everything twice: the first time to find the log level, the second time to report errors at that level. */
void gm_options_load(char *const *environment) {
    if (!environment || gm_options_are_ignored() || !gm_once_begin(&loading))
        return;
    const char *path = gm_environment_value(environment, "GPUMEM_CONFIG");
    for (int i = 0; i < GM_OPTION_COUNT_; i++)
        set_value(&gm_option_rows[i], "", 0, NULL, 0);
    for (int report = 0; report < 2; report++) {
        read_config(path, report);
        scan(environment, report);
        gm_log_set((enum gm_log_level)values[GM_OPT_LOG].number);
    }
    gm_once_end(&loading);
}

/* ---- values */

static bool loaded(void) { return GM_LIKELY(gm_once_is_done(&loading)); }

uint64_t gm_option_number(enum gm_option_id id) {
    if (loaded())
        return values[id].number;
    uint64_t number = 0;
    parse(&gm_option_rows[id], gm_option_rows[id].initial, &number);
    return number;
}

bool gm_option_bool(enum gm_option_id id) { return gm_option_number(id) != 0; }

const char *gm_option_text(enum gm_option_id id) { return loaded() ? values[id].text : gm_option_rows[id].initial; }

bool gm_option_is_set(enum gm_option_id id) { return loaded() && values[id].set; }

struct gm_option_label gm_option_label(enum gm_option_id id) {
    struct gm_option_label label;
    if (loaded() && values[id].line)
        gm_format(label.text, sizeof label.text, "%.100s:%u: %s", values[GM_OPT_CONFIG].text, values[id].line,
                  gm_option_rows[id].name);
    else
        gm_format(label.text, sizeof label.text, "%s", gm_option_rows[id].name);
    return label;
}
