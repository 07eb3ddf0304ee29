/* The cases of a program, one of which runs under its name. The list grows from their definitions:
 *
 *     CASE(freed_twice) { ... }
 *
 * A program with rows of its own type, whose first member is the name, lists them by LIST_CASE. */
#ifndef PRELOAD_CASES_H
#define PRELOAD_CASES_H

#include "program.h"

#define LIST_CASE(type, label, ...)                         \
    static const type case_##label = {#label, __VA_ARGS__}; \
    static const void *const listed_##label __attribute__((used, section("program_cases"))) = &case_##label

struct program_case {
    const char *name;
    void (*run)(void);
};

#define CASE(name)                                     \
    static void name(void);                            \
    LIST_CASE(struct program_case, name, .run = name); \
    static void name(void)

extern const void *const __start_program_cases[] __attribute__((visibility("hidden")));
extern const void *const __stop_program_cases[] __attribute__((visibility("hidden")));

/* The row of that name; fails where there is none. name: NULL where the program has no argument. */
static inline const void *case_named(const char *name) {
    for (const void *const *row = __start_program_cases; name && row < __stop_program_cases; row++)
        if (strcmp(name, *(const char *const *)*row) == 0)
            return *row;
    fail("there is no such case", __LINE__, 0);
    return NULL;
}

#endif
