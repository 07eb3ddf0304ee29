/* What the host code of nvcc takes of the C++ runtime. With it the library needs no libstdc++: guards of static
 * variables, and the start of the standard streams, which headers ask for and nothing here uses. */
#include <pthread.h>

static pthread_mutex_t initializing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* a variable may need another one */

int __cxa_guard_acquire(char *initialized);
void __cxa_guard_release(char *initialized);
void _ZNSt8ios_base4InitC1Ev(void *streams);
void _ZNSt8ios_base4InitD1Ev(void *streams);

/* Returns 1 if the caller must initialize the variable, which then ends with the release. */
int __cxa_guard_acquire(char *initialized) {
    if (__atomic_load_n(initialized, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&initializing);
    if (!*initialized)
        return 1;
    pthread_mutex_unlock(&initializing);
    return 0;
}

void __cxa_guard_release(char *initialized) {
    __atomic_store_n(initialized, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&initializing);
}

void _ZNSt8ios_base4InitC1Ev(void *streams) { (void)streams; }
void _ZNSt8ios_base4InitD1Ev(void *streams) { (void)streams; }
