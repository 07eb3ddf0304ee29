/* A program that uses the driver only where weak references find one. It is linked without the driver and none is
 * loaded, so there is none: a name that exists all the same must return an error, like a driver that was not
 * initialised. */
#include <stdio.h>

extern int cuInit(unsigned int) __attribute__((weak));
extern int cuMemAlloc_v2(unsigned long long *, unsigned long) __attribute__((weak));
extern int cuMemFree_v2(unsigned long long) __attribute__((weak));

int main(void) {
    unsigned long long memory = 0;
    int usable = (&cuInit && cuInit(0) == 0) || (&cuMemAlloc_v2 && cuMemAlloc_v2(&memory, 4096) == 0) ||
                 (&cuMemFree_v2 && cuMemFree_v2(4096) == 0);
    printf("ok weak_driver %s\n", usable || memory ? "usable" : "absent");
    return 0;
}
