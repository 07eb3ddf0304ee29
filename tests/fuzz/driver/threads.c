/* Host threads. They take turns, so that the calls have one order, but for the calls of a group. */
#include "perform.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    pthread_t thread;
    bool lives, ends;
    struct made *calls; /* to be made */
    size_t count;
} threads[1 + THREADS];

static CUresult make(const struct call *call, int *current, uint32_t *seen) {
    uint32_t variant = call->variant;
    if (call->kind != NEW_CONTEXT && call->context != *current) {
        TRY(CALL(cuCtxSetCurrent, world.contexts[call->context]));
        *current = call->context;
    }
    CUresult result = make_call(call, seen);
    if (call->kind == NEW_CONTEXT || call->kind == DESTROY_CONTEXT)
        *current = NOBODY;
    return result;
}

static void *work(void *argument) {
    int own = (int)(intptr_t)argument, current = NOBODY;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!threads[own].ends && !threads[own].count)
            pthread_cond_wait(&changed, &lock);
        if (threads[own].ends)
            break;
        struct made *calls = threads[own].calls;
        size_t count = threads[own].count;
        pthread_mutex_unlock(&lock);
        for (size_t i = 0; i < count; i++)
            if (calls[i].call->thread == own)
                calls[i].result = make(calls[i].call, &current, calls[i].seen);
        pthread_mutex_lock(&lock);
        threads[own].count = 0;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void make_by_threads(struct made *calls, size_t count) {
    for (size_t i = 0; i < count; i++)
        begin_thread(calls[i].call->thread);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        threads[calls[i].call->thread].calls = calls;
        threads[calls[i].call->thread].count = count;
    }
    pthread_cond_broadcast(&changed);
    for (int thread = 1; thread <= THREADS; thread++)
        while (threads[thread].count)
            pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void begin_thread(int thread) {
    if (threads[thread].lives)
        return;
    threads[thread].ends = false;
    if (pthread_create(&threads[thread].thread, NULL, work, (void *)(intptr_t)thread) != 0)
        abort();
    threads[thread].lives = true;
}

void end_thread(int thread) {
    if (!threads[thread].lives)
        return;
    pthread_mutex_lock(&lock);
    threads[thread].ends = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(threads[thread].thread, NULL);
    threads[thread].lives = false;
}
