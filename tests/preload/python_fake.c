/* Exports the names of a CPython with FAKE_VERSION whose structs hold no valid address (run_python.py). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uintptr_t thread[64];
long PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
uint64_t _PyRuntime[128];

const char *Py_GetVersion(void);
const char *Py_GetVersion(void) { return getenv("FAKE_VERSION"); }

int Py_IsFinalizing(void);
int Py_IsFinalizing(void) { return 0; }

void *PyGILState_GetThisThreadState(void);
void *PyGILState_GetThisThreadState(void) { return thread; }

/* Fields point to each other, to nothing mapped, or to the struct itself. */
__attribute__((constructor)) static void fill(void) {
    const char *fields = getenv("FAKE_FIELDS");
    uintptr_t value = fields && !strcmp(fields, "self") ? (uintptr_t)thread : 0x1000;
    for (int i = 0; i < 64; i++)
        thread[i] = value;
    memcpy(_PyRuntime, "xdebugpy", 8);
    _PyRuntime[1] = UINT64_C(0x030d00f0);
    for (int i = 3; i < 128; i++)
        _PyRuntime[i] = fields && !strcmp(fields, "far") ? UINT64_MAX : 8;
}
