/* gpumem plot: starts the Python program that draws. That program gets its numbers by running gpumem report and, with
 * --json, this command. */
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/launch.h"
#include "tools/cli/plot_series.h"
#include "tools/cli/reader.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef GM_DATADIR
#define GM_DATADIR "share" /* relative to the prefix */
#endif

struct options {
    const char *output;
    unsigned long top, zoom;
    bool json;
};

static int take(void *options, const char *name, const char *value) {
    struct options *o = options;
    if (!strcmp(name, "top"))
        return gm_flag_count("plot", name, value, 1, 1000, &o->top);
    if (!strcmp(name, "zoom"))
        return gm_flag_count("plot", name, value, 1, 1000000000, &o->zoom);
    if (!strcmp(name, "json"))
        o->json = true;
    else
        o->output = value;
    return 0;
}

void gm_command_plot_help(void) {
    puts("usage: gpumem plot -o FOLDER [OPTION...] FILE|FOLDER...\n"
         "       gpumem plot --json [--zoom=OBJECTS] FILE\n\n"
         "Draws pictures of traces, each as SVG and PNG, and writes them with tables into report.html, which needs\nno "
         "other file and no network. Needs python3 with matplotlib.\n");
    gm_flags_help("plot");
}

/* Finds the drawing program in the build tree or installation of this tool. */
static int find_program(char *path, size_t size, char *tool, size_t tool_size) {
    static const char *const paths[] = {"plot/main.py", "../" GM_DATADIR "/gpumem/plot/main.py"};
    char folder[GM_PATH];
    if (gm_own_folder(folder, sizeof folder))
        return -1;
    snprintf(tool, tool_size, "%s/gpumem", folder);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(path, size, "%s/%s", folder, paths[i]);
        if (!access(path, R_OK))
            return 0;
    }
    gm_complain("plot: '%s' is missing: the installation is not complete", path);
    return -1;
}

static int draw(const struct options *o, char **traces, int count) {
    char program[2 * GM_PATH], tool[GM_PATH + 8], top[24], zoom[24];
    const char **words = calloc((size_t)count + 12, sizeof *words);
    int at = 0;
    if (!words || find_program(program, sizeof program, tool, sizeof tool)) {
        free(words);
        return 1;
    }
    snprintf(top, sizeof top, "%lu", o->top);
    snprintf(zoom, sizeof zoom, "%lu", o->zoom);
    const char *const head[] = {"python3", program, "--tool", tool, "--output", o->output,
                                "--top",   top,     "--zoom", zoom, "--"};
    for (; at < (int)(sizeof head / sizeof *head); at++)
        words[at] = head[at];
    for (int i = 0; i < count; i++)
        words[at++] = traces[i];
    execvp("python3", (char *const *)words);
    gm_complain("plot: python3: %s; pictures are drawn by python3 with matplotlib", strerror(errno));
    free(words);
    return 1;
}

/* The pictures are made of single blocks. What cannot be read is reported when it is drawn. */
static bool can_draw(char **traces, int count) {
    char error[512];
    bool blocks = true;
    for (int i = 0; i < count && blocks; i++) {
        struct gm_reader *reader = gm_reader_open(traces[i], error, sizeof error);
        blocks = !reader || gm_reader_has_blocks(reader, "plot", error, sizeof error);
        gm_reader_close(reader);
    }
    if (!blocks)
        gm_complain("%s; gpumem html draws it", error);
    return blocks;
}

int gm_command_plot(int argc, char **argv) {
    struct options options = {.top = 10, .zoom = 1000};
    struct stat st;
    int first, status = gm_flags_read(argc, argv, take, &options, gm_command_plot_help, &first);
    if (status >= 0)
        return status;
    if (options.json && (options.output || first + 1 != argc))
        return gm_usage_error("plot: --json needs one trace and no output; usage: gpumem plot --json FILE");
    if (options.json)
        return can_draw(argv + first, 1) ? gm_plot_series_print(argv[first], options.zoom) : 1;
    if (!options.output)
        return gm_usage_error("plot: no output given; use -o FOLDER");
    if (first == argc)
        return gm_usage_error("plot: no trace given; usage: gpumem plot -o FOLDER [OPTION...] FILE|FOLDER...");
    if (!stat(options.output, &st) && !S_ISDIR(st.st_mode))
        return gm_usage_error("plot: '%s' is not a folder", options.output);
    return can_draw(argv + first, argc - first) ? draw(&options, argv + first, argc - first) : 1;
}
