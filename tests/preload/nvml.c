/* A management library of cards for tests. FAKE_NVML lists its processes as "PID:BYTES ..."; PID "me" is the caller,
 * and "refused" makes nvmlInit fail. There is one simulated device of 16 GiB, of which the driver has 256 MiB in use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcuda.h"

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

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

#define GIB (1ull << 30)
#define MIB (1ull << 20)

__attribute__((visibility("default"))) int nvmlDeviceGetUUID(void *device, char *text, unsigned length);
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory);

int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    unsigned char bytes[16];
    char digits[33];
    simcuda_uuid(bytes, 0);
    for (int i = 0; i < 16; i++)
        snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
    return snprintf(text, length, "GPU-%.8s-%.4s-%.4s-%.4s-%s", digits, digits + 8, digits + 12, digits + 16,
                    digits + 20) >= (int)length;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    *memory = (struct memory){16 * GIB, 16 * GIB - 256 * MIB, 256 * MIB};
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory) {
    *memory = (struct memory_v2){memory->version, 16 * GIB, 256 * MIB, 16 * GIB - 256 * MIB, 0};
    return 0;
}
