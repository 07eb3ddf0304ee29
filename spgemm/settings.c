#include "spgemm/settings.h"
#include "shim/base/options.h"
#include "spgemm/generators.h"

#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum row {
    MATRIX,
    B,
    MODE,
    SIZE_PER_ROW,
    VECTOR,
    RUNS,
    WARMUP,
    CHECK,
    MODEL,
    KERNEL,
    PERSISTENT,
    LAYOUT,
    PRECISION,
    LIMIT,
    DEVICES,
    MPI,
    ANY_SIZE,
    JSON,
    HELP,
    ROWS,
};

/* An option with a unit takes a value; one of type BOOL is a flag. */
static const struct gm_option rows[ROWS] = {
    [MATRIX] = {0, GM_OPTION_TEXT, "--matrix", "matrix", NULL, "FILE|gen:NAME", NULL, 0, 0,
                "A: a Matrix Market file, or one made on the spot; gen:list lists those"},
    [B] = {0, GM_OPTION_TEXT, "--b", "b", NULL, "FILE|gen:NAME", NULL, 0, 0, "B of C = A B; without it C = A A"},
    [MODE] = {0, GM_OPTION_TEXT, "--mode", "mode", NULL, "MODE", NULL, 0, 0, "how C is computed; see below"},
    [SIZE_PER_ROW] = {0, GM_OPTION_COUNT, "--size-per-row", "size-per-row", NULL, "N|auto", NULL, 1, INT32_MAX,
                      "slots that mode rounds adds for each unfinished row; auto (default): chosen from sampled rows"},
    [VECTOR] = {0, GM_OPTION_CHOICE, "--vector", "vector", NULL, "vmm|copy", "vmm copy", 0, 0,
                "how the output grows: in place (default), or by a larger allocation and a copy"},
    [RUNS] = {0, GM_OPTION_COUNT, "--runs", "runs", NULL, "N", NULL, 1, 1000000,
              "timed products (default: 25 after a warm-up of 25; 3 after 2 if one takes 100 ms or more)"},
    [WARMUP] = {0, GM_OPTION_COUNT, "--warmup", "warmup", NULL, "N", NULL, 0, 1000000,
                "with --runs: products before them that are not timed (default 1)"},
    [CHECK] = {0, GM_OPTION_BOOL, "--check", "check", NULL, NULL, NULL, 0, 0,
               "compare C with the product computed on the host: positions exactly, values to rounding"},
    [MODEL] = {0, GM_OPTION_BOOL, "--model", "model", NULL, NULL, NULL, 0, 0,
               "sizes of the product, and memory efficiency and rounds for each size_per_row, without forming it"},
    [KERNEL] = {0, GM_OPTION_CHOICE, "--kernel", "kernel", NULL, "hash|thesis", "hash thesis", 0, 0,
                "hash tables in shared memory (default), or one thread for each row by dot products, which is slow"},
    [PERSISTENT] = {0, GM_OPTION_BOOL, "--persistent", "persistent", NULL, NULL, NULL, 0, 0,
                    "mode rounds, kernel thesis: one launch runs as many rounds as the memory allows"},
    [LAYOUT] = {0, GM_OPTION_CHOICE, "--layout", "layout", NULL, "csr|csc", "csr csc", 0, 0,
                "compressed rows (default) or columns; with csc, everything reported for rows is for columns"},
    [PRECISION] = {0, GM_OPTION_CHOICE, "--precision", "precision", NULL, "double|float", "double float", 0, 0,
                   "of values (default double)"},
    [LIMIT] = {0, GM_OPTION_BYTES, "--limit", "limit", NULL, "BYTES", NULL, 0, 0,
               "device memory for the product, without A and B; 0 (default): no limit"},
    [DEVICES] = {0, GM_OPTION_TEXT, "--devices", "devices", NULL, "N,N...|all", NULL, 0, 0,
                 "mode auto: multiply on these devices, each a range of rows; A and B are on the first one before"},
    [MPI] = {0, GM_OPTION_BOOL, "--mpi", "mpi", NULL, NULL, NULL, 0, 0,
             "modes auto and graphblas: started by mpirun, each process multiplies a range of rows"},
    [ANY_SIZE] = {0, GM_OPTION_BOOL, "--any-size", "any-size", NULL, NULL, NULL, 0, 0,
                  "read files with far more rows or columns than entries; memory grows with the rows"},
    [JSON] = {0, GM_OPTION_TEXT, "--json", "json", NULL, "FILE", NULL, 0, 0,
              "also write everything as JSON; - = stdout, which then gets nothing else"},
    [HELP] = {0, GM_OPTION_BOOL, "--help", "help", NULL, NULL, NULL, 0, 0, "this text"},
};

static int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("spgemm: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return SPG_EXIT_USAGE;
}

static int printed(void) {
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    fputs("spgemm: cannot write to stdout\n", stderr);
    return 1;
}

static void help(void) {
    puts("usage: spgemm --matrix FILE|gen:NAME [--b FILE|gen:NAME] --mode MODE|--model [OPTION...]\n\n"
         "Multiplies sparse matrices, C = A B, and says what it took in time and memory.\n");
    for (int i = 0; i < ROWS; i++)
        printf("  --%-13s %-14s %s\n", rows[i].flag, rows[i].unit ? rows[i].unit : "", rows[i].help);
    puts("\nmodes:");
    const struct spg_mode *mode;
    for (unsigned i = 0; (mode = spg_mode_at(i)); i++) {
        printf("  %-12s %s", mode->name, mode->help);
        if (mode->arguments)
            printf("; after a colon: %s", mode->arguments);
        puts(mode->ops ? "" : " (not in this build)");
    }
}

/* Reads "0,1" or "all". */
static int take_devices(const char *text, struct spg_settings *s) {
    const char *at = text;
    char *end = (char *)at;
    s->on_devices = true;
    s->devices_count = 0;
    if (!strcmp(text, "all"))
        return -1;
    for (; s->devices_count < SPG_DEVICES; at = end + 1) {
        long device = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (device < 0 || device > INT16_MAX || (*end && *end != ','))
            break;
        s->devices[s->devices_count++] = (int)device;
        if (!*end)
            return -1;
    }
    return usage_error("--devices=%s is not all, or up to %d numbers of devices as in 0,1", text, SPG_DEVICES);
}

static int take(enum row row, const char *text, struct spg_settings *s) {
    char why[256];
    uint64_t number = 0;
    bool automatic = row == SIZE_PER_ROW && !strcmp(text, "auto");
    if (rows[row].unit && rows[row].type != GM_OPTION_TEXT && !automatic &&
        gm_option_parse(&rows[row], text, &number, why, sizeof why))
        return usage_error("%s%s", why, row == SIZE_PER_ROW ? ", or auto" : "");
    switch (row) {
    case MATRIX: s->matrix = text; break;
    case B: s->b = text; break;
    case MODE: s->mode_text = text; break;
    case SIZE_PER_ROW: s->size_per_row = (int32_t)number; break;
    case VECTOR: s->vector = (enum spg_vector)number; break;
    case RUNS: s->runs = (unsigned)number; break;
    case WARMUP: s->warmup = (unsigned)number; break;
    case CHECK: s->check = true; break;
    case MODEL: s->model = true; break;
    case KERNEL: s->kernel = (enum spg_kernel)number; break;
    case PERSISTENT: s->persistent = true; break;
    case LAYOUT: s->columns = number == 1; break;
    case PRECISION: s->precision = (enum spg_precision)number; break;
    case LIMIT: s->limit = (size_t)number; break;
    case DEVICES: return take_devices(text, s);
    case MPI: s->mpi = true; break;
    case ANY_SIZE: s->any_size = true; break;
    case JSON: s->json = text; break;
    case HELP:
    case ROWS: break;
    }
    return -1;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Checks that the options fit together. */
static int check_settings(struct spg_settings *s) {
    struct spg_error error;
    if (!s->matrix)
        return usage_error("which matrix? --matrix FILE|gen:NAME; gen:list lists those");
    if (!strcmp(s->matrix, "gen:list")) {
        spg_generators_list(stdout);
        return printed();
    }
    if (!s->mode_text && !s->model)
        return usage_error("what to do? --mode MODE or --model; --help says more");
    if (s->check && !s->mode_text)
        return usage_error("--check needs a --mode whose product it checks");
    if (s->mode_text && !(s->mode = spg_mode_find(s->mode_text, &s->argument, &error)))
        return usage_error("%s", error.text);
    if (s->kernel == SPG_KERNEL_THESIS && s->mode && !s->mode->kernels)
        return usage_error("--kernel thesis: mode %s has a kernel of its own", s->mode->name);
    if (s->persistent && (!s->mode || !s->mode->sized || s->kernel != SPG_KERNEL_THESIS))
        return usage_error("--persistent needs --mode rounds and --kernel thesis");
    if ((s->on_devices || s->mpi) && !s->mode)
        return usage_error("%s needs --mode auto", s->on_devices ? "--devices" : "--mpi");
    if (s->on_devices && s->mpi)
        return usage_error("--devices and --mpi: each process chooses a device by itself");
    if (s->on_devices && !s->mode->on_devices)
        return usage_error("--devices: mode %s uses one device; mode auto can use several", s->mode->name);
    if (s->mpi && !s->mode->on_devices && !s->mode->on_host)
        return usage_error("--mpi: mode %s uses one device; modes auto and graphblas run in several processes",
                           s->mode->name);
    if ((s->on_devices || s->mpi) && !strcmp(s->argument, "wide"))
        return usage_error("%s: 64-bit offsets are for one device", s->on_devices ? "--devices" : "--mpi");
    if (s->mpi && s->model)
        return usage_error("--mpi and --model: the model describes the whole product; leave one out");
    if (s->json && (is_same_file(s->json, s->matrix) || (s->b && is_same_file(s->json, s->b))))
        return usage_error("--json '%s' is a matrix of the product; give another file", s->json);
#ifndef GM_HAVE_JANSSON
    if (s->json)
        return usage_error("--json needs jansson, which this build lacks");
#endif
    return -1;
}

int spg_settings_read(int argc, char **argv, struct spg_settings *settings) {
    struct option options[ROWS + 1] = {0};
    int option, status;
    for (int i = 0; i < ROWS; i++)
        options[i] = (struct option){rows[i].flag, rows[i].unit ? required_argument : no_argument, NULL, 256 + i};
    *settings = (struct spg_settings){.argument = "", .size_per_row = -1, .warmup = 1};
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == ':')
            return usage_error("option '%s' needs a value", argv[optind - 1]);
        if (option == '?')
            return usage_error("unknown option '%s'; --help lists them", argv[optind - 1]);
        if (option == 'h' || option == 256 + HELP) {
            help();
            return printed();
        }
        status = take((enum row)(option - 256), optarg, settings);
        if (status >= 0)
            return status;
    }
    if (optind < argc)
        return usage_error("'%s' is no option; files are named by --matrix and --b", argv[optind]);
    return check_settings(settings);
}
