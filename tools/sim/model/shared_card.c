/* A card that several processes share (SIMCUDA_CARD). Each of them has a place in a file, with the bytes that it uses
 * of each device. The place of a process that ended does not count. */
#include "sim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 64, DEVICES = 8 };

static struct place { size_t used[DEVICES]; } * places, *own;
static int card_file;

static bool lock_of(int number, int command, struct flock *lock) {
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return !fcntl(card_file, command, lock);
}

static bool is_of_another(int number) {
    struct flock lock;
    return &places[number] != own && lock_of(number, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

void sim_card_share(const char *file) {
    struct flock lock;
    int fd = file && *file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    card_file = fd;
    if (!ftruncate(fd, sizeof *places * PLACES))
        places = mmap(NULL, sizeof *places * PLACES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (places == MAP_FAILED)
        places = NULL;
    for (int i = 0; places && i < PLACES && !own; i++)
        if (lock_of(i, F_OFD_SETLK, &lock))
            own = &places[i];
    for (int device = 0; own && device < DEVICES; device++)
        own->used[device] = 0;
}

static int number_of(const struct sim_device *device) { return (int)(device - sim_devices); }

size_t sim_card_others(const struct sim_device *device) {
    size_t bytes = 0;
    for (int i = 0; places && i < PLACES; i++)
        if (__atomic_load_n(&places[i].used[number_of(device)], __ATOMIC_SEQ_CST) && is_of_another(i))
            bytes += __atomic_load_n(&places[i].used[number_of(device)], __ATOMIC_SEQ_CST);
    return bytes;
}

void sim_card_tell(const struct sim_device *device) {
    if (own)
        __atomic_store_n(&own->used[number_of(device)], device->used, __ATOMIC_SEQ_CST);
}

size_t sim_free_bytes(const struct sim_device *device) {
    size_t used = device->used + sim_card_others(device);
    return used < sim_opt.memory ? sim_opt.memory - used : 0;
}
