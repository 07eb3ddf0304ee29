#include "examples/hadron/arguments.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("hadron: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(WRONG_USAGE);
}

uint64_t parse_number(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < least || value > most)
        fail_usage("--%s %s is not a number from %" PRIu64 " to %" PRIu64, name, text, least, most);
    return value;
}

struct rate parse_rate(const char *name, const char *text) {
    struct rate rate;
    int length = 0;
    if (sscanf(text, "%6u/%6u%n", &rate.part, &rate.whole, &length) != 2 || text[length] || !rate.whole ||
        rate.part > rate.whole)
        fail_usage("--%s %s is not a fraction N/D from 0/1 to 1/1", name, text);
    return rate;
}

static uint32_t divisor(uint32_t a, uint32_t b) { return b ? divisor(b, a % b) : a; }

struct rate reduced(struct rate rate) {
    const uint32_t common = divisor(rate.part, rate.whole);
    return (struct rate){rate.part / common, rate.whole / common};
}

uint32_t nodes_of(struct rate rate, uint32_t size) {
    if ((uint64_t)size * rate.part % rate.whole)
        fail_usage("--repeated-rate %" PRIu32 "/%" PRIu32 " of --vector-size %" PRIu32
                   " is not a whole number of nodes",
                   rate.part, rate.whole, size);
    return (uint32_t)((uint64_t)size * rate.part / rate.whole);
}

int parse_choice(const char *name, const char *text, const char *const *choices) {
    for (int i = 0; choices[i]; i++) {
        if (!strcmp(text, choices[i]))
            return i;
    }
    char all[256] = "";
    for (int i = 0; choices[i]; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", choices[i]);
    fail_usage("--%s %s is none of %s", name, text, all);
}
