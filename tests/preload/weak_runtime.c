/* A program that checks whether the runtime is present: it is linked without it, so it is not. */
#include <stdio.h>

extern int cudaMalloc(void **, unsigned long) __attribute__((weak));
extern int cudaFree(void *) __attribute__((weak));
extern int cudaMallocAsync(void **, unsigned long, void *) __attribute__((weak));
extern int cudaGetDeviceCount(int *) __attribute__((weak));

int main(void) {
    printf("ok weak_runtime %s\n",
           &cudaMalloc || &cudaFree || &cudaMallocAsync || &cudaGetDeviceCount ? "present" : "absent");
    return 0;
}
