#include "tools/cli/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum { AUTO, ALWAYS, NEVER } choice;

bool gm_colour_choose(const char *when) {
    static const char *const words[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(when, words[i])) {
            choice = i;
            return true;
        }
    return false;
}

static bool wanted(FILE *stream) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (choice != AUTO)
        return choice == ALWAYS;
    return isatty(fileno(stream)) && (!none || !*none) && terminal && strcmp(terminal, "dumb");
}

const char *gm_paint(FILE *stream, enum gm_paint paint) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[31m"};
    static int known[2] = {-1, -1}; /* stdout, stderr */
    if (stream != stdout && stream != stderr)
        return "";
    int *on = &known[stream == stderr];
    if (*on < 0)
        *on = wanted(stream);
    return *on ? codes[paint] : "";
}

void gm_print_heading(const char *text) {
    printf("\n%s%s%s\n", gm_paint(stdout, GM_BOLD), text, gm_paint(stdout, GM_PLAIN));
}
