/* Arguments of the program. Each wrong value ends the program with one line that names it, and status 2. */
#ifndef HADRON_ARGUMENTS_H
#define HADRON_ARGUMENTS_H

#include <stdint.h>

enum { WRONG_USAGE = 2 };

struct rate {
    uint32_t part, whole;
};

__attribute__((format(printf, 1, 2), noreturn)) void fail_usage(const char *format, ...);

/* `name` is the option's, without its dashes. */
uint64_t parse_number(const char *name, const char *text, uint64_t least, uint64_t most);

/* N/D from 0/1 to 1/1, as it was written. */
struct rate parse_rate(const char *name, const char *text);

struct rate reduced(struct rate rate);

/* Nodes of a vector of `size` that the rate makes; a usage error where that is no whole number. */
uint32_t nodes_of(struct rate rate, uint32_t size);

/* Index of `text` among `choices`, which NULL ends. */
int parse_choice(const char *name, const char *text, const char *const *choices);

#endif
