/* Trains nothing, but holds memory as training does: parameters, activations and gradients on each device, epoch after
 * epoch. One function forgets a buffer in each epoch, which gpumem report --leaks and gpumem html show. */
#include "check.h"
#include "shim/gpumem.h"

#include <time.h>

/* Of the preloaded gpumem; nothing without it. */
#pragma weak gpumem_mark

enum { LAYERS = 8, STEPS = 12, EPOCHS = 4, DEVICES = 8 };
#define MIB ((size_t)1 << 20)

static void *parameters[DEVICES][LAYERS], *activations[DEVICES][LAYERS], *gradients[DEVICES][LAYERS];
static int devices;

static void work(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static void *new_tensor(size_t bytes) {
    void *data;
    CHECK(cudaMalloc(&data, bytes));
    CHECK(cudaMemset(data, 0, bytes));
    work(150);
    return data;
}

static void load_parameters(int device) {
    for (int layer = 0; layer < LAYERS; layer++)
        parameters[device][layer] = new_tensor((size_t)(4 + layer % 3) * MIB);
}

static void *load_batch(int step) { return new_tensor((size_t)(6 + step % 4) * MIB); }

static void forward(int device) {
    for (int layer = 0; layer < LAYERS; layer++)
        activations[device][layer] = new_tensor((size_t)(2 + layer % 4) * MIB);
}

static void backward(int device) {
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        gradients[device][layer] = new_tensor((size_t)(1 + layer % 3) * MIB);
        CHECK(cudaFree(activations[device][layer]));
    }
}

static void update(int device) {
    for (int layer = 0; layer < LAYERS; layer++)
        CHECK(cudaFree(gradients[device][layer]));
}

/* The leak: nobody frees what an epoch wrote down. */
static void write_checkpoint(void) { new_tensor(12 * MIB); }

static void train_epoch(int device) {
    CHECK(cudaSetDevice(device));
    for (int step = 0; step < STEPS; step++) {
        void *batch = load_batch(step);
        forward(device);
        backward(device);
        update(device);
        CHECK(cudaFree(batch));
    }
}

int main(void) {
    CHECK(cudaGetDeviceCount(&devices));
    devices = devices < DEVICES ? devices : DEVICES;
    for (int device = 0; device < devices; device++) {
        CHECK(cudaSetDevice(device));
        load_parameters(device);
    }
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        char text[16];
        snprintf(text, sizeof text, "epoch %d", epoch);
        if (gpumem_mark)
            gpumem_mark(text);
        for (int device = 0; device < devices; device++)
            train_epoch(device);
        write_checkpoint();
    }
    for (int device = 0; device < devices; device++)
        for (int layer = 0; layer < LAYERS; layer++)
            CHECK(cudaFree(parameters[device][layer]));
    printf("epochs: %d epochs on %d devices; %d checkpoints of 12 MiB are not freed\n", EPOCHS, devices, EPOCHS);
    return 0;
}
