/* A management library of cards for tests. FAKE_NVML lists its processes as "PID:BYTES ..."; PID "me" is the caller,
 * and "refused" makes nvmlInit fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In its first answer each process has so many bytes less than in the next ones. */
#define FIRST_LESS (1u << 20)

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned instances[2];
};

__attribute__((visibility("default"))) int nvmlInit_v2(void);
int nvmlInit_v2(void) {
    const char *list = getenv("FAKE_NVML");
    return !list || !strcmp(list, "refused");
}

__attribute__((visibility("default"))) int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **card);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **card) {
    *card = (void *)bus_id;
    return strcmp(bus_id, "0000:01:00.0") != 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *count,
                                                                                   struct process *out);
int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *count, struct process *out) {
    static unsigned asked;
    char list[256];
    unsigned room = *count;
    snprintf(list, sizeof list, "%s", getenv("FAKE_NVML"));
    *count = 0;
    for (char *word = strtok(list, " "); word && *count < room; word = strtok(NULL, " ")) {
        struct process *process = &out[(*count)++];
        process->pid = !strncmp(word, "me:", 3) ? (unsigned)getpid() : (unsigned)atoi(word);
        process->bytes = strtoull(strchr(word, ':') + 1, NULL, 10) + (asked ? FIRST_LESS : 0);
    }
    asked++;
    return 0;
}
