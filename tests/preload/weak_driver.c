/* A program that asks whether the driver is there by weak references: linked without it, the answer is no. */
#include <stdio.h>

extern int cuInit(unsigned int) __attribute__((weak));
extern int cuMemAlloc_v2(unsigned long long *, unsigned long) __attribute__((weak));
extern int cuMemFree_v2(unsigned long long) __attribute__((weak));

int main(void) {
    printf("ok weak_driver %s\n", &cuInit || &cuMemAlloc_v2 || &cuMemFree_v2 ? "present" : "absent");
    return 0;
}
