/* Embeds a CPython that it opens privately (run_python.py): memory before the interpreter begins, in it, in a second
 * interpreter of the process, from a thread that outlives it, after its end, and in an interpreter that begins again.
 *
 * usage: python_embed LIBPYTHON */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *python, *cuda;
static pthread_barrier_t begun, ended;

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "no %s: %s\n", name, dlerror());
        exit(77);
    }
    return found;
}
#define CALL(library, type, name, ...) ((type)function(library, #name))(__VA_ARGS__)

static void allocate(size_t bytes) {
    CUdeviceptr block;
    if (CALL(cuda, CUresult(*)(CUdeviceptr *, size_t), cuMemAlloc_v2, &block, bytes))
        exit(1);
}

/* A function of Python written in C, which keeps the global interpreter lock. */
static void *allocate_method(void *self, void *bytes) {
    allocate((size_t)CALL(python, long (*)(void *), PyLong_AsLong, bytes));
    return CALL(python, void *(*)(long), PyLong_FromLong, 0);
}

static struct {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *help;
} method = {"allocate", allocate_method, 8 /* one argument */, NULL};

static void run(const char *name, int bytes) {
    char text[128];
    void *module = CALL(python, void *(*)(const char *), PyImport_AddModule, "__main__");
    void *allocator = CALL(python, void *(*)(void *, void *, void *), PyCFunction_NewEx, &method, NULL, NULL);
    CALL(python, int (*)(void *, const char *, void *), PyObject_SetAttrString, module, "allocate", allocator);
    snprintf(text, sizeof text, "def %s():\n    allocate(%d)\n%s()\n", name, bytes, name);
    if (CALL(python, int (*)(const char *), PyRun_SimpleString, text))
        exit(1);
}

/* Has a thread state, which the end of the interpreter deletes. */
static void *stay(void *context) {
    if (CALL(cuda, CUresult(*)(CUcontext), cuCtxSetCurrent, context))
        exit(1);
    CALL(python, int (*)(void), PyGILState_Ensure);
    run("beside", 3 << 20);
    CALL(python, void *(*)(void), PyEval_SaveThread);
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&ended);
    allocate(7 << 20);
    return NULL;
}

int main(int argc, char **argv) {
    CUcontext context;
    CUdevice device;
    pthread_t thread;
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    python = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!cuda || !python) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    if (CALL(cuda, CUresult(*)(unsigned), cuInit, 0) ||
        CALL(cuda, CUresult(*)(CUdevice *, int), cuDeviceGet, &device, 0) ||
        CALL(cuda, CUresult(*)(CUcontext *, CUdevice), cuDevicePrimaryCtxRetain, &context, device) ||
        CALL(cuda, CUresult(*)(CUcontext), cuCtxSetCurrent, context))
        return 1;
    allocate(1 << 20);
    CALL(python, void (*)(int), Py_InitializeEx, 0);
    run("first", 2 << 20);

    pthread_barrier_init(&begun, NULL, 2);
    pthread_barrier_init(&ended, NULL, 2);
    pthread_create(&thread, NULL, stay, context);
    void *own = CALL(python, void *(*)(void), PyEval_SaveThread);
    pthread_barrier_wait(&begun);
    CALL(python, void (*)(void *), PyEval_RestoreThread, own);

    void *second = CALL(python, void *(*)(void), Py_NewInterpreter);
    run("second", 4 << 20);
    CALL(python, void (*)(void *), Py_EndInterpreter, second);
    CALL(python, void *(*)(void *), PyThreadState_Swap, own);
    run("again", 5 << 20);

    CALL(python, int (*)(void), Py_FinalizeEx);
    allocate(6 << 20);
    pthread_barrier_wait(&ended);
    pthread_join(thread, NULL);
    CALL(python, void (*)(int), Py_InitializeEx, 0);
    run("anew", 8 << 20);
    CALL(python, int (*)(void), Py_FinalizeEx);
    puts("ok");
    return 0;
}
