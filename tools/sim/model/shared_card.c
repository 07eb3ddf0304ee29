/* A card that several processes share (SIMCUDA_CARD). Each of them has a place in a file, with the bytes that it uses
 * of each device. The place of a process that ended does not count. */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 64, DEVICES = 8 };

static struct place {
    int pid;
    size_t used[DEVICES];
} * places;

void sim_card_share(const char *file) {
    int fd = file && *file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    if (!ftruncate(fd, sizeof *places * PLACES))
        places = mmap(NULL, sizeof *places * PLACES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (places == MAP_FAILED)
        places = NULL;
    close(fd);
}

static bool runs(int pid) { return pid && (!kill(pid, 0) || errno != ESRCH); }

/* The place of this process, which may be the child of a fork. */
static struct place *own_place(void) {
    static struct place *own;
    for (int i = 0; i < PLACES && (!own || own->pid != getpid()); i++) {
        int before = __atomic_load_n(&places[i].pid, __ATOMIC_RELAXED);
        if (!runs(before) &&
            __atomic_compare_exchange_n(&places[i].pid, &before, getpid(), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            own = &places[i];
            for (int device = 0; device < DEVICES; device++)
                own->used[device] = 0;
        }
    }
    return own && own->pid == getpid() ? own : NULL;
}

static int number_of(const struct sim_device *device) { return (int)(device - sim_devices); }

size_t sim_card_others(const struct sim_device *device) {
    size_t bytes = 0;
    for (int i = 0; places && i < PLACES; i++)
        if (places[i].pid != getpid() && runs(places[i].pid))
            bytes += __atomic_load_n(&places[i].used[number_of(device)], __ATOMIC_SEQ_CST);
    return bytes;
}

void sim_card_tell(const struct sim_device *device) {
    struct place *own = places ? own_place() : NULL;
    if (own)
        __atomic_store_n(&own->used[number_of(device)], device->used, __ATOMIC_SEQ_CST);
}

size_t sim_free_bytes(const struct sim_device *device) {
    size_t used = device->used + sim_card_others(device);
    return used < sim_opt.memory ? sim_opt.memory - used : 0;
}
