/* One random program of driver calls (plan.h). Exit status 9: something was not as the plan says. 3: it did not end.
 * 77: not possible here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static bool left_out[STEPS + 1];

/* "3,7-12": the steps not to take. */
static void leave_out(const char *text) {
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i <= STEPS; i++)
            left_out[i] = true;
        text = *end ? end + 1 : end;
    }
}

static void usage(void) {
    fputs("usage: driver_calls [--seed=N] [--steps=N] [--without=N,N-N,...] [--lacks=FEATURE,...] [--device]\n"
          "                    [--devices=N] [--kernels=FOLDER] [--spin=US] [--print] [--show]\n"
          "--lacks: features of model.h. --device: only what needs no more than order on the device. --kernels: of a "
          "card, else the driver is the\n"
          "simulated one. --print: prints the calls, makes none. --show: names each call before it is made.\n",
          stderr);
    exit(2);
}

static const char *value_of(const char *word, const char *option) {
    size_t length = strlen(option);
    return strncmp(word, option, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

int main(int count, char **words) {
    struct choice choice = {.seed = 1, .steps = 60, .devices = 2, .left_out = left_out};
    struct place place = {.spin_us = 300};
    bool prints = false;
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *value;
        if ((value = value_of(word, "--seed")))
            choice.seed = strtoull(value, NULL, 10);
        else if ((value = value_of(word, "--steps")))
            choice.steps = (unsigned)atoi(value);
        else if ((value = value_of(word, "--without")))
            leave_out(value);
        else if ((value = value_of(word, "--lacks")))
            choice.lacks = value;
        else if ((value = value_of(word, "--kernels")))
            place.kernels = value;
        else if ((value = value_of(word, "--devices")))
            choice.devices = atoi(value);
        else if ((value = value_of(word, "--spin")))
            place.spin_us = (unsigned)atoi(value);
        else if (strcmp(word, "--device") == 0)
            choice.device_only = true;
        else if (strcmp(word, "--print") == 0)
            prints = true;
        else if (strcmp(word, "--show") == 0)
            place.shows = true;
        else
            usage();
    }
    if (choice.steps == 0 || choice.steps > STEPS)
        usage();
    choice.card = place.kernels != NULL;
    struct plan *plan = plan_make(&choice);
    if (prints) {
        plan_print(plan);
        return 0;
    }
    unsigned mistakes = plan_perform(plan, &place);
    printf("%s %zu calls, %u mistakes\n", mistakes ? "not ok" : "ok", plan->count, mistakes);
    return mistakes ? 9 : 0;
}
